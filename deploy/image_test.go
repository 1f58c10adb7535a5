package deploy_test

import (
	"go/version"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// What BuildKit has had since engine 20.10 is enough to build the image: these forms need
// a frontend from a registry or a newer one.
func TestDockerfileIsPlain(t *testing.T) {
	dockerfile := read(t, "../Dockerfile")
	for _, form := range []string{"\n# syntax", "<<", "--link", "RUN --mount=type=secret", "ADD "} {
		if strings.Contains("\n"+dockerfile, form) {
			t.Errorf("the Dockerfile has %q", form)
		}
	}
	stages := strings.Split(dockerfile, "\nFROM ")
	final := stages[len(stages)-1]
	for _, line := range []string{
		"${BASE_IMAGE} AS gateway", "\nUSER 65532:65532\n", `CMD ["/drawbridge", "healthcheck"]`,
		"\n" + `ENTRYPOINT ["/drawbridge"]` + "\n", "\n" +
			`CMD ["serve", "-config", "/etc/drawbridge/drawbridge.yaml"]` + "\n",
	} {
		if !strings.Contains(final, line) {
			t.Errorf("the final stage lacks %q", line)
		}
	}
}

// TestBasesArePinned wants each base image by its digest, with the tag beside it that
// people read. The image for Go must be new enough for go.mod: it does not fetch another.
func TestBasesArePinned(t *testing.T) {
	dockerfile := read(t, "../Dockerfile")
	pinned := regexp.MustCompile(`^(\S+):([^:@\s]+)@sha256:[0-9a-f]{64}$`)
	bases := make(map[string]string)
	for _, arg := range regexp.MustCompile(`(?m)^ARG (\w+_IMAGE)=(.*)$`).FindAllStringSubmatch(dockerfile,
		-1) {
		if !pinned.MatchString(arg[2]) {
			t.Errorf("%s is %q, want name:tag@sha256:…", arg[1], arg[2])
		}
		bases["${"+arg[1]+"}"] = arg[2]
	}
	stages := make(map[string]bool)
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`).FindAllStringSubmatch(dockerfile,
		-1) {
		if bases[from[1]] == "" && !stages[from[1]] {
			t.Errorf("the stage %s begins with %s, want one of the pinned images or another stage", from[2],
				from[1])
		}
		stages[from[2]] = true
	}
	needs := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "../go.mod"))[1]
	has := pinned.FindStringSubmatch(bases["${GO_IMAGE}"])[2]
	if len(stages) != 5 || version.Compare("go"+has, "go"+needs) < 0 {
		t.Errorf("found the stages %v and Go %s, want five and Go %s or newer", stages, has, needs)
	}
	for _, image := range regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(read(t,
		"../docker-compose.yml"), -1) {
		name := regexp.MustCompile(`^\$\{\w+:-(.*)\}$`).ReplaceAllString(image[1], "$1")
		if !strings.HasPrefix(name, "drawbridge") && !pinned.MatchString(name) { // ours are built here
			t.Errorf("the compose file takes %q, want name:tag@sha256:…", image[1])
		}
	}
}

// TestBuildFetchesAndCompilesOnce wants what go.mod names fetched before the sources
// come, so that a change of these fetches nothing, and a cache of the builder for what is
// compiled.
func TestBuildFetchesAndCompilesOnce(t *testing.T) {
	dockerfile := read(t, "../Dockerfile")
	order := regexp.MustCompile(
		`(?s)\nCOPY go\.mod go\.sum \./\nRUN go mod download\n.*COPY \. \.\n.*\nARG COMMIT\n`)
	if !order.MatchString(dockerfile) {
		t.Error(
			"the Dockerfile does not fetch the modules before the sources, and take the commit after them")
	}
	builds := regexp.MustCompile(`(?m)^.*go build`).FindAllStringIndex(dockerfile, -1)
	for _, at := range builds {
		if !strings.HasSuffix(dockerfile[:at[0]],
			"RUN --mount=type=cache,target=/root/.cache/go-build \\\n") {
			t.Errorf("%q has no cache", dockerfile[at[0]:at[1]])
		}
	}
	if len(builds) != 2 {
		t.Errorf("found %d builds, want two", len(builds))
	}
}

// TestImageKnowsItsCommitAndDate builds the program with the linker's settings that the
// Dockerfile has, and those with the arguments that make and the compose file give it.
func TestImageKnowsItsCommitAndDate(t *testing.T) {
	found := regexp.MustCompile(`-ldflags "(-s -w (?:-X \S+ ?)+)"`).FindStringSubmatch(read(t,
		"../Dockerfile"))
	if found == nil {
		t.Fatal("the Dockerfile sets nothing when it links")
	}
	recipe, code := run(t.Context(), t, "..", tool(t, "make", "make"), "--no-print-directory", "-n", "image",
		"VERSION=v9.8.7", "COMMIT=c0ffee", "DATE=2026-11-22T04:53:32Z")
	if code != 0 {
		t.Fatalf("make -n image: exit %d: %s", code, recipe)
	}
	flags := found[1]
	for _, arg := range regexp.MustCompile(`--build-arg (\w+)=(\S+)`).FindAllStringSubmatch(recipe, -1) {
		flags = strings.ReplaceAll(flags, "${"+arg[1]+"}", arg[2])
		if !strings.Contains(read(t, "../docker-compose.yml"), arg[1]+": ,") {
			t.Errorf("the compose file does not pass %s on", arg[1])
		}
	}
	if err := sources.Open(t.Context(), "../cmd/drawbridge"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "drawbridge")
	if out, code := run(t.Context(), t, "..", "go", "build", "-buildvcs=false", "-ldflags", flags, "-o",
		program, "./cmd/drawbridge"); code != 0 {
		t.Fatalf("go build: exit %d: %s", code, out)
	}
	out, _ := run(t.Context(), t, "..", program, "version")
	if want := "drawbridge v9.8.7\ncommit     c0ffee\ndate       2026-11-22T04:53:32Z\n"; !strings.HasPrefix(
		out, want) {
		t.Errorf("got %q, want at its beginning %q", out, want)
	}
}

// Nothing of a working copy's secrets or history reaches the builder, because only what
// is named does.
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
