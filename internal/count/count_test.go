package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAFileIsMeasured(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("x", widest-2)
	for _, test := range []struct {
		name, source string
		want         figures // statements, code lines, comment lines, long lines
	}{
		{"nothing but a name", "package x\n", figures{0, 1, 0, 0}},
		{"a line with code and a comment is code", "package x // comment\n", figures{0, 1, 0, 0}},
		{"comments of both forms", "// a\n\n/* b\n\nc */\npackage x\n", figures{0, 1, 4, 0}},
		{"an empty line counts in a comment only", "/*\n\n*/\n\npackage x\n", figures{0, 1, 3, 0}},
		{
			"a text over several lines is code", "package x\nvar a = `1\n// no comment\n3`\n",
			figures{0, 4, 0, 0},
		},
		{
			"declarations at the top are no statements", "package x\nvar a, b = 1, 2\nfunc f() {}\n",
			figures{0, 3, 0, 0},
		},
		{"blocks are no statements", "package x\nfunc f() {\n{\n}\n}\n", figures{0, 5, 0, 0}},
		{
			"an if, its condition's own, and what is done", // if, a := 1, return, return
			"package x\nfunc f() int {\nif a := 1; a > 0 {\nreturn a\n}\nreturn 0\n}\n",
			figures{4, 7, 0, 0},
		},
		{
			"clauses and the literals of functions", // switch, two clauses, go, expression, return
			"package x\nfunc f(a int) {\nswitch a {\ncase 1:\ngo func() { return }()\ndefault:\n}\n}\n",
			figures{5, 8, 0, 0},
		},
		{"a line of the greatest width", "package x\n//" + wide + "\n", figures{0, 1, 1, 0}},
		{"a line that is too wide", "package x\n//x" + wide + "\n", figures{0, 1, 1, 1}},
		{
			"a tab is four columns", "package x\n\t//" + wide[4:] + "\n\t//x" + wide[4:] + "\n",
			figures{0, 1, 2, 1},
		},
		{
			"a letter of two bytes", "package x\n//" + strings.Repeat("é", widest-2) + "\n",
			figures{0, 1, 1, 0},
		},
		{"lines that end as those of Windows", "package x\r\n//" + wide + "\r\n", figures{0, 1, 1, 0}},
	} {
		got, err := measure(test.name, []byte(test.source))
		if err != nil || got != test.want {
			t.Errorf("%s: %v, error %v, want %v", test.name, got, err, test.want)
		}
	}
	if got, err := measure("broken.go", []byte("package")); err == nil {
		t.Errorf("what does not parse was counted as %v", got)
	}
}

// TestKindsAreApart writes a module with some of each kind, counts it, and compares it
// with its own past.
func TestKindsAreApart(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	write := func(name, source string) {
		t.Helper()
		file := filepath.Join(module, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = module
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	count := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), module, args, &out)
		return out.String(), err
	}
	write("auth/auth.go", "package auth\nfunc f() { return }\n")
	write("auth/auth_test.go", "package auth\n// A comment.\n")
	write("internal/lab/bench/main.go", "package main\nfunc main() { f(); f() }\n")
	write("server/same.go", "package server\n")
	for _, passedOver := range []string{
		"auth/testdata/x.go", "docs/node_modules/x.go", ".bin/x.go", "_old/x.go", "docs/x.txt",
	} {
		write(passedOver, "package x\n")
	}
	head := " | statements | code lines | comment lines | lines over 110 columns |\n|---|---:|---:|---:|---:|\n"
	want := "| product" + head +
		"| auth | 1 | 2 | 0 | 0 |\n| server | 0 | 1 | 0 | 0 |\n| **all** | 1 | 3 | 0 | 0 |\n\n" +
		"| labs" + head + "| internal/lab/bench | 2 | 2 | 0 | 0 |\n| **all** | 2 | 2 | 0 | 0 |\n\n" +
		"| tests" + head + "| auth | 0 | 1 | 1 | 0 |\n| **all** | 0 | 1 | 1 | 0 |\n\n"
	got, err := count()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counted (-want +got):\n%s\nerror %v", diff, err)
	}

	git("init", "-q")
	git("add", "-f", ".")
	git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "first")
	write("auth/auth.go", "package auth\n")
	write("auth/more.go", "package auth\nfunc g() { return }\nfunc h() { return; return }\n")
	if err := os.RemoveAll(filepath.Join(module, "internal")); err != nil {
		t.Fatal(err)
	}
	got, err = count("-since", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| product | statements before | after | ± | code lines before | after | ± | ",
		"\n| auth | 1 | 3 | +2 | 2 | 4 | +2 | 0 | 0 | 0 | 0 | 0 | 0 |\n| **all** | 1 | 3 | +2 | 3 | 5 | +2 |",
		"\n| internal/lab/bench | 2 | 0 | −2 | 2 | 0 | −2 |",
	} {
		if !strings.Contains(got, row) {
			t.Errorf("no %q in:\n%s", row, got)
		}
	}
	if strings.Contains(got, "| server |") {
		t.Errorf("a package that did not change is listed:\n%s", got)
	}

	for _, args := range [][]string{
		{"-since", "nowhere"},
		{"-since", "--output=x"},
		{"too", "many"},
		{"-unknown"},
	} {
		if out, err := count(args...); err == nil {
			t.Errorf("count %q: no error, but\n%s", args, out)
		}
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "0", 7: "+7", -999: "−999", 1000: "+1,000",
		-1_234_567: "−1,234,567",
	} {
		if got := signed(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
