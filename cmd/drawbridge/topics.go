package main

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/drawbridge-mcp/drawbridge/docs"
)

// developers names the pages that are not for operators.
func developers() []string {
	return []string{".", "architecture", "extending"}
}

// files has the pages of the documentation by name, a README by that of its folder,
// without those for developers.
var files = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "login/*.md", "reference/*.md"} {
		found, _ := fs.Glob(docs.Pages, pattern) // the pattern is good
		for _, file := range found {
			name := strings.TrimSuffix(path.Base(file), ".md")
			if name == "README" {
				name = path.Base(path.Dir(file))
			}
			if !slices.Contains(developers(), name) {
				all[name] = file
			}
		}
	}
	return all
})

// topics returns what help can be asked about, sorted.
func topics() []string { return slices.Sorted(maps.Keys(files())) }

// tags are what pages have for browsers alone: pictures, and places that links lead to.
var tags = regexp.MustCompile(`<img [^>]*>\n*|<a id="[^"]*"></a>`)

// page returns the text of a topic for a terminal, "" if there is none of that name.
func page(topic string) string { return textOfPage(files()[topic]) }

// textOfPage returns the text of a file of the documentation for a terminal, "" if there
// is no such file.
func textOfPage(file string) string {
	text, _ := fs.ReadFile(docs.Pages, file) // nothing of one that is not there
	return tags.ReplaceAllString(string(text), "")
}

// section returns the part of a page below a heading, up to the next of the same level;
// "" if there is none.
func section(text, heading string) string {
	_, rest, found := strings.Cut("\n"+text, "\n## "+heading+"\n")
	if !found {
		return ""
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return strings.TrimSpace("## "+heading+"\n"+body) + "\n"
}

// withReason returns the outcomes with a reason that the word alone says, sorted.
func withReason(reason string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(meanings())),
		func(words string) bool { return !strings.HasSuffix(words, ", "+reason) })
}

// ofSymptom returns the sections to which the table of symptoms leads from the words of
// somebody who sees one.
func ofSymptom(topic string) (sections []string) {
	for line := range strings.Lines(page("debug")) {
		symptom, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		_, target, linked := strings.Cut(rest, "](")
		words := strings.FieldsFunc(strings.ToLower(symptom), isSeparator)
		lacks := func(word string) bool { return !slices.Contains(words, word) }
		typed := strings.FieldsFunc(strings.ToLower(topic), isSeparator)
		if !linked || len(typed) == 0 || slices.ContainsFunc(typed, lacks) {
			continue
		}
		target, _, _ = strings.Cut(target, ")")
		file, anchor, _ := strings.Cut(target, "#")
		text := textOfPage(cmp.Or(file, "debug.md"))
		for line := range strings.Lines(text) {
			heading, is := strings.CutPrefix(strings.TrimSpace(line), "## ")
			if is && anchor == strings.Join(strings.FieldsFunc(strings.ToLower(heading), isSeparator), "-") {
				sections = append(sections, section(text, heading))
			}
		}
	}
	return sections
}

// isSeparator tells whether a character stands between words.
func isSeparator(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }

// meaning is what the reference says of a code, an outcome or a reason.
type meaning struct{ says, cure string }

// meaningOf looks up a code, an outcome, or an outcome with its reason as "forbidden,
// denied".
func meaningOf(words string) meaning { return meanings()[words] }

// meanings returns the tables of the reference: codes, outcomes, outcomes with their
// reason, and warnings.
var meanings = sync.OnceValue(func() map[string]meaning {
	return tabled(page("codes") + section(page("config"), "Warnings"))
})

// signInMeanings is meanings for lines of sign-ins, whose outcomes with their reasons may
// be those of calls and mean something else.
var signInMeanings = sync.OnceValue(func() map[string]meaning {
	_, text, _ := strings.Cut(page("codes"), "\n### Sign-ins on record\n")
	text, _, _ = strings.Cut(text, "\n### ")
	return tabled(text)
})

// tabled reads the tables of a text. The first of several rows with the same words
// counts.
func tabled(text string) map[string]meaning {
	all := map[string]meaning{}
	cure := "" // of the row above, which "the same" means
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 2 || !strings.HasPrefix(cells[0], "| ") {
			continue
		}
		name := strings.TrimPrefix(cells[0], "| ")
		for i := range cells {
			cells[i] = plain(strings.TrimSuffix(cells[i], " |"))
		}
		if own := strings.Trim(cells[len(cells)-1], "| "); own != "the same" {
			cure = own
		}
		words := plain(name)
		if "`"+strings.ReplaceAll(words, ", ", "`, `")+"`" != name || all[words] != (meaning{}) {
			continue
		}
		switch {
		case strings.HasPrefix(words, "DB-") && len(cells) == 5:
			all[words] = meaning{cells[3], cure}
		case !strings.HasPrefix(words, "DB-") && len(cells) == 2:
			all[words] = meaning{says: cells[1]}
		}
	}
	return all
}

// links are those of a cell, of which a terminal is shown the words.
var links = regexp.MustCompile(`\[([^\[\]]*)\]\([^)]*\)`)

// plain takes the marks of links and code out of a cell.
func plain(cell string) string {
	return strings.ReplaceAll(links.ReplaceAllString(cell, "$1"), "`", "")
}
