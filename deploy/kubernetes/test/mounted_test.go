package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// program is the gateway, built of this working copy.
var program = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(scratch, "drawbridge")
	build := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./cmd/drawbridge")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// pod is what the gateway sees in a pod of what was rendered, in a folder instead of /.
type pod struct {
	root    string
	binary  string
	env     []string
	volumes map[string]string // the folder of each Secret and ConfigMap by its name
}

// mounted makes the volumes of the only container as the kubelet does. The content of
// Secrets, and of ConfigMaps that the chart does not make, is in more, by name.
func mounted(t *testing.T, all []runtime.Object, more map[string]map[string]string) *pod {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	spec := the[*apps.Deployment](t, all).Spec.Template.Spec
	p := &pod{
		root: t.TempDir(), binary: binary, volumes: make(map[string]string),
		env: append(os.Environ(), "POD_NAME=drawbridge-0"),
	}
	for _, variable := range spec.Containers[0].Env[1:] {
		p.env = append(p.env, variable.Name+"=example")
	}
	for _, mount := range spec.Containers[0].VolumeMounts {
		for _, volume := range spec.Volumes {
			switch {
			case volume.Name != mount.Name:
			case volume.Secret != nil:
				p.volumes[volume.Secret.SecretName] = filepath.Join(p.root, mount.MountPath)
			case volume.Name == "config":
				p.volumes["drawbridge.config"] = filepath.Join(p.root, mount.MountPath)
			case volume.ConfigMap != nil:
				p.volumes[volume.ConfigMap.Name+".config"] = filepath.Join(p.root, mount.MountPath)
			}
		}
	}
	p.project(t, "drawbridge.config", the[*core.ConfigMap](t, all).Data)
	for name, files := range more {
		p.project(t, name, files)
	}
	for name, folder := range p.volumes {
		if _, err := os.Stat(folder); err != nil {
			t.Fatalf("the test has no content for the volume of %s", name)
		}
	}
	return p
}

// project writes the files of a volume, at first or again, in the way of the kubelet:
// into a folder whose name is new, which takes the place of the one before when the link
// ..data is replaced. Each file is a link through ..data and never changes itself.
func (p *pod) project(t *testing.T, name string, files map[string]string) {
	t.Helper()
	volume := p.volumes[name]
	if volume == "" {
		t.Fatalf("nothing of %s is mounted", name)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(volume, 0o755))
	next := filepath.Join(volume, "..2026_11_22_"+rand.Text())
	must(os.Mkdir(next, 0o755))
	// Paths and addresses of the pod become those of the folder and of loopback.
	moved := strings.NewReplacer("/run/secrets/", p.root+"/run/secrets/", "/etc/drawbridge.d/",
		p.root+"/etc/drawbridge.d/",
		"0.0.0.0:8080", "127.0.0.1:0", "0.0.0.0:9090", "127.0.0.1:0")
	for file, text := range files {
		must(os.WriteFile(filepath.Join(next, file), []byte(moved.Replace(text)), 0o440))
	}
	before, _ := os.Readlink(filepath.Join(volume, "..data")) // none at first
	must(os.Symlink(filepath.Base(next), filepath.Join(volume, "..data_tmp")))
	must(os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
	for file := range files {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(volume, file)); err != nil &&
			!errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	if before != "" {
		must(os.RemoveAll(filepath.Join(volume, before)))
	}
}

// config is where the container's arguments say that it is.
func (p *pod) config() string { return filepath.Join(p.root, "etc", "drawbridge", "drawbridge.yaml") }

func (p *pod) validate(t *testing.T) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.binary, "validate", "-strict", "-config", p.config())
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func key(t *testing.T) string {
	t.Helper()
	random := make([]byte, 32)
	rand.Read(random)
	return base64.StdEncoding.EncodeToString(random) + "\n"
}

// secret is the Secret that the heads of the examples make.
func secret(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{"drawbridge": {
		"gateway.key": key(t), "session.keys": key(t),
		"redis.password": key(t),
	}}
}

// TestTheGatewayTakesTheConfigOfTheChart checks it with the gateway itself, without any
// warning, with files as they are mounted.
func TestTheGatewayTakesTheConfigOfTheChart(t *testing.T) {
	for _, name := range values {
		if out, err := mounted(t, rendered(t, example(t, name)), secret(t)).validate(t); err != nil ||
			!strings.Contains(out, "ok (") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestTheConfigCanBeInSeveralConfigMaps includes a file of a ConfigMap that the chart did
// not make.
func TestTheConfigCanBeInSeveralConfigMaps(t *testing.T) {
	team := map[string]string{"demo.yaml": "tenants: {demo: {servers: [toolbox], rules: [{allow: [\"toolbox__*\"]}]}}\n"}
	all := rendered(t, with(t, "single", map[string]any{
		"config.tenants": nil, "config.include": []any{"/etc/drawbridge.d/teams/*.yaml"},
		"configMaps": []any{"teams"},
	}))
	files := secret(t)
	files["teams.config"] = team
	if out, err := mounted(t, all, files).validate(t); err != nil || !strings.Contains(out, "ok (") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLongTextsKeepTheirWords has a text that YAML breaks into lines, and numbers and
// words that must stay what they are.
func TestLongTextsKeepTheirWords(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 40))
	all := rendered(t, with(t, "replicas", map[string]any{
		"config.servers.tracker.headers": map[string]any{
			"X-Long": long, "X-No": "no", "X-Number": "0123",
			"X-Quotes": `'"#: ` + "`",
		},
		"config.limits": map[string]any{"max_body": 16777216, "max_requests": 100000},
	}))
	if out, err := mounted(t, all, secret(t)).validate(t); err != nil || !strings.Contains(out, "ok (") {
		t.Errorf("%v: %s\n%s", err, out, the[*core.ConfigMap](t, all).Data["drawbridge.yaml"])
	}
	parsed := config(t, all)
	headers := parsed["servers"].(map[string]any)["tracker"].(map[string]any)["headers"].(map[string]any)
	if headers["X-Long"] != long || headers["X-No"] != "no" || headers["X-Number"] != "0123" ||
		parsed["limits"].(map[string]any)["max_body"] != 16777216.0 {
		t.Errorf("got %v and %v", headers, parsed["limits"])
	}
}

// TestOnAndOffOfValuesReachTheGateway has both without quotes, of which Helm makes true
// and false.
func TestOnAndOffOfValuesReachTheGateway(t *testing.T) {
	text, err := chartutil.ReadValues([]byte("{keys: on, output: {secrets: off, hidden_text: off}}"))
	if err != nil {
		t.Fatal(err)
	}
	all := rendered(t, with(t, "replicas", map[string]any{
		"config.access_keys": text["keys"], "config.tenants.acme.output": text["output"],
		"config.data": map[string]any{"postgres_file": "/run/secrets/drawbridge/postgres.dsn"},
	}))
	files := secret(t)
	files["drawbridge"]["postgres.dsn"] = "postgres://drawbridge:secret@127.0.0.1/drawbridge"
	if out, err := mounted(t, all, files).validate(t); err != nil || !strings.Contains(out, "ok (") {
		t.Errorf("%v: %s\n%s", err, out, the[*core.ConfigMap](t, all).Data["drawbridge.yaml"])
	}
}

func TestTheCheckOfTheConfigCanFail(t *testing.T) {
	files := secret(t)
	files["drawbridge"]["gateway.key"] = "short"
	if out, err := mounted(t, rendered(t, example(t, "single")), files).validate(t); err == nil {
		t.Errorf("a key that is none was taken: %s", out)
	}
}

// TestMountedFilesAreReadAgain changes the ConfigMap and the Secret of a gateway that
// runs, as the kubelet does, and then gives it a config that it must refuse. It starts
// once and is ready all the time.
func TestMountedFilesAreReadAgain(t *testing.T) {
	all := rendered(t, example(t, "single"))
	files := secret(t)
	p := mounted(t, all, files)
	operator, told := p.serve(t)
	ready := func() {
		t.Helper()
		eventually(t, "the gateway is ready",
			func() error { return ask(t.Context(), "http://"+operator+"/readyz") })
	}
	ready()
	data := the[*core.ConfigMap](t, all).Data["drawbridge.yaml"]
	changed := strings.Replace(data, "\n  demo:\n",
		"\n  other: {servers: [toolbox], rules: [{allow: [toolbox__*]}]}\n  demo:\n", 1)
	p.project(t, "drawbridge.config", map[string]string{"drawbridge.yaml": changed})
	eventually(t, "the changed ConfigMap is in force", func() error { return told(`tenant other added`) })
	files["drawbridge"]["gateway.key"] = key(t)
	p.project(t, "drawbridge", files["drawbridge"])
	eventually(t, "the changed Secret is in force", func() error { return told(`issuer drawbridge-local`) })
	p.project(t, "drawbridge.config", map[string]string{"drawbridge.yaml": "tenants: {}\n"})
	eventually(t, "the broken ConfigMap is refused", func() error { return told(`config refused`) })
	ready()
}

// serve runs the gateway until the test ends. It returns the operator's address, and a
// function that finds nothing wrong when the log has a text.
func (p *pod) serve(t *testing.T) (operator string, told func(string) error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), p.binary, "serve", "-config", p.config(), "-drain-delay", "0s")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // when the test ends
	cmd.Env, cmd.Stderr = p.env, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // it was ended by us
		_ = file.Close()
		if t.Failed() {
			t.Log(read(t, path))
		}
	})
	told = func(text string) error {
		if !strings.Contains(read(t, path), text) {
			return fmt.Errorf("the log has no %q", text)
		}
		return nil
	}
	eventually(t, "the gateway serves", func() error {
		for line := range bytes.Lines([]byte(read(t, path))) {
			var entry struct{ Msg, Operator string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
				operator = entry.Operator
				return nil
			}
		}
		return errors.New("it has not said so")
	})
	return operator, told
}

// ask wants 200.
func ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// eventually waits until check finds nothing wrong.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("in vain: %s: %v", what, err)
		}
	}
}
