package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onDisk writes a config and its secret below a data directory, reached through symbolic
// links as in a mounted volume.
func onDisk(t *testing.T, dir, version, text string) {
	t.Helper()
	data := filepath.Join(dir, version)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"drawbridge.yaml": text,
		"secret":          "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99" + version,
	} {
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
	cfg, err := Load(filepath.Join(dir, "drawbridge.yaml"), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatch(cfg.Sources)
	if w.Settled() || !w.Settled() || w.Changed() {
		t.Error("changed before anything did")
	}
	onDisk(t, dir, "2", text) // the config is the same, the secret is another
	if w.Settled() {
		t.Error("settled at the look that saw the change")
	}
	if !w.Settled() || !w.Changed() {
		t.Error("the swapped secret was not noticed")
	}
	if w.Changed() {
		t.Error("one change was noticed twice")
	}
}

// TestRefusedConfigIsWatchedWithTheFilesItNames creates what was missing, which no other
// file tells of.
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
		w := NewWatch(refused(t, file))
		if w.Settled() || !w.Settled() || w.Changed() {
			t.Errorf("%s: changed before anything did", what)
		}
		return func() bool { return !w.Settled() && w.Settled() && w.Changed() }
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
	for name, server := range map[string]string{
		"token":    `url: "https://crm.example/mcp", auth: {token_file: token}`,
		"users.db": `builtin: {query_database: {databases: {users: {sqlite: users.db}}}}`,
		"folder/a": `command: mcp-files, cwd: folder`,
	} {
		write(file, strings.NewReplacer("bad/secret", "secret", "command: mcp-files", server).Replace(minimal))
		noticed = missing(name)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(dir, name), "content")
		if !noticed() {
			t.Errorf("that %s is there by now was not noticed", name)
		}
	}
}

// refused reads a config that must be refused.
func refused(t *testing.T, file string) Sources {
	t.Helper()
	_, read, err := NewLoader(file, testEnvironment).Load()
	if err == nil {
		t.Fatal("the config was not refused")
	}
	return read
}

func TestFileThatIsWrittenOrGoesOrComesSettlesOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drawbridge.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	w := NewWatch(Sources{files: []string{file}})
	if w.Settled() || !w.Settled() {
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
		if got := []bool{w.Settled(), w.Settled(), w.Settled()}; !slices.Equal(got,
			[]bool{false, true, false}) {
			t.Errorf("%s: settled at three looks = %v, want at the second alone", step.name, got)
		}
	}
}
