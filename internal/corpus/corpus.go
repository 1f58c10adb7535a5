// Package corpus holds what tests of several packages read: odd strings, tools as servers
// define them, and the facts of the protocol's schemas. It is for tests only.
//
// All of it is in the repository. Public corpora, which are not, may lie in a folder
// named shared beside the checkout, or where DRAWBRIDGE_SHARED says: then tests run on
// them too.
package corpus

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

//go:embed testdata
var own embed.FS

// Shared returns the path of what lies in the folder of public corpora. Where it does
// not, the path is "", which the test's log says in one line and which fails nothing.
func Shared(t testing.TB, elements ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{folder(t)}, elements...)...)
	if _, err := os.Stat(path); err != nil {
		t.Logf("without %s, which is not at hand; DRAWBRIDGE_SHARED says where else to look", path)
		return ""
	}
	return path
}

// folder is where the public corpora are, if they are.
func folder(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("DRAWBRIDGE_SHARED"); name != "" { //nolint:forbidigo // tests have no config
		return name
	}
	return filepath.Join(filepath.Dir(fatal.Have(sources.Root())(t)), "shared")
}

// Files returns the public files that match a pattern in the folder of public corpora,
// none where that is not at hand.
func Files(t testing.TB, directory, pattern string) []string {
	t.Helper()
	root := Shared(t, directory)
	if root == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s in %s: %v", pattern, root, err)
	}
	return files
}

// Vector is one text with the class that it stands for.
type Vector struct {
	Class, Name, Text string
}

// Vectors reads texts from lines of the form
//
//	class: name "text"
//
// where the text is quoted as in Go, "x"*N stands for N times x, and a blank between two
// joins them. Lines that are empty or begin with # say nothing.
func Vectors(t testing.TB, data []byte) []Vector {
	t.Helper()
	var all []Vector
	for lines, n := bufio.NewScanner(bytes.NewReader(data)), 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.IndexByte(line, '"')
		class, name, found := strings.Cut(line[:max(at, 0)], ": ")
		if !found {
			t.Fatalf(`line %d: want class: name "text"`, n)
		}
		text, err := unquote(line[at:])
		if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		all = append(all, Vector{class, strings.TrimSpace(name), text})
	}
	return all
}

// unquote returns what quoted parts say together.
func unquote(rest string) (string, error) {
	var text strings.Builder
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", fmt.Errorf("%.40s: %w", rest, err)
		}
		part, err := strconv.Unquote(quoted)
		if err != nil {
			return "", fmt.Errorf("%s: %w", quoted, err)
		}
		times := 1
		if rest = rest[len(quoted):]; strings.HasPrefix(rest, "*") {
			count, _, _ := strings.Cut(rest[1:], " ")
			if times, err = strconv.Atoi(count); err != nil {
				return "", fmt.Errorf("%s: %w", rest, err)
			}
			rest = rest[1+len(count):]
		}
		text.WriteString(strings.Repeat(part, times))
		rest = strings.TrimLeft(rest, " ")
	}
	return text.String(), nil
}

// Strings returns texts that programs have stumbled over: our own, and the public list
// where that is at hand.
func Strings(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, vector := range Vectors(t, read(t, "strings.txt")) {
		all = append(all, vector.Text)
	}
	for _, file := range Files(t, "corpora/naughty-strings", "blns.json") {
		var public []string
		fatal.OK(t, json.Unmarshal(fatal.Have(os.ReadFile(file))(t), &public)) //nolint:forbidigo,gosec // a corpus of the tests
		all = append(all, public...)
	}
	return all
}

// Tools returns definitions of tools by name: our own, and those of a public server where
// they are at hand.
func Tools(t testing.TB) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, entry := range fatal.Have(own.ReadDir("testdata/tools"))(t) {
		all[entry.Name()] = read(t, "tools/"+entry.Name())
	}
	for _, file := range Files(t, "corpora/tool-schemas/schemas", "*.snap") {
		all[filepath.Base(file)] = fatal.Have(os.ReadFile(file))(t) //nolint:gosec // a corpus of the tests
	}
	return all
}

// Schema returns the facts of the protocol's schema of a revision: names, types, what is
// required. Texts are left out.
func Schema(t testing.TB, revision string) []byte {
	t.Helper()
	return read(t, "schema/"+revision+".json")
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	return fatal.Have(own.ReadFile("testdata/" + name))(t)
}
