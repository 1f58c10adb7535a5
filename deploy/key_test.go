package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPastingTheKeysLineTwiceKeepsTheKey runs each line that makes a key, as the files
// show it, twice: all that was signed with the first key would be refused after the
// second.
func TestPastingTheKeysLineTwiceKeepsTheKey(t *testing.T) {
	tool(t, "openssl", "openssl")
	makesKey := regexp.MustCompile(`(?m)^#? *(.*openssl rand .*)$`)
	files := []string{"../docs/production.md", "drawbridge.container.yaml"}
	configs, err := filepath.Glob("config/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range append(files, configs...) {
		for _, found := range makesKey.FindAllStringSubmatch(read(t, file), -1) {
			lines++
			dir := t.TempDir()
			secrets := filepath.Join(dir, "deploy", "secrets")
			if err := os.MkdirAll(secrets, 0o700); err != nil {
				t.Fatal(err)
			}
			once := keysAfter(t, dir, found[1])
			if twice := keysAfter(t, dir, found[1]); len(once) < 40 || once != twice {
				t.Errorf("%s: %q made the keys %q, and %q when it was pasted again", file, found[1], once,
					twice)
			}
		}
	}
	if lines < 6 {
		t.Errorf("found %d lines that make a key, want one in each of the files that need it", lines)
	}
}

// keysAfter runs a line of shell in a directory and returns the keys that are there then.
func keysAfter(t *testing.T, dir, line string) string {
	t.Helper()
	if out, code := run(t.Context(), t, dir, "sh", "-c", line); code != 0 {
		t.Fatalf("%s: exit %d: %s", line, code, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "deploy", "secrets", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var keys strings.Builder
	for _, file := range files {
		keys.WriteString(read(t, file))
	}
	return keys.String()
}
