package sanitize

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Characters that begin and end embeddings and isolates, which set the direction of the text between them. The two
// overrides (U+202D, U+202E) are not among them and are always removed: they can show a text backwards, so that a
// reader sees another one than the model.
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

// rightToLeft tells whether r stands in a block of scripts that are written from right to left.
// https://www.unicode.org/Public/UCD/latest/ucd/extracted/DerivedBidiClass.txt
func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08FF && r != arabicMark || r >= 0xFB1D && r <= 0xFDFF || r >= 0xFE70 && r <= 0xFEFC ||
		r >= 0x10800 && r <= 0x10FFF || r >= 0x1E800 && r <= 0x1EFFF
}

// directions answers for one text where direction marks, embeddings and isolates may stay. Questions must come in the
// order of their places: it then looks at every paragraph only once, and a text full of marks costs no more than its
// length.
type directions struct {
	text []byte
	any  bool // the text has letters written from right to left; valid once end is not zero

	// About the paragraph that was looked at last.
	end      int  // index of its end; zero: none was looked at yet
	some     bool // it has letters written from right to left
	balanced bool // every embedding and isolate that begins in it ends in it, in order
}

// isolates tells whether the paragraph around i may have embeddings and isolates. The text as a whole must have letters
// written from right to left, and the paragraph must close what it opens: otherwise the order of what follows changes.
func (d *directions) isolates(i int) bool {
	d.look(i)
	return d.any && d.balanced
}

// marks tells whether the direction mark at i may stand between before and after. The paragraph must have letters
// written from right to left. A second mark in a row has no effect, and neither has one within a word of other letters,
// so both could only carry hidden text.
func (d *directions) marks(i int, before, after []byte) bool {
	switch last(before) {
	case leftMark, rightMark, arabicMark:
		return false
	}
	if !turns(last(before)) && !turns(first(after)) && len(before) > 0 && len(after) > 0 {
		return false
	}
	d.look(i)
	return d.some
}

// turns tells whether the direction of text may change next to r: r has no direction of its own, or is written from
// right to left.
func turns(r rune) bool {
	return !suspect(r) && (rightToLeft(r) || unicode.IsSpace(r) ||
		unicode.In(r, unicode.P, unicode.S, unicode.Nd, unicode.Mn))
}

// look sets the fields for the paragraph around i, unless it is the one that was looked at last.
func (d *directions) look(i int) {
	if i < d.end {
		return
	}
	if d.end == 0 {
		d.any = bytes.ContainsFunc(d.text, rightToLeft)
	}
	start := d.end
	if n := bytes.LastIndexByte(d.text[start:i], '\n'); n >= 0 {
		start += n + 1
	}
	d.end = len(d.text)
	if n := bytes.IndexByte(d.text[i:], '\n'); n >= 0 {
		d.end = i + n
	}
	paragraph := d.text[start:d.end]
	d.some = d.any && bytes.ContainsFunc(paragraph, rightToLeft)
	d.balanced = d.any && balanced(paragraph)
}

// maxNested is the depth to which the Unicode algorithm follows embeddings and isolates (max_depth).
// https://www.unicode.org/reports/tr9/#BD2
const maxNested = 125

// balanced tells whether the embeddings and isolates of a paragraph are closed in order, and none is nested too deep.
func balanced(paragraph []byte) bool {
	var open []rune // for each one that is open, the character that closes it
	for i := 0; i < len(paragraph); {
		if paragraph[i] != 0xE2 { // the first byte of all of them
			i++
			continue
		}
		r, size := utf8.DecodeRune(paragraph[i:])
		i += size
		switch r {
		case leftEmbedding, rightEmbedding:
			open = append(open, endEmbedding)
		case leftIsolate, leftIsolate + 1, firstIsolate:
			open = append(open, endIsolate)
		case endEmbedding, endIsolate:
			if len(open) == 0 || open[len(open)-1] != r {
				return false
			}
			open = open[:len(open)-1]
		}
		if len(open) > maxNested {
			return false
		}
	}
	return len(open) == 0
}
