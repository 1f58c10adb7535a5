package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// including writes a config that includes tenants/*.yaml and the files there, and returns
// its name.
func including(t *testing.T, parts map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a[b]*c") // as no pattern matches itself
	if err := os.MkdirAll(filepath.Join(dir, "tenants"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "drawbridge.yaml")
	write(t, file, "include: [tenants/*.yaml]\n"+strings.Replace(minimal, "bad/secret", "secret", 1))
	write(t, filepath.Join(dir, "secret"), "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	for name, text := range parts {
		write(t, filepath.Join(dir, "tenants", name), text)
	}
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestIncludedFileHoldsNoUnknownKey: a misspelt key would be left out without a word.
func TestIncludedFileHoldsNoUnknownKey(t *testing.T) {
	file := including(t, map[string]string{"a.yaml": "tenant: {}\n"})
	_, err := Load(file, testEnvironment)
	want := filepath.Join(filepath.Dir(file), "tenants", "a.yaml") +
		`:1:1: unknown key "tenant"; an included file holds `
	if got := errorText(err); !strings.HasPrefix(got, want) || !strings.Contains(got, "did you mean tenants?") {
		t.Errorf("got %q, want %q and a hint", got, want)
	}
}

func TestIncludedFilesAreBoundedInNumber(t *testing.T) {
	parts := make(map[string]string)
	for i := range maxIncluded {
		parts[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("tenants:\n  t%d: {servers: [files]}\n", i)
	}
	file := including(t, parts)
	cfg, err := Load(file, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(cfg.Tenants); got != maxIncluded+1 {
		t.Errorf("got %d tenants, want %d", got, maxIncluded+1)
	}
	write(t, filepath.Join(filepath.Dir(file), "tenants", "more.yaml"),
		"tenants:\n  more: {servers: [files]}\n")
	_, err = Load(file, testEnvironment)
	if got, want := errorText(err), file+":1:11: more than 10000 files are included"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIncludedFilesAreBoundedTogether(t *testing.T) {
	full := "tenants: {}\n" + string(bytes.Repeat([]byte("# x\n"), maxPartBytes/4-3))
	files := map[string]string{}
	for i := range maxConfigBytes/maxPartBytes + 1 {
		files[fmt.Sprintf("%02d.yaml", i)] = full
	}
	file := including(t, files)
	_, err := Load(file, testEnvironment)
	// The config file takes a part of them, too.
	want := filepath.Join(filepath.Dir(file), "tenants", "15.yaml") +
		":1:1: with this file the config is larger than 16 MiB\n"
	if got := errorText(err); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFilesThatComeAndGoAreNoticed: what is to be included may change without any file
// that was read.
func TestFilesThatComeAndGoAreNoticed(t *testing.T) {
	file := including(t, map[string]string{"a.yaml": "tenants:\n  globex: {servers: [files]}\n"})
	tenants := filepath.Join(filepath.Dir(file), "tenants")
	cfg, err := Load(file, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatch(cfg.Sources)
	if w.Settled() || !w.Settled() || w.Changed() {
		t.Error("changed before anything did")
	}
	rename := func(from, to string) func() {
		return func() {
			if err := os.Rename(filepath.Join(tenants, from), filepath.Join(tenants, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name    string
		change  func()
		noticed bool
	}{
		{"new", func() { write(t, filepath.Join(tenants, "b.yaml"), "servers: {}\n") }, true},
		{"written", func() { write(t, filepath.Join(tenants, "b.yaml"), "servers: {}\n# again\n") }, true},
		{"renamed", rename("b.yaml", "c.yaml"), true},
		{"gone", rename("c.yaml", "c.off"), true},
		{
			"another that does not match", func() { write(t, filepath.Join(tenants, "d.off"), "servers: {}\n") },
			false,
		},
		{
			"what an editor leaves", func() { write(t, filepath.Join(tenants, ".d.yaml"), "servers: {}\n") },
			false,
		},
	} {
		step.change()
		if got := !w.Settled() && w.Settled() && w.Changed(); got != step.noticed {
			t.Errorf("%s: noticed %t, want %t", step.name, got, step.noticed)
		}
		_, read, err := NewLoader(file, testEnvironment).Load()
		if err != nil {
			t.Fatal(err)
		}
		w.Follow(read)
		if w.Settled() || !w.Settled() || w.Changed() {
			t.Errorf("%s: changed after it was read", step.name)
		}
	}
}

// TestHiddenDirectoriesAreNotIncluded: a volume that shows a config has a directory
// ..data with all of it, and a checkout has .git.
func TestHiddenDirectoriesAreNotIncluded(t *testing.T) {
	file := including(t, nil)
	dir := filepath.Dir(file)
	for _, name := range []string{"teams/globex", "teams/..data", ".hidden/acme"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "t.yaml"), "tenants: {}\n")
	}
	for _, test := range []struct{ pattern, want string }{
		{"teams/*/t.yaml", "teams/globex/t.yaml"},
		{"*/*/t.yaml", "teams/globex/t.yaml"},
		{"teams/.*/t.yaml", "teams/..data/t.yaml"},
		{".hidden/*/t.yaml", ".hidden/acme/t.yaml"},
		{"teams//g*/t.yaml", "teams/globex/t.yaml"},
	} {
		r := newReader(file, nil, nil, testEnvironment)
		got, err := matching(r.pattern(&node{file: file, text: test.pattern}))
		if err != nil || len(got) != 1 || got[0] != filepath.Join(dir, test.want) {
			t.Errorf("%s: got %q, %v, want %s", test.pattern, got, err, test.want)
		}
	}
}

// TestLinkToTheConfigIsNoticedWhenItIsMended: what is refused for where it points may
// point elsewhere later.
func TestLinkToTheConfigIsNoticedWhenItIsMended(t *testing.T) {
	file := including(t, nil)
	link := filepath.Join(filepath.Dir(file), "tenants", "a.yaml")
	point := func(to string) {
		t.Helper()
		_ = os.Remove(link) // at first there is none
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	point(file)
	_, read, err := NewLoader(file, testEnvironment).Load()
	if err == nil {
		t.Fatal("a config that includes itself is not refused")
	}
	w := NewWatch(read)
	if w.Settled() || !w.Settled() || w.Changed() {
		t.Error("changed before anything did")
	}
	write(t, filepath.Join(filepath.Dir(file), "globex"), "tenants:\n  globex: {servers: [files]}\n")
	point("../globex")
	if w.Settled() || !w.Settled() || !w.Changed() {
		t.Error("the mended link is not noticed")
	}
}
