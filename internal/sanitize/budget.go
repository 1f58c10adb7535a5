package sanitize

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The marker says at the end of a cut text how many bytes of this and later texts were left out.
const (
	markerStart = "… [truncated by drawbridge: "
	markerEnd   = " bytes left out]"
)

// budget bounds the text of one result.
type budget struct {
	room int // bytes of text that still fit

	marker  int // where the number belongs into the marker in the value being walked; zero: there is none yet
	leftOut int // bytes left out of that value
}

// counted cleans a text that counts against the limit.
func (w *walker) counted(i, end int, s sight) {
	if size := end - i - 2 - s.short; s.marks&(w.watch|escaped|beyond) == 0 && size <= w.room {
		w.room -= size
		return
	}
	text := w.decode(w.data[i:end])
	cleaned, changed := w.repair(text)
	body := withoutMarker(cleaned)
	if len(body) <= w.room {
		w.room -= len(body)
		if changed {
			w.replace(i, end, cleaned)
		}
		return
	}
	w.truncate(i, end, body)
}

// truncate puts as much of text as fits in the place of data[i:end]. The first text that is cut gets the marker; those
// after it become empty.
func (w *walker) truncate(i, end int, text []byte) {
	w.truncated++
	fits := w.cut(text)
	w.leftOut += len(text) - len(fits)
	w.room = 0
	w.replace(i, end, fits)
	if w.marker > 0 {
		return
	}
	w.out = append(w.out[:len(w.out)-1], markerStart...)
	w.marker = len(w.out)
	w.out = append(append(w.out, markerEnd...), '"')
}

// cut returns the beginning of text that fits, cleaned as it stands: cutting may part what was allowed only together.
func (w *walker) cut(text []byte) []byte {
	before := w.counts
	defer func() { w.counts = before }()
	for len(text) > w.room {
		text = text[:w.room]
		for len(text) > 0 && !utf8.Valid(text[len(text)-min(len(text), utf8.UTFMax):]) {
			text = text[:len(text)-1]
		}
		text, _ = w.repair(text)
	}
	return text
}

// settle writes the number into the marker, when there is one.
func (b *budget) settle(out []byte) []byte {
	if b.marker > 0 {
		out = slices.Insert(out, b.marker, strconv.AppendInt(nil, int64(b.leftOut), 10)...)
	}
	b.marker, b.leftOut = 0, 0
	return out
}

// withoutMarker returns text without what was written here, so that a result that was cleaned before fits as it is.
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
