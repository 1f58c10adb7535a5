package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAPatchWantsItsAnchorOnce(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	p := patch{file: "a.go", anchor: "b", text: "c"}
	for page, want := range map[string]string{"abd": "abcd", "ad": "", "abbd": ""} {
		if err := os.WriteFile(from, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		err := p.apply(from, to)
		if want == "" {
			if !errors.Is(err, errAnchor) {
				t.Errorf("%s: got error %v, want errAnchor", page, err)
			}
			continue
		}
		if got, readErr := os.ReadFile(to); err != nil || readErr != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, %v, want %q", page, got, err, readErr, want)
		}
	}
}
