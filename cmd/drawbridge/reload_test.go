package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

func TestWhatNeedsARestartIsNamed(t *testing.T) {
	started := parse(t, minimal)
	same := parse(t, minimal)
	if got := restartNeeded(started, same); len(got) != 0 {
		t.Errorf("the same config: got %v, want nothing", got)
	}
	next := parse(t, `listen: 127.0.0.1:8081
operator: 127.0.0.1:9091
revisions: {legacy_sse: false}
audit: {sync: always}
limits: {heartbeat: 5s}
lists: {page_size: 7}
sessions: {idle: 1m}
log: {format: text, level: debug}
trusted_proxies: [10.0.0.0/8]
`+minimal)
	want := []string{"audit", "limits", "listen", "lists.page_size", "log.format", "operator", "revisions.legacy_sse", "sessions"}
	if diff := cmp.Diff(want, restartNeeded(started, next)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIssuersThatChangeGetANewVerifier(t *testing.T) {
	issuer := issuerConfig{Issuer: auth.Issuer{
		Issuer: "a", Algorithms: []string{"ES256"}, Audiences: []string{"b"}, Tenant: "c", JWKSURL: "http://127.0.0.1:1/keys",
	}, private: true}
	public := issuer
	public.private = false
	for _, test := range []struct {
		name     string
		next     issuerConfig
		replaced bool
	}{
		{"the same", issuer, false},
		{"private addresses are no longer allowed", public, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			v, err := newVerifiers([]issuerConfig{issuer}, log)
			if err != nil {
				t.Fatal(err)
			}
			before := v.current.Load()
			v.start(t.Context())
			next, err := newVerifier([]issuerConfig{test.next}, log)
			if err != nil {
				t.Fatal(err)
			}
			v.replace(t.Context(), []issuerConfig{test.next}, next)
			v.wait()
			if got := v.current.Load() != before; got != test.replaced {
				t.Errorf("another verifier: got %v, want %v", got, test.replaced)
			}
		})
	}
}

// onDisk writes a config and its secret below a data directory, reached through symbolic links as in a mounted volume.
func onDisk(t *testing.T, dir, version, text string) {
	t.Helper()
	data := filepath.Join(dir, version)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"drawbridge.yaml": text, "secret": "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99" + version} {
		if err := os.WriteFile(filepath.Join(data, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(dir, "..next")
	if err := os.Symlink(version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func TestSwappedVolumeIsNoticed(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(minimal, "bad/secret", "secret", 1)
	onDisk(t, dir, "1", text)
	for _, name := range []string{"drawbridge.yaml", "secret"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := loadConfig(filepath.Join(dir, "drawbridge.yaml"), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(cfg.sources)
	if w.settled() || !w.settled() || w.changed() {
		t.Error("changed before anything did")
	}
	onDisk(t, dir, "2", text) // the config is the same, the secret is another
	if w.settled() {
		t.Error("settled at the look that saw the change")
	}
	if !w.settled() || !w.changed() {
		t.Error("the swapped secret was not noticed")
	}
	if w.changed() {
		t.Error("one change was noticed twice")
	}
}

// TestRefusedConfigIsWatchedWithTheFilesItNames creates what was missing, which no other file tells of.
func TestRefusedConfigIsWatchedWithTheFilesItNames(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "drawbridge.yaml"), filepath.Join(dir, "secret")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := func(what string) (noticed func() bool) {
		t.Helper()
		w := newWatch(refused(t, file))
		if w.settled() || !w.settled() || w.changed() {
			t.Errorf("%s: changed before anything did", what)
		}
		return func() bool { return !w.settled() && w.settled() && w.changed() }
	}
	noticed := missing("the config")
	write(file, strings.Replace(minimal, "bad/secret", "secret", 1))
	if !noticed() {
		t.Error("the config that was missing was not noticed")
	}
	noticed = missing("the secret")
	write(secret, "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	if !noticed() {
		t.Error("the secret that was missing was not noticed")
	}
}

// refused reads a config that must be refused.
func refused(t *testing.T, file string) sources {
	t.Helper()
	_, read, err := readConfig(file, testEnvironment)
	if err == nil {
		t.Fatal("the config was not refused")
	}
	return read
}

func TestReloadWithAnotherListenKeepsTheAudience(t *testing.T) {
	started := parse(t, minimal)
	next := parse(t, "listen: 127.0.0.1:8081\n"+minimal)
	next.keepAddress(started)
	if diff := cmp.Diff(started.issuers[0].Audiences, next.issuers[0].Audiences); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileThatIsWrittenOrGoesOrComesSettlesOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drawbridge.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	w := newWatch(sources{files: []string{file}})
	if w.settled() || !w.settled() {
		t.Error("the first look does not find the file touched")
	}
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"written", func() { write("longer") }},
		{"gone", func() {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}},
		{"back", func() { write("b") }},
	} {
		step.change()
		if got := []bool{w.settled(), w.settled(), w.settled()}; !slices.Equal(got, []bool{false, true, false}) {
			t.Errorf("%s: settled at three looks = %v, want at the second alone", step.name, got)
		}
	}
}

func TestAReloadSaysWhatChanged(t *testing.T) {
	many := ""
	for i := range 30 {
		many += fmt.Sprintf("  box%d: {builtin: [calculate]}\n", i)
	}
	for _, test := range []struct{ name, after, want string }{
		{"a comment", "# more\n" + minimal, "nothing changed"},
		{"a server that is new", minimal + "  box: {builtin: [calculate]}\n", "server box added"},
		{"too many to name", minimal + many, "server box19 added; and 10 more"},
		{"a restart", "limits: {heartbeat: 5s}\n" + minimal, "limits changed (needs a restart)"},
		{"a setting", "allowed_hosts: [a.example]\n" + minimal, "allowed_hosts changed"},
	} {
		if got := changes(parse(t, minimal), parse(t, test.after)); !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: got %q, want at its end %q", test.name, got, test.want)
		}
	}
	if got := changes(parse(t, minimal+many), parse(t, minimal)); !strings.HasPrefix(got, "server box0 removed; server box1 removed") {
		t.Errorf("got %q, want the servers that are gone in order", got)
	}
}

// TestNoSettingOfAServerChangesUnseen changes each field of a server by itself: whatever restarts it is named.
func TestNoSettingOfAServerChangesUnseen(t *testing.T) {
	fields := reflect.TypeFor[serverConfig]()
	for i := range fields.NumField() {
		var before, after serverConfig
		field := reflect.ValueOf(&after).Elem().Field(i)
		field = reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem() // it is not exported
		switch field.Kind() {
		case reflect.String:
			field.SetString("other")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(1)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		default:
			continue // the API, whose parts are compared as one
		}
		if len(serverChanges(&before, &after)) == 0 {
			t.Errorf("a change of %s is not told", fields.Field(i).Name)
		}
	}
}
