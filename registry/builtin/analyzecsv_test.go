package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// withFiles returns analyze_csv over a new directory with those files, and the directory.
func withFiles(t *testing.T, files map[string]string) (registry.Offer, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return open(t, builtin.Config{CSVRoot: dir}, "analyze_csv"), dir
}

func TestAnalyzeCSV(t *testing.T) {
	for name, test := range map[string]struct{ text, arguments, want string }{
		"all columns": {
			"name,price\nfoo,0.1\nbar,0.2\n,\n", `{"path":"f.csv"}`,
			`{"rows":3,"columns":[{"name":"name","count":2,"numeric":0},{"name":"price","count":2,"numeric":2,"sum":0.3,"average":0.15,"min":0.1,"max":0.2}]}`,
		},
		"one column": {
			"a,b\n1,2\n3,4\n", `{"path":"f.csv","column":"b"}`,
			`{"rows":2,"columns":[{"name":"b","count":2,"numeric":2,"sum":6,"average":3,"min":2,"max":4}]}`,
		},
		"header only": {
			"a\n", `{"path":"f.csv"}`,
			`{"rows":0,"columns":[{"name":"a","count":0,"numeric":0}]}`,
		},
		"semicolons": {
			"a;b\n1;2\n", `{"path":"f.csv","delimiter":";","column":"b"}`,
			`{"rows":1,"columns":[{"name":"b","count":1,"numeric":1,"sum":2,"average":2,"min":2,"max":2}]}`,
		},
		"tabs": {
			"a\tb\n1\t2\n", `{"path":"f.csv","delimiter":"\t","column":"b"}`,
			`{"rows":1,"columns":[{"name":"b","count":1,"numeric":1,"sum":2,"average":2,"min":2,"max":2}]}`,
		},
		"byte order before a quotation mark": {
			"\uFEFF\"a, b\",c\r\n1,2\r\n", `{"path":"f.csv","column":"a, b"}`,
			`{"rows":1,"columns":[{"name":"a, b","count":1,"numeric":1,"sum":1,"average":1,"min":1,"max":1}]}`,
		},
		"byte order": {
			"\uFEFFa\r\n1\r\n", `{"path":"f.csv","column":"a"}`,
			`{"rows":1,"columns":[{"name":"a","count":1,"numeric":1,"sum":1,"average":1,"min":1,"max":1}]}`,
		},
		"quoted": {
			"\"a,\nb\"\n\" 1 \"\n", `{"path":"f.csv"}`,
			`{"rows":1,"columns":[{"name":"a,\nb","count":1,"numeric":1,"sum":1,"average":1,"min":1,"max":1}]}`,
		},
		"endless average": {
			"a\n1\n1\n2\n", `{"path":"f.csv"}`,
			`{"rows":3,"columns":[{"name":"a","count":3,"numeric":3,"sum":4,"average":1.3333333333333333333,"min":1,"max":2}]}`,
		},
		"negative and exponents": {
			"a\n-1.5\n+2e3\n1E-2\n", `{"path":"f.csv"}`,
			`{"rows":3,"columns":[{"name":"a","count":3,"numeric":3,"sum":1998.51,"average":666.17,"min":-1.5,"max":2000}]}`,
		},
		"exact where floats are not": {
			"a\n9007199254740993\n9007199254740992\n0.00000000000000000001\n", `{"path":"f.csv"}`,
			`{"rows":3,"columns":[{"name":"a","count":3,"numeric":3,"sum":18014398509481985.00000000000000000001,"average":6004799503160661.66666666666666666667,"min":1e-20,"max":9007199254740993}]}`,
		},
		"more than a machine integer": {
			"a\n" + strings.Repeat("999999999999999999\n", 20), `{"path":"f.csv"}`,
			`{"rows":20,"columns":[{"name":"a","count":20,"numeric":20,"sum":19999999999999999980,"average":999999999999999999,"min":999999999999999999,"max":999999999999999999}]}`,
		},
		"several CRs, as programs write that convert twice": {
			"a,b\r\r\n1,2\r\r\n", `{"path":"f.csv","column":"b"}`,
			`{"rows":1,"columns":[{"name":"b","count":1,"numeric":1,"sum":2,"average":2,"min":2,"max":2}]}`,
		},
		"CR within cells": {
			"\"a\rb\",c\n1\r2,3\n", `{"path":"f.csv","column":"c"}`,
			`{"rows":1,"columns":[{"name":"c","count":1,"numeric":1,"sum":3,"average":3,"min":3,"max":3}]}`,
		},
		"no numbers": {
			"a\nNaN\nInf\n0x10\n1_000\n1e101\n--1\n.\n-\n1e\ne1\n1.2.3\n" + strings.Repeat("9", 65) +
				"\n", `{"path":"f.csv"}`,
			`{"rows":12,"columns":[{"name":"a","count":12,"numeric":0}]}`,
		},
		"widest cells": {
			"a\n" + strings.Repeat("9", 64) + "e100\n-" + strings.Repeat("9", 64) + "e100\n0." +
				strings.Repeat("0", 62) + "1e-100\n", `{"path":"f.csv"}`,
			`{"rows":3,"columns":[{"name":"a","count":3,"numeric":3,"sum":1e-163,"average":3.3333333333333333333e-164,"min":-1e+164,"max":1e+164}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			offer, _ := withFiles(t, map[string]string{"f.csv": test.text})
			if got := textOf(t, call(t, offer, test.arguments)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAnalyzeCSVSaysWhatIsWrong(t *testing.T) {
	offer, _ := withFiles(t, map[string]string{
		"empty.csv": "", "ragged.csv": "a,b\n1,2\nsecret\n", "quote.csv": "a\nsec\"ret\n",
		"open.csv": "a\n\"secret\n",
		"name.csv": strings.Repeat("x", 1001) + "\n1\n", "bytes.csv": "\xff\xfe\n1\n", "good.csv": "a\n1\n",
		"mac.csv": "a,b\r1,2\r", "long.csv": strings.Repeat("a,b\r", 200),
	})
	for arguments, want := range map[string]string{
		`{"path":"empty.csv"}`:                 "The file is empty",
		`{"path":"ragged.csv"}`:                "Line 3 has not as many cells as the first row",
		`{"path":"quote.csv"}`:                 "Line 2 has a misplaced quotation mark at byte 4",
		`{"path":"open.csv"}`:                  "has a misplaced quotation mark",
		`{"path":"name.csv"}`:                  "name of column 1 is longer than 1000 bytes",
		`{"path":"bytes.csv"}`:                 "is not UTF-8",
		`{"path":"mac.csv"}`:                   "The lines of the file end with CR alone",
		`{"path":"long.csv"}`:                  "The lines of the file end with CR alone",
		`{"path":"good.csv","column":"b"}`:     "No column has that name",
		`{"path":"good.csv","delimiter":"x"}`:  "The delimiter must be",
		`{"path":"good.csv","delimiter":",,"}`: "The delimiter must be",
		`{"path":"good.csv","delimiter":"\""}`: "The delimiter must be",
		`{"path":"missing.csv"}`:               "There is no readable file",
	} {
		got := refusal(t, call(t, offer, arguments))
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", arguments, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: the file's text is in the error: %q", arguments, got)
		}
	}
}

// No path reaches a file outside, and no answer tells what is there.
func TestAnalyzeCSVStaysBelowItsDirectory(t *testing.T) {
	offer, dir := withFiles(t, map[string]string{"sub/good.csv": "a\n1\n"})
	outside := filepath.Join(filepath.Dir(dir), "outside.csv")
	if err := os.WriteFile(outside, []byte("secret\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"absolute.csv": outside, "up.csv": "../outside.csv", "updir": "..", "loop.csv": "loop.csv",
		"in.csv": "sub/good.csv",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"sub/good.csv", "./sub/../sub/good.csv", "in.csv"} {
		call := textOf(t, call(t, offer, fmt.Sprintf(`{"path":%q}`, path)))
		if !strings.Contains(call, `"sum":1`) {
			t.Errorf("%s: got %s, want the file's sums", path, call)
		}
	}
	const leads, unreadable = "must not lead out of it", "There is no readable file"
	for path, want := range map[string]string{
		"../outside.csv": leads, "sub/../../outside.csv": leads, outside: leads, "": leads, "..": leads,
		"absolute.csv": unreadable, "up.csv": unreadable, "updir/outside.csv": unreadable,
		"updir/missing.csv": unreadable,
		"loop.csv":          unreadable, "sub": unreadable, ".": unreadable, "sub/good.csv/": unreadable,
		"sub/good.csv\x00": leads,
		`..\outside.csv`:   unreadable, "..%2foutside.csv": unreadable, "/proc/self/environ": leads,
	} {
		got := refusal(t, call(t, offer, fmt.Sprintf(`{"path":%s}`, mcp.String(path))))
		if !strings.Contains(got, want) && !strings.Contains(got, unreadable) {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
		if strings.Contains(got, filepath.Dir(dir)) || strings.Contains(got, "outside") ||
			strings.Contains(got, "secret") {
			t.Errorf("%q: the answer tells too much: %q", path, got)
		}
	}
}

func TestAnalyzeCSVReadsRegularFilesOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: named pipes are not files on Windows")
	}
	offer, dir := withFiles(t, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, call(t, offer, `{"path":"pipe.csv"}`)); !strings.Contains(got,
		"There is no readable file") {
		t.Errorf("got %q", got)
	}
}

// Every bound, from its near and its far side.
func TestAnalyzeCSVIsBounded(t *testing.T) {
	columns := func(n int) string { return strings.TrimSuffix(strings.Repeat("c,", n), ",") + "\n" }
	big := strings.Repeat("1234567\n", 32<<20/8-1)
	offer, _ := withFiles(t, map[string]string{
		"columns.csv": columns(256), "toomany.csv": columns(257), "latecolumns.csv": "a\n" + columns(1<<20),
		"row.csv": "a\n" + strings.Repeat("x", 1<<20-2) + "\n", "toolong.csv": "a\n" + strings.Repeat("x",
			1<<20+1) + "\n",
		"unclosed.csv": "a\n\"" + strings.Repeat("x\n", 1<<20), "quotedcells.csv": "a\n" +
			strings.Repeat("\"\n\",", 1<<20),
		"rows.csv": "a\n" + strings.Repeat("1\n", 1_000_000), "toomanyrows.csv": "a\n" + strings.Repeat("1\n",
			1_000_001),
		"big.csv": "a\n" + big, "toobig.csv": "a\n" + big + "1234567\n",
	})
	for path, want := range map[string]string{
		"columns.csv":     `{"rows":0`,
		"toomany.csv":     "more than 256 columns",
		"latecolumns.csv": "more than 256 columns",
		"row.csv":         `{"rows":1`,
		"toolong.csv":     "longer than 1 MiB",
		"unclosed.csv":    "longer than 1 MiB",
		"quotedcells.csv": "more than 256 columns",
		"rows.csv":        `"sum":1000000,`,
		"toomanyrows.csv": "more than 1000000 rows",
		"big.csv":         "more than 1000000 rows",
		"toobig.csv":      "larger than 32 MiB",
	} {
		result, err := tryCall(t.Context(), t, offer, fmt.Sprintf(`{"path":%q}`, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := textOf(t, result); !strings.Contains(got, want) {
			t.Errorf("%s: got %.200q, want %q", path, got, want)
		}
	}
}

func TestAnalyzeCSVEndsWithItsContext(t *testing.T) {
	offer, _ := withFiles(t, map[string]string{"f.csv": "a\n1\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tryCall(ctx, t, offer, `{"path":"f.csv"}`); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestAnalyzeCSVReadsTheDirectoryThatIsThere: some jobs put a new directory in the place
// of the old one. Its files were not read before the gateway started anew.
func TestAnalyzeCSVReadsTheDirectoryThatIsThere(t *testing.T) {
	offer, dir := withFiles(t, map[string]string{"f.csv": "a\n1\n"})
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, call(t, offer, `{"path":"f.csv"}`)); !strings.Contains(got, "There is no readable file") {
		t.Errorf("without a directory: got %q", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.csv"), []byte("b\n2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	result := call(t, offer, `{"path":"f.csv"}`)
	if got := result.Object("structuredContent").Value("rows"); string(got) != "2" {
		t.Errorf("got %s rows, want those of the new file: %s", got, result.JSON())
	}
}
