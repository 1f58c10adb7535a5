package config

import (
	"path/filepath"
	"testing"
)

// TestDigestNamesWhatFilesContain compares configs of several files, one of which
// differs, or a key does.
func TestDigestNamesWhatFilesContain(t *testing.T) {
	t.Parallel()
	digest := func(file string) string {
		cfg, err := Load(file, ProcessEnvironment())
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Digest) != 8 {
			t.Fatalf("the digest is %q", cfg.Digest)
		}
		return cfg.Digest
	}
	const first, second = "tenants: {one: {servers: [files]}}\n", "tenants: {two: {servers: [files]}}\n"
	parts := map[string]string{"a.yaml": first, "b.yaml": second}
	file := including(t, parts)
	same, other := digest(including(t, parts)), digest(including(t, map[string]string{"a.yaml": first}))
	if got := digest(file); got != same || got == other {
		t.Errorf("got %s for one config, %s for its copy and %s for another", got, same, other)
	}
	write(t, filepath.Join(filepath.Dir(file), "secret"), "0011223344556677f3b1c0a9e8d7c6b5a4938271")
	if got := digest(file); got == same {
		t.Errorf("got %s though a key is another", got)
	}
}
