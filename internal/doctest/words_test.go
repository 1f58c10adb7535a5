package doctest_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var printWords = flag.Bool("words", false, "print the words of each page, in all and of its sentences")

// Bounds of pages for people: users, operators, and whoever wants to know what this is.
const (
	readmeWords   = 900 // of README.md, code and tables included
	meanSentence  = 17  // words of a sentence, on average
	mostSentences = 27  // words that nine of ten sentences have at most
	longestCell   = 45  // words of a cell of a table
)

// forDevelopers lists the pages that are for those who change the code. Their sentences
// are printed and have no bounds.
func forDevelopers() []string {
	return []string{"CHANGELOG.md", "docs/architecture.md", "docs/extending.md", "docs/glossary.md"}
}

// TestSentencesAreShort bounds the sentences of each page for people, and looks for words
// that only its authors know.
func TestSentencesAreShort(t *testing.T) {
	var all strings.Builder
	fmt.Fprintf(&all, "%6s %10s %5s %4s  %s\n", "words", "sentences", "mean", "90 %", "page")
	for _, page := range documents(t) {
		text := read(t, page)
		got := sentencesOf(text)
		fmt.Fprintf(&all, "%6d %10d %5.1f %4d  %s\n", len(strings.Fields(text)), len(got.lengths), got.mean(),
			got.most(), page)
		if slices.Contains(forDevelopers(), page) {
			continue
		}
		if got.mean() > meanSentence || got.most() > mostSentences {
			t.Errorf(
				"%s: sentences have %.1f words on average and nine of ten at most %d, want %d and %d; the longest:\n\t%s",
				page, got.mean(), got.most(), meanSentence, mostSentences, strings.Join(got.longest, "\n\t"))
		}
		for _, cell := range got.cells {
			if n := len(strings.Fields(cell)); n > longestCell {
				t.Errorf("%s: a cell of a table has %d words, want at most %d:\n\t%s", page, n, longestCell,
					cell)
			}
		}
		for _, word := range private.FindAllString(got.text, -1) {
			t.Errorf("%s: %q is a word that only those know who wrote this", page, word)
		}
	}
	if n := len(strings.Fields(read(t, "README.md"))); n > readmeWords {
		t.Errorf("README.md has %d words, want at most %d: what it says beyond belongs into docs", n,
			readmeWords)
	}
	if *printWords {
		_, _ = os.Stdout.WriteString(all.String()) // make docs shows it
	}
}

// TestSentencesAreCounted shows how words and sentences are counted.
func TestSentencesAreCounted(t *testing.T) {
	t.Parallel()
	got := sentencesOf(
		"# One two three four\n\nA page has *words*, see [this\nlink](of/it.md). `a b c` is one word, e.g. here.\n\n" +
			"- An item counts for itself\n- short\n\n| a | b |\n|---|---|\n| one two | `x` |\n\n```sh\nno words of prose here\n```\n")
	if want := []int{7, 6, 5}; !slices.Equal(got.lengths, want) {
		t.Errorf("got sentences of %d words, want %d", got.lengths, want)
	}
	if want := []string{"a", "b", "one two", "X"}; !slices.Equal(got.cells, want) {
		t.Errorf("got cells %q, want %q", got.cells, want)
	}
	if found := private.FindAllString("The desk and `desk` in houses", -1); len(found) != 3 {
		t.Errorf("got %q, want desk, desk and houses", found)
	}
}

// private are words for parts of the program that only its authors use.
var private = regexp.MustCompile(`(?i)\b(?:houses?|floors?|desks?|doors?)\b`)

// prose is what is counted of a page.
type prose struct {
	text    string // without code
	lengths []int  // words of each sentence, sorted after sentencesOf
	longest []string
	cells   []string
}

func (p *prose) mean() float64 {
	sum := 0
	for _, n := range p.lengths {
		sum += n
	}
	return float64(sum) / float64(max(len(p.lengths), 1))
}

// most returns how many words nine of ten sentences have at most.
func (p *prose) most() int {
	if len(p.lengths) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(p.lengths))
	return sorted[(len(sorted)*9-1)/10]
}

var (
	picture   = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|<[^>]+>`)
	linked    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	item      = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) +`)
	sentence  = regexp.MustCompile(`[.!?]["”)*]*\s+["“(*]*[A-Z0-9¹²³]`)
	shortened = regexp.MustCompile(`\b(?:e\.g|i\.e)\. `)
)

// shortest is how many words make a sentence; less is a caption.
const shortest = 4

// sentencesOf counts the sentences of the paragraphs and the items of lists, and collects
// the cells of tables. Code in a line is one word. Headings, blocks of code and pictures
// have no sentences.
func sentencesOf(text string) *prose {
	p := &prose{}
	text = fence.ReplaceAllString(text, "\n")
	text = span.ReplaceAllString(text, "X")
	text = linked.ReplaceAllString(picture.ReplaceAllString(text, ""), "$1")
	text = shortened.ReplaceAllString(text, "x ")
	p.text = text
	var paragraph []string
	end := func() {
		if whole := strings.Join(paragraph, " "); !strings.Contains(whole, " · ") { // no list of links
			p.count(whole)
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "|"):
			end()
			if cells := cellsOf(strings.TrimSpace(line)); strings.Trim(cells[0], "-: ") != "" ||
				len(cells) < 2 ||
				strings.Trim(cells[1], "-: ") != "" {
				p.cells = append(p.cells, cells...)
			}
			continue
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			end()
			continue
		case item.MatchString(line):
			end()
			line = item.ReplaceAllString(line, "")
		}
		paragraph = append(paragraph, strings.TrimSpace(line))
	}
	end()
	slices.SortFunc(p.longest,
		func(a, b string) int { return len(strings.Fields(b)) - len(strings.Fields(a)) })
	p.longest = p.longest[:min(5, len(p.longest))]
	return p
}

// count adds the sentences of a paragraph.
func (p *prose) count(paragraph string) {
	for paragraph != "" {
		one := paragraph
		if found := sentence.FindStringIndex(paragraph); found != nil {
			one = paragraph[:found[0]+1]
			paragraph = strings.TrimLeft(paragraph[found[0]+1:], "\"”)* ")
		} else {
			paragraph = ""
		}
		if n := len(strings.Fields(one)); n >= shortest {
			p.lengths = append(p.lengths, n)
			if n > mostSentences {
				p.longest = append(p.longest, one)
			}
		}
	}
}

// glossaryEntries is how many words the glossary may explain. Whoever needs another one
// looks for a word of the field first.
const glossaryEntries = 40

// TestGlossaryIsShort counts the words that the glossary explains, also those that it
// explains with another one.
func TestGlossaryIsShort(t *testing.T) {
	t.Parallel()
	n := len(regexp.MustCompile(`\*\*[^*]+\*\*`).FindAllString(read(t, "docs/glossary.md"), -1))
	if n == 0 || n > glossaryEntries {
		t.Errorf("the glossary explains %d words, want at most %d", n, glossaryEntries)
	}
}
