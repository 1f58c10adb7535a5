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

	data []byte // the value being walked
	out  []byte // what data[:kept] became; nil: nothing was changed yet
	kept int
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
	w.data, w.out = nil, nil
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
	w.data, w.out, w.kept = raw, nil, 0
	w.value(0, at)
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

// value cleans the value that begins at i and returns the index after it.
func (w *walker) value(i int, at place) int {
	switch c := w.data[i]; {
	case at == opaque || c != '"' && c != '{' && c != '[':
		return skip(w.data, i)
	case c == '"' && at == binary:
		return w.base64(i)
	case c == '"':
		return w.text(i, at)
	case c == '[':
		return w.array(i, at)
	case at == block || at == inner:
		return w.block(i, at)
	}
	return w.members(i, at)
}

// array cleans an array, whose elements stand where it stands.
func (w *walker) array(i int, at place) int {
	i = space(w.data, i+1)
	for w.data[i] != ']' {
		if i = space(w.data, w.value(i, at)); w.data[i] == ',' {
			i = space(w.data, i+1)
		}
	}
	return i + 1
}

func (w *walker) members(i int, at place) int {
	i = space(w.data, i+1)
	for w.data[i] != '}' {
		end, s := scan(w.data, i)
		key := w.data[i:end]
		w.flag(key, s, &w.flaggedKey)
		i = space(w.data, end)
		i = space(w.data, w.value(space(w.data, i+1), at.member(word(key))))
		if w.data[i] == ',' {
			i = space(w.data, i+1)
		}
	}
	return i + 1
}

// text cleans a string.
func (w *walker) text(i int, at place) int {
	end, s := scan(w.data, i)
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
	return end
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

// base64 steps over a string of Base64. What cannot be that is cleaned, so that no text passes as such.
func (w *walker) base64(i int) int {
	end := i + 2 + bytes.IndexByte(w.data[i+1:], '"')
	if !visible(w.data[i+1 : end-1]) {
		end = w.text(i, free)
	}
	if end-i-2 > w.maxBinary {
		w.tooLarge = true
	}
	return end
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
