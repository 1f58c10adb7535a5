package sanitize

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Characters that begin and end embeddings and isolates, which set the direction of the
// text between them. The two overrides (U+202D, U+202E) are not among them and are always
// removed: they can show a text backwards, so that a reader sees another one than the
// model.
// https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters
const (
	leftEmbedding  = 0x202A
	rightEmbedding = 0x202B
	endEmbedding   = 0x202C
	leftIsolate    = 0x2066
	firstIsolate   = 0x2068
	endIsolate     = 0x2069
)

// isolation tells whether r begins or ends an embedding or isolate.
func isolation(r rune) bool {
	return r >= leftEmbedding && r <= endEmbedding || r >= leftIsolate && r <= endIsolate
}

// rightToLeft tells whether r stands in a block of scripts that are written from right to
// left. The noncharacters among the forms of Arabic are no letters, and vouch for
// nothing.
// https://www.unicode.org/Public/UCD/latest/ucd/extracted/DerivedBidiClass.txt
func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08FF && r != arabicMark || r >= 0xFB1D && r < 0xFDD0 || r > 0xFDEF &&
		r <= 0xFDFF || r >= 0xFE70 && r <= 0xFEFC ||
		r >= 0x10800 && r <= 0x10FFF || r >= 0x1E800 && r <= 0x1EFFF
}

// directions answers for one text where direction marks, embeddings and isolates may
// stay. Questions must come in the order of their places: it then looks at every
// paragraph only once, and a text full of marks costs no more than its length.
type directions struct {
	text []byte

	// About the paragraph that was looked at last.
	start, end int    // it is text[start:end]; end zero: none was looked at yet
	pairs      []pair // its embeddings and isolates, in order; none if one of them is not closed in order
	staying    []int  // indexes of the characters that begin or end a useful pair, sorted
}

// pair is an embedding or isolate: where it begins and ends, and how many characters that
// are seen stand in the paragraph before either place.
type pair struct {
	open, end      int
	before, within int
}

// isolates tells whether the character at i, which begins or ends an embedding or
// isolate, may stay. The paragraph must close what it opens, or the order of what follows
// would change; and the pair must have an effect: it holds something that is seen, is the
// innermost pair around it, and one of its ends is near letters written from right to
// left.
func (d *directions) isolates(i int) bool {
	d.scan(i)
	_, preserved := slices.BinarySearch(d.staying, i)
	return preserved
}

// keepUseful sets staying.
func (d *directions) keepUseful() {
	type content struct{ before, within int }
	innermost := make(map[content]int)
	for n, p := range d.pairs {
		innermost[content{p.before, p.within}] = n
	}
	d.staying = d.staying[:0]
	for n, p := range d.pairs {
		if p.before < p.within && innermost[content{p.before, p.within}] == n &&
			(d.near(p.open) || d.near(p.end)) {
			d.staying = append(d.staying, p.open, p.end)
		}
	}
	slices.Sort(d.staying)
}

// maxNear is how far from letters that are written from right to left a mark, embedding
// or isolate has an effect: so many spaces and characters beyond ASCII, other marks among
// them, may stand between. One Hebrew letter in a Latin text must not permit marks in all
// of it. Visible ASCII does not count, because the distance would grow when a secret that
// stands between is redacted, and cleaning twice would differ from cleaning once.
const maxNear = 8

// near tells whether letters written from right to left stand near the character at i in
// its paragraph.
func (d *directions) near(i int) bool {
	for at, distance := i, 0; at > d.start && distance < maxNear; {
		r, size := utf8.DecodeLastRune(d.text[d.start:at])
		if rightToLeft(r) {
			return true
		}
		at, distance = at-size, distance+weight(r)
	}
	for at, distance := i, 0; at < d.end && distance < maxNear; {
		r, size := utf8.DecodeRune(d.text[at:d.end])
		if rightToLeft(r) {
			return true
		}
		at, distance = at+size, distance+weight(r)
	}
	return false
}

// weight is 0 for visible ASCII, otherwise 1.
func weight(r rune) int {
	if r > ' ' && r < utf8.RuneSelf {
		return 0
	}
	return 1
}

// marks tells whether the direction mark at i may stand between before and after. Letters
// written from right to left must be near. A second mark in a row has no effect, and
// neither has one within a word of other letters, so both could only carry hidden text.
func (d *directions) marks(i int, before, after []byte) bool {
	switch last(before) {
	case leftMark, rightMark, arabicMark:
		return false
	}
	if !turns(last(before)) && !turns(first(after)) && len(before) > 0 && len(after) > 0 {
		return false
	}
	d.scan(i)
	return d.near(i)
}

// turns tells whether the direction of text may change next to r: r has no direction of
// its own, or is written from right to left.
func turns(r rune) bool {
	return !suspect(r) && (rightToLeft(r) || unicode.IsSpace(r) ||
		unicode.In(r, unicode.P, unicode.S, unicode.Nd, unicode.Mn))
}

// scan sets the fields for the paragraph around i, unless it is the one that was looked
// at last.
func (d *directions) scan(i int) {
	if i < d.end {
		return
	}
	if n := bytes.LastIndexByte(d.text[d.end:i], '\n'); n >= 0 {
		d.start = d.end + n + 1
	}
	d.end = len(d.text)
	if n := bytes.IndexByte(d.text[i:], '\n'); n >= 0 {
		d.end = i + n
	}
	d.findPairs()
	d.keepUseful()
}

// maxNested is the depth to which the Unicode algorithm follows embeddings and isolates
// (max_depth).
// https://www.unicode.org/reports/tr9/#BD2
const maxNested = 125

// findPairs sets pairs: to none when an embedding or isolate is not closed in order, or
// nested too deep.
func (d *directions) findPairs() {
	d.pairs = d.pairs[:0]
	var open []int // the numbers of the pairs that are open
	seen := 0
	for i := d.start; i < d.end && len(open) <= maxNested; {
		r, size := utf8.DecodeRune(d.text[i:])
		switch r {
		case leftEmbedding, rightEmbedding, leftIsolate, leftIsolate + 1, firstIsolate:
			open = append(open, len(d.pairs))
			d.pairs = append(d.pairs, pair{open: i, before: seen})
		case endEmbedding, endIsolate:
			if len(open) == 0 || d.ending(open[len(open)-1]) != r {
				d.pairs = d.pairs[:0]
				return
			}
			p := &d.pairs[open[len(open)-1]]
			p.end, p.within = i, seen
			open = open[:len(open)-1]
		default:
			if !suspect(r) {
				seen++
			}
		}
		i += size
	}
	if len(open) > 0 {
		d.pairs = d.pairs[:0]
	}
}

// ending returns the character that closes the pair with that number.
func (d *directions) ending(n int) rune {
	if first(d.text[d.pairs[n].open:]) < leftIsolate {
		return endEmbedding
	}
	return endIsolate
}
