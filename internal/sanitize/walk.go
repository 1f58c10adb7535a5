package sanitize

import (
	"bytes"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// walker goes through raw JSON and copies it only from the first repair on.
type walker struct {
	cleaner
	budget

	watch     marks // those that a rule is interested in
	maxBinary int
	tooLarge  bool

	data   []byte // the value being walked
	cursor strictjson.Cursor
	out    []byte // what data[:kept] became; nil: nothing was changed yet
	kept   int
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// borrow returns a walker for the policy, without limits of size.
func borrow(p Policy) *walker {
	w := walkers.Get().(*walker)
	*w = walker{
		cleaner:   cleaner{unhides: p.HiddenText != Off, redacts: p.Secrets != Off, current: w.current, spare: w.spare},
		budget:    budget{room: unlimited},
		maxBinary: unlimited,
	}
	if w.unhides {
		w.watch |= escaped | beyond
	}
	if w.redacts {
		w.watch |= escaped | hinted
	}
	return w
}

func giveBack(w *walker) {
	w.data, w.cursor, w.out = nil, strictjson.Cursor{}, nil
	w.shrink()
	walkers.Put(w)
}

// object cleans o, which stands at that place.
func (w *walker) object(o mcp.Object, at place) mcp.Object {
	cleaned := o
	for name, value := range o.Members {
		to := at.member([]byte(name))
		if to == free || to == schema {
			w.name(name)
		}
		if fresh, changed := w.rewrite(value, to); changed {
			cleaned = cleaned.With(name, fresh)
		}
	}
	return cleaned
}

// name flags the name of a member when a rule fires in it.
func (w *walker) name(name string) {
	if w.inspect([]byte(name)) != 0 {
		w.flagText([]byte(name), &w.flaggedKey)
	}
}

// rewrite cleans raw, which stands at that place. The same bytes come back when no rule fires.
func (w *walker) rewrite(raw mcp.RawJSON, at place) (cleaned mcp.RawJSON, changed bool) {
	w.data, w.cursor, w.out, w.kept = raw, strictjson.CursorOf(raw), nil, 0
	w.value(at)
	if w.out == nil {
		return raw, false
	}
	return w.settle(append(w.out, w.data[w.kept:]...)), true
}

// replace puts text as a JSON string in the place of data[i:end].
func (w *walker) replace(i, end int, text []byte) {
	w.copyUntil(i)
	w.out = strictjson.AppendQuote(w.out, string(text))
	w.kept = end
}

// copyUntil copies data up to i to out.
func (w *walker) copyUntil(i int) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.data)+64)
	}
	w.out = append(w.out, w.data[w.kept:i]...)
}

// value cleans the value that is next, and passes it.
func (w *walker) value(at place) {
	switch c := w.cursor.Kind(); {
	case at == opaque || c != '"' && c != '{' && c != '[':
		w.cursor.Next()
	case c == '"' && at == binary:
		w.base64()
	case c == '"':
		w.text(at)
	case c == '[':
		w.array(at)
	case at == block || at == inner:
		w.block(at)
	default:
		w.members(at)
	}
}

// array cleans an array, whose elements stand where it stands.
func (w *walker) array(at place) {
	for w.cursor.Enter(); w.cursor.More(); {
		w.value(at)
	}
}

func (w *walker) members(at place) {
	for w.cursor.Enter(); w.cursor.More(); {
		i, end, s := w.scan()
		key := w.data[i:end]
		w.flag(key, s, &w.flaggedKey)
		w.value(at.member(word(key)))
	}
}

// scan passes the string that is next, which is data[i:end], and tells what is in it.
func (w *walker) scan() (i, end int, s sight) {
	i = w.cursor.At()
	end, s = scan(w.data, i)
	w.cursor.MoveTo(end)
	return i, end, s
}

// text cleans a string.
func (w *walker) text(at place) {
	i, end, s := w.scan()
	switch at {
	case fixed, schemas:
		w.flag(w.data[i:end], s, &w.flaggedKey)
	case address:
		w.address(w.data[i:end], s)
	case counted, block, inner:
		w.counted(i, end, s)
	default:
		if text, changed := w.clean(w.data[i:end], s); changed {
			w.replace(i, end, text)
		}
	}
}

// clean returns the text of a JSON string without what a rule fires on; changed is false, and the text not worth
// reading, when none does.
func (w *walker) clean(raw []byte, s sight) (text []byte, changed bool) {
	if s.marks&w.watch == 0 {
		return nil, false
	}
	return w.repair(w.decode(raw))
}

// flag counts raw when a rule fires in it.
func (w *walker) flag(raw []byte, s sight, count *int) {
	if s.marks&w.watch == 0 {
		return
	}
	w.flagText(w.decode(raw), count)
}

func (w *walker) flagText(text []byte, count *int) {
	before := w.counts
	_, fires := w.repair(text)
	w.counts = before
	if fires {
		*count++
	}
}

// base64 passes a string of Base64. What cannot be that is cleaned, so that no text passes as such.
func (w *walker) base64() {
	i := w.cursor.At()
	end := i + 2 + bytes.IndexByte(w.data[i+1:], '"')
	if visible(w.data[i+1 : end-1]) {
		w.cursor.MoveTo(end)
	} else {
		w.text(free)
	}
	if w.cursor.At()-i-2 > w.maxBinary {
		w.tooLarge = true
	}
}

// visible tells whether text holds only visible ASCII and no escape.
func visible(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c >= 0x7F || c == '\\' {
			return false
		}
	}
	return true
}
