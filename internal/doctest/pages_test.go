package doctest_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is where the repository begins, seen from this package.
const root = "../.."

// documents lists the repository's pages, from its root.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			name, err := filepath.Rel(root, page)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, filepath.ToSlash(name))
		}
	}
	if len(found) < 20 {
		t.Fatalf("found %d pages: %q", len(found), found)
	}
	return found
}

// read returns the text of a page that is named from the root.
func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocuments reads every page and resolves what it links to and what it names: files,
// Go names, tests, make targets, commands with their flags, error codes and metrics.
func TestDocuments(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	t.Run("name what is there", func(t *testing.T) {
		t.Parallel()
		for _, page := range documents(t) {
			for _, wrong := range r.wrongIn(page, read(t, page)) {
				t.Error(wrong)
			}
		}
	})
	t.Run("with a wrong name are found", func(t *testing.T) {
		t.Parallel()
		checkWrongNames(t, r)
	})
}

// After make build, ./drawbridge is no folder to the check, and names that begin with it
// are no files that are not there.
func TestTheBuiltProgramIsNoFolder(t *testing.T) {
	t.Parallel()
	r := &repository{files: []string{"drawbridge", "docs", "docs/keys.md"}}
	if got := r.wrongIn("page.md", "`drawbridge/restart-settings`"); len(got) > 0 {
		t.Errorf("got %q, want nothing wrong", got)
	}
	if got := r.wrongIn("page.md", "`docs/locks.md`"); len(got) != 1 {
		t.Errorf("got %q, want a file that is not there", got)
	}
}

// checkWrongNames shows that each kind of name that is not there is found, and its
// neighbour that is there passes.
func checkWrongNames(t *testing.T, r *repository) {
	t.Helper()
	for good, bad := range map[string]string{
		"see [the plan](internal/archtest/)":          "see [the plan](internal/archplan/)",
		"see [why](#reason)\n\n## Reason\n":           "see [why](#raisin)\n\n## Reason\n",
		"see [it](#row-1)\n\n<a id=\"row-1\"></a>":    "see [it](#row-2)\n\n<a id=\"row-1\"></a>",
		"`internal/mcp/object.go`":                    "`internal/mcp/objects.go`",
		"`server/{server,origin}.go`":                 "`server/{errors,blog}.go`",
		"`mcp.Object`":                                "`mcp.Objekt`",
		"`Object.Has`":                                "`Object.Hat`",
		"`TestDocuments`":                             "`TestDokuments`",
		"`make test`":                                 "`make toast`",
		"`drawbridge serve -config x.yaml`":           "`drawbridge serve -konfig x.yaml`",
		"`DB-HOST`":                                   "`DB-GUEST`",
		"`drawbridge_calls_total`":                    "`drawbridge_falls_total`",
		"`server/discover`":                           "`server/recover`",
		"```sh\n./drawbridge validate -online\n```":   "```sh\n./drawbridge invalidate\n```",
		"```console\n$ make run ARGS=\"-h\"\n```":     "```console\n$ make ruin\n```",
		"```sh\ngo test ./internal/archtest/...\n```": "```sh\ngo test ./internal/archtost/...\n```",
	} {
		if got := r.wrongIn("page.md", good); len(got) > 0 {
			t.Errorf("%q: got %v, want nothing wrong", good, got)
		}
		if got := r.wrongIn("page.md", bad); len(got) != 1 {
			t.Errorf("%q: got %v, want one that is wrong", bad, got)
		}
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	span    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// wrongIn returns a line for each thing that a page names and that is not there. The page
// is named from the root.
func (r *repository) wrongIn(page, text string) []string {
	var wrong []string
	report := func(format string,
		args ...any,
	) {
		wrong = append(wrong, page+": "+fmt.Sprintf(format, args...))
	}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[2]) {
			command, typed := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if block[1] == "sh" || block[1] == "console" && typed {
				r.checkCommand(command, report)
			}
		}
	}
	prose := fence.ReplaceAllString(text, "")
	for _, match := range link.FindAllStringSubmatch(span.ReplaceAllString(prose, ""), -1) {
		r.checkLink(page, prose, match[1], report)
	}
	for _, match := range span.FindAllStringSubmatch(prose, -1) {
		r.checkSpan(match[1], report)
	}
	return wrong
}

func (r *repository) checkLink(page, text, target string, report func(string, ...any)) {
	if strings.Contains(target, "://") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		if file = path.Join(path.Dir(page), file); !slices.Contains(r.files, file) {
			report("links to %s, which is not there", target)
			return
		}
		data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(file)))
		if anchor != "" && err != nil {
			report("links to %s: %v", target, err)
		}
		text = string(data)
	}
	if anchor != "" && !strings.Contains(text, `<a id="`+anchor+`">`) && !hasHeading(text, anchor) {
		report("links to %s, but no heading is called so", target)
	}
}

// hasHeading tells whether a page has a heading that links call anchor.
func hasHeading(text, anchor string) bool {
	return slices.ContainsFunc(heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1),
		func(found []string) bool { return anchorOf(found[1]) == anchor })
}

// anchorOf returns what a heading is called in links.
func anchorOf(title string) string {
	title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(title), "")
	return strings.ReplaceAll(title, " ", "-")
}

var (
	goName     = regexp.MustCompile(`^\*?([a-z][a-z0-9]*)\.([A-Z]\w*(?:\.\w+)?)(?:\(.*\))?$`)
	memberName = regexp.MustCompile(`^\*?([A-Z]\w*\.[A-Za-z]\w*)(?:\(.*\))?$`)
	testName   = regexp.MustCompile(`^(?:Test|Fuzz|Example|Benchmark)[A-Z]\w*$`)
	filePath   = regexp.MustCompile(`^(?:\./)?[\w.*{},-]+(?:/[\w.*{},-]+)*/?$`)
	goFile     = regexp.MustCompile(`^[a-z][a-z0-9_]*\.go$`)
	code       = regexp.MustCompile(`^DB-[A-Z-]+$`)
	metric     = regexp.MustCompile(`^drawbridge_[a-z_]+`)
)

// checkSpan checks one piece of inline code. What it cannot tell to be a name of ours
// passes.
func (r *repository) checkSpan(text string, report func(string, ...any)) {
	first, _, nested := strings.Cut(strings.TrimPrefix(text, "./"), "/")
	switch {
	case regexp.MustCompile(`^(make|(\./)?drawbridge|go test) `).MatchString(text):
		r.checkCommand(text, report)
	case code.MatchString(text):
		if !r.literals[text] {
			report("no error has the code %s", text)
		}
	case metric.MatchString(text):
		name := regexp.MustCompile(`_(?:bucket|count|sum)$`).ReplaceAllString(metric.FindString(text), "")
		if !r.literals[name] && !r.literals[metric.FindString(text)] {
			report("no metric is called %s", text)
		}
	case testName.MatchString(text):
		if !r.declares("", text) {
			report("no test is called %s", text)
		}
	case goName.MatchString(text):
		name := goName.FindStringSubmatch(text)
		if _, ours := r.declared[name[1]]; ours && !r.declares(name[1], name[2]) {
			report("package %s has no %s", name[1], name[2])
		}
	case memberName.MatchString(text):
		if name := memberName.FindStringSubmatch(text)[1]; r.declares("", strings.Split(name, ".")[0]) &&
			!r.declares("", name) {
			report("nothing is called %s", name)
		}
	case goFile.MatchString(text) || nested && filePath.MatchString(text) && r.isFolder(first) &&
		!r.literals[text]:
		if !r.has(text) {
			report("%s is not there", text)
		}
	}
}

// checkCommand checks a command line, as far as it calls make, drawbridge or go with
// packages of this repository.
func (r *repository) checkCommand(line string, report func(string, ...any)) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	switch words[0] {
	case "make":
		if !slices.Contains(r.targets, words[1]) {
			report("make has no target %s", words[1])
		}
	case "drawbridge", "./drawbridge":
		flags, ok := r.flags[words[1]]
		if !ok && !strings.HasPrefix(words[1], "-") {
			report("drawbridge has no command %s", words[1])
		}
		for _, word := range words[2:] {
			name, _, _ := strings.Cut(word, "=")
			if ok && regexp.MustCompile(`^-[a-z-]+$`).MatchString(name) && !slices.Contains(flags, name) {
				report("drawbridge %s has no flag %s", words[1], name)
			}
		}
	case "go":
		for _, word := range words[2:] {
			if strings.HasPrefix(word, "./") && !r.has(word) {
				report("%s is not there", word)
			}
		}
	}
}
