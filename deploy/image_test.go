package deploy_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The image builds without network, with old engines too: these forms need a frontend from a registry or a newer one.
func TestDockerfileIsPlain(t *testing.T) {
	dockerfile := read(t, "../Dockerfile")
	for _, form := range []string{"# syntax", "<<", "--link", "RUN --mount", "ADD "} {
		if strings.Contains(dockerfile, form) {
			t.Errorf("the Dockerfile has %q", form)
		}
	}
	stages := strings.Split(dockerfile, "\nFROM ")
	final := stages[len(stages)-1]
	for _, line := range []string{
		"gcr.io/distroless/static-debian12:nonroot", "\nUSER 65532:65532\n", `CMD ["/drawbridge", "healthcheck"]`,
		"\n" + `ENTRYPOINT ["/drawbridge"]` + "\n", "\n" + `CMD ["serve", "-config", "/etc/drawbridge/drawbridge.yaml"]` + "\n",
	} {
		if !strings.Contains(final, line) {
			t.Errorf("the final stage lacks %q", line)
		}
	}
}

// Nothing of a working copy's secrets or history reaches the builder, because only what is named does.
func TestBuildContextIsAnAllowList(t *testing.T) {
	first := ""
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case first == "":
			if first = line; first != "*" {
				t.Errorf("the first pattern is %q, want *", first)
			}
		case strings.HasPrefix(line, "!deploy") && line != "!deploy/drawbridge.container.yaml":
			t.Errorf("%q lets more of deploy in than the image needs", line)
		}
	}
}

func TestComposeServicesHaveFewRights(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "../docker-compose.yml"), "\nservices:\n")
	services, _, _ := strings.Cut(rest, "\nnetworks:\n")
	starts := regexp.MustCompile(`(?m)^  ([a-z]+):.*$`).FindAllStringSubmatchIndex(services, -1)
	if len(starts) != 3 {
		t.Fatalf("found %d services, want gateway, upstream and prometheus", len(starts))
	}
	for i, start := range starts {
		end := len(services)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name, text := services[start[2]:start[3]], services[start[0]:end]
		for _, line := range []string{"read_only: true", "cap_drop: [ALL]", `security_opt: ["no-new-privileges:true"]`, "mem_limit:"} {
			if !strings.Contains(text, line) {
				t.Errorf("service %s lacks %s", name, line)
			}
		}
		for _, ports := range regexp.MustCompile(`ports: (.*)`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^\["127\.0\.0\.1:\d+:\d+"\]`).MatchString(ports[1]) {
				t.Errorf("service %s publishes %s, want one port on loopback", name, ports[1])
			}
			if name == "gateway" && !strings.HasPrefix(ports[1], `["127.0.0.1:8080:8080"]`) {
				t.Errorf("the gateway publishes %s; the operator's port must stay inside", ports[1])
			}
		}
	}
}

func TestComposeFileIsValid(t *testing.T) {
	compose, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Skip("skipped: no docker-compose (version 2) here; its config command checks the file without an engine")
	}
	if out, code := run(t.Context(), t, "..", compose, "config", "-q"); code != 0 {
		t.Errorf("docker-compose config: exit %d: %s", code, out)
	}
}
