package sanitize

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The marker stands at the end of the first text that was cut. It says how many bytes of
// this text and of later ones in the same member of the result were left out.
const (
	markerStart = "… [truncated by drawbridge: "
	markerEnd   = " bytes left out]"
)

// budget bounds the text of one result, over all its texts together.
type budget struct {
	remaining int // bytes of decoded text that still fit

	// The number in a marker is known only when the whole value has been walked, so
	// settle inserts it.
	marker  int // index in walker.out at which the number belongs; zero: no marker was written in this value
	leftOut int // bytes left out of this value
}

// counted cleans the text in data[i:end] and counts it against the limit. What is counted
// is the text after cleaning, as the reader gets it.
func (w *walker) counted(i, end int, s sight) {
	// Without marks, every escape has two bytes and stands for one: the size is known
	// without decoding.
	if size := end - i - 2 - s.short; s.marks&(w.watch|escaped|beyond) == 0 && size <= w.remaining {
		w.remaining -= size
		return
	}
	cleaned, changed := w.decode(w.data[i:end]), false
	if s.marks&w.watch != 0 {
		cleaned, changed = w.repair(cleaned)
	}
	body := withoutMarker(cleaned)
	if len(body) <= w.remaining {
		w.remaining -= len(body)
		if changed {
			w.replace(i, end, cleaned)
		}
		return
	}
	w.truncate(i, end, body)
}

// truncate puts as much of text as fits in the place of data[i:end]. The first text that
// is cut gets the marker; texts after it become empty, because no room is left.
func (w *walker) truncate(i, end int, text []byte) {
	w.truncated++
	fits := w.cut(text)
	w.leftOut += len(text) - len(fits)
	w.remaining = 0
	w.replace(i, end, fits)
	if w.marker > 0 {
		return
	}
	w.out = append(w.out[:len(w.out)-1], markerStart...) // in the place of the closing quotation mark
	w.marker = len(w.out)
	w.out = append(append(w.out, markerEnd...), '"')
}

// cut returns the beginning of text that fits, at the boundary of a character. The
// beginning is cleaned once more, because some characters are allowed only together, as a
// joiner between two emoji, and the cut may separate them. That does not count as a
// finding.
func (w *walker) cut(text []byte) []byte {
	before := w.counts
	defer func() { w.counts = before }()
	for len(text) > w.remaining {
		end := w.remaining
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text, _ = w.repair(text[:end])
	}
	return text
}

// settle inserts the number into the marker, if there is one, and returns the finished
// value.
func (b *budget) settle(out []byte) []byte {
	if b.marker > 0 {
		out = slices.Insert(out, b.marker, strconv.AppendInt(nil, int64(b.leftOut), 10)...)
	}
	b.marker, b.leftOut = 0, 0
	return out
}

// withoutMarker returns text without a marker or notice that this package wrote. They do
// not count against the limit, so that a result that was cut before is not cut again:
// cleaning twice must be the same as cleaning once.
func withoutMarker(text []byte) []byte {
	if string(text) == refusedText {
		return nil
	}
	head, ok := bytes.CutSuffix(text, []byte(markerEnd))
	if !ok {
		return text
	}
	const mostDigits = 19
	number := bytes.TrimRight(head[max(0, len(head)-mostDigits):], digits)
	n := min(len(head), mostDigits) - len(number)
	body, ok := bytes.CutSuffix(head[:len(head)-n], []byte(markerStart))
	if !ok || n == 0 {
		return text
	}
	return body
}
