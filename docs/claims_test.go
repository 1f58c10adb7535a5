package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// flagsOfCommands builds the program and asks it for its commands, and each command for its flags.
func flagsOfCommands(t *testing.T, root string) map[string][]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "drawbridge")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/drawbridge")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	help := func(args ...string) string {
		output, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("drawbridge %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		return string(output)
	}
	flags := map[string][]string{}
	for _, command := range regexp.MustCompile(`(?m)^  ([a-z]+) {2,}`).FindAllStringSubmatch(help("-h"), -1) {
		flags[command[1]] = []string{"-h"}
		for _, flag := range regexp.MustCompile(`(?m)^  (-[a-z-]+)`).FindAllStringSubmatch(help(command[1], "-h"), -1) {
			flags[command[1]] = append(flags[command[1]], flag[1])
		}
	}
	return flags
}

// documents lists the repository's pages.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/evidence/*.md", "deploy/*.md"} {
		pages, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pages...)
	}
	return found
}

// TestDocuments reads every page and resolves what it links to and what it names: files, Go names, tests, make targets,
// commands with their flags, error codes and metrics.
func TestDocuments(t *testing.T) {
	h := survey(t)
	t.Run("name what is there", func(t *testing.T) { checkPages(t, h) })
	t.Run("with a wrong name are found", func(t *testing.T) { checkWrongNames(t, h) })
	t.Run("of errors have every code and outcome", func(t *testing.T) { checkErrors(t, h) })
}

// checkErrors looks for every code and outcome of the source in the page on errors.
func checkErrors(t *testing.T, h *house) {
	t.Helper()
	page, err := os.ReadFile("errors.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(h.root, "internal", "gateway", "errors.go"))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for word := range h.literals {
		if code.MatchString(word) && !strings.HasSuffix(word, "-") {
			words = append(words, word)
		}
	}
	codes := len(words)
	for _, match := range regexp.MustCompile(`(?:kind:|kind =|outcome\w+ +=) *"(\w+)"`).FindAllStringSubmatch(string(table), -1) {
		words = append(words, match[1])
	}
	if codes < 40 || len(words) < codes+15 {
		t.Fatalf("found %d codes and %d outcomes in the source", codes, len(words)-codes)
	}
	for _, word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/errors.md has no `%s`", word)
		}
	}
}

// After make build, ./drawbridge was taken for a folder, and all names of ours that begin with it for files that are not there.
func TestTheBuiltProgramWasTakenForAFolder(t *testing.T) {
	h := &house{files: []string{"drawbridge", "docs", "docs/keys.md"}}
	if got := h.wrongIn("page.md", "`drawbridge/restart-settings`"); len(got) > 0 {
		t.Errorf("got %q, want nothing wrong", got)
	}
	if got := h.wrongIn("page.md", "`docs/locks.md`"); len(got) != 1 {
		t.Errorf("got %q, want a file that is not there", got)
	}
}

func checkPages(t *testing.T, h *house) {
	t.Helper()
	pages := documents(t)
	if len(pages) < 3 {
		t.Fatalf("found %d pages", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range h.wrongIn(filepath.ToSlash(strings.TrimPrefix(page, ".."+string(filepath.Separator))), string(text)) {
			t.Error(wrong)
		}
	}
}

// checkWrongNames shows that each kind of name that is not there is found, and its neighbour that is there passes.
func checkWrongNames(t *testing.T, h *house) {
	t.Helper()
	for good, bad := range map[string]string{
		"see [the plan](internal/archtest/)":          "see [the plan](internal/archplan/)",
		"see [why](#reason)\n\n## Reason\n":           "see [why](#raisin)\n\n## Reason\n",
		"`internal/mcp/object.go`":                    "`internal/mcp/objects.go`",
		"`server/{errors,log}.go`":                    "`server/{errors,blog}.go`",
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
		if got := h.wrongIn("page.md", good); len(got) > 0 {
			t.Errorf("%q: got %v, want nothing wrong", good, got)
		}
		if got := h.wrongIn("page.md", bad); len(got) != 1 {
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

// wrongIn returns a line for each thing that a page names and that is not there. The page is named from the root.
func (h *house) wrongIn(page, text string) []string {
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, page+": "+fmt.Sprintf(format, args...)) }
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[2]) {
			command, typed := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if block[1] == "sh" || block[1] == "console" && typed {
				h.checkCommand(command, report)
			}
		}
	}
	prose := fence.ReplaceAllString(text, "")
	for _, match := range link.FindAllStringSubmatch(span.ReplaceAllString(prose, ""), -1) {
		h.checkLink(page, prose, match[1], report)
	}
	for _, match := range span.FindAllStringSubmatch(prose, -1) {
		h.checkSpan(match[1], report)
	}
	return wrong
}

func (h *house) checkLink(page, text, target string, report func(string, ...any)) {
	if strings.Contains(target, "://") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		if file = path.Join(path.Dir(page), file); !slices.Contains(h.files, file) {
			report("links to %s, which is not there", target)
			return
		}
		data, err := os.ReadFile(filepath.Join(h.root, filepath.FromSlash(file)))
		if anchor != "" && err != nil {
			report("links to %s: %v", target, err)
		}
		text = string(data)
	}
	if anchor != "" && !slices.ContainsFunc(heading.FindAllStringSubmatch(text, -1), func(h []string) bool { return anchorOf(h[1]) == anchor }) {
		report("links to %s, but no heading is called so", target)
	}
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

// checkSpan checks one piece of inline code. What it cannot tell to be a name of ours passes.
func (h *house) checkSpan(text string, report func(string, ...any)) {
	first, _, nested := strings.Cut(strings.TrimPrefix(text, "./"), "/")
	switch {
	case strings.HasPrefix(text, "make ") || strings.HasPrefix(text, "drawbridge ") || strings.HasPrefix(text, "./drawbridge ") || strings.HasPrefix(text, "go test "):
		h.checkCommand(text, report)
	case code.MatchString(text):
		if !h.literals[text] {
			report("no error has the code %s", text)
		}
	case metric.MatchString(text):
		name := regexp.MustCompile(`_(?:bucket|count|sum)$`).ReplaceAllString(metric.FindString(text), "")
		if !h.literals[name] && !h.literals[metric.FindString(text)] {
			report("no metric is called %s", text)
		}
	case testName.MatchString(text):
		if !h.declares("", text) {
			report("no test is called %s", text)
		}
	case goName.MatchString(text):
		name := goName.FindStringSubmatch(text)
		if _, ours := h.declared[name[1]]; ours && !h.declares(name[1], name[2]) {
			report("package %s has no %s", name[1], name[2])
		}
	case memberName.MatchString(text):
		if name := memberName.FindStringSubmatch(text)[1]; h.declares("", strings.Split(name, ".")[0]) && !h.declares("", name) {
			report("nothing is called %s", name)
		}
	case goFile.MatchString(text) || nested && filePath.MatchString(text) && h.isFolder(first) && !h.literals[text]:
		if !h.has(text) {
			report("%s is not there", text)
		}
	}
}

// checkCommand checks a command line, as far as it calls make, drawbridge or go with packages of this repository.
func (h *house) checkCommand(line string, report func(string, ...any)) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	switch words[0] {
	case "make":
		if !slices.Contains(h.targets, words[1]) {
			report("make has no target %s", words[1])
		}
	case "drawbridge", "./drawbridge":
		flags, ok := h.flags[words[1]]
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
			if strings.HasPrefix(word, "./") && !h.has(word) {
				report("%s is not there", word)
			}
		}
	}
}
