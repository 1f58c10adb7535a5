package sanitize

import (
	"bytes"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// walker goes through raw JSON without building a tree, and copies nothing until the
// first repair: most results are clean, and every result passes here. The JSON must be
// valid (mcp.RawJSON is), so it is walked without checks of its form.
//
//	data  . . . . . . . . | . . . . . | . . . . .
//	                      kept        the string being cleaned
//	out   what data[:kept] became
//
// A repair copies data from kept up to the repaired string, appends the new string, and
// sets kept behind the old one. A walker is for one goroutine.
type walker struct {
	cleaner
	budget

	watch     marks // a string is decoded and inspected only when scan saw one of these in it
	maxBinary int   // bytes of one Base64 member
	tooLarge  bool  // one was over maxBinary

	member string            // whose value is walked, of the message itself
	known  bool              // the protocol has a member of that name there
	at     position          // where its value stands
	data   []byte            // the value being walked
	cursor strictjson.Cursor // before the token of data that is next
	out    []byte            // nil: nothing was changed yet
	copied int

	released   []string // digests of files that pass although they would be refused
	wholly     bool     // contents of resources are files
	secretFile bool     // one holds a secret

	// strings that hide text and must not be edited: the first ones, limit at most
	concealed []Finding
	limit     int
	offences  int    // how many there are
	digest    string // of the file that is the last of concealed; "": it is none
}

// walkers keeps walkers with their buffers between uses.
var walkers = sync.Pool{New: func() any { return new(walker) }}

// borrow takes a walker from the pool and sets it up for the policy, without limits of
// size. giveBack must follow.
func borrow(p Policy) *walker {
	w := walkers.Get().(*walker)
	*w = walker{
		cleaner: cleaner{
			unhides: p.HiddenText != Off, redacts: p.Secrets != Off, current: w.current,
			spare: w.spare,
		},
		budget:    budget{remaining: unlimited},
		maxBinary: unlimited,
		limit:     1,
	}
	if w.unhides {
		w.watch |= escaped | beyond
	}
	if w.redacts {
		w.watch |= escaped | hinted
	}
	return w
}

// giveBack returns a walker to the pool. It keeps no reference to what was walked.
func giveBack(w *walker) {
	w.shrink()
	*w = walker{cleaner: cleaner{current: w.current, spare: w.spare}}
	walkers.Put(w)
}

// object cleans o, which stands at that place. Members that are not repaired keep their
// bytes.
func (w *walker) object(o mcp.Object, at position) mcp.Object {
	var few [8]mcp.Member // spares usual objects to grow
	members, changed := few[:0], false
	for name, value := range o.Members {
		to, known := at.lookup([]byte(name))
		w.member, w.known = name, known
		if !known {
			w.name(name)
		}
		fresh, differs := w.rewrite(value, to)
		members, changed = append(members, mcp.Member{Name: name, Value: fresh}), changed || differs
	}
	if !changed {
		return o
	}
	return mcp.NewObject(members...)
}

// name flags the name of a member of the message itself when a rule fires in it.
func (w *walker) name(name string) {
	if w.inspect([]byte(name)) != 0 && w.flagText([]byte(name), &w.flaggedKey) {
		w.offend(-1, []byte(name), "")
	}
}

// rewrite cleans raw, which stands at that place. The same bytes come back when no rule
// fires.
func (w *walker) rewrite(raw mcp.RawJSON, at position) (cleaned mcp.RawJSON, changed bool) {
	w.data, w.cursor, w.at, w.out, w.copied = raw, strictjson.CursorOf(raw), at, nil, 0
	w.value(at)
	if w.out == nil {
		return raw, false
	}
	return w.settle(append(w.out, w.data[w.copied:]...)), true
}

// replace puts text, as a JSON string, in the place of data[i:end].
func (w *walker) replace(i, end int, text []byte) {
	if w.out == nil {
		// a text that is cut may be most of what there is
		w.out = make([]byte, 0, len(w.data)-(end-i)+len(text)+64)
	}
	w.copyUntil(i)
	w.out = strictjson.AppendQuote(w.out, string(text))
	w.copied = end
}

// copyUntil appends data[kept:i] to out, unchanged. The caller sets kept afterwards.
func (w *walker) copyUntil(i int) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.data)+64)
	}
	w.out = append(w.out, w.data[w.copied:i]...)
}

// value cleans the value that is next and moves the cursor behind it.
func (w *walker) value(at position) {
	switch c := w.cursor.Kind(); {
	case at == sealed || c != '"' && c != '{' && c != '[':
		w.cursor.Next()
	case c == '"' && at == binary:
		w.base64()
	case c == '"' && at == blob:
		w.blob()
	case c == '"':
		w.text(at)
	case c == '[':
		w.array(at)
	case at == content || at == sampled:
		w.block(at)
	case at == contents:
		w.members(contentsPosition(w.cursor, w.wholly))
	default:
		w.members(at)
	}
}

// array cleans the array that is next. Its elements stand at the same place as the array.
func (w *walker) array(at position) {
	for w.cursor.Enter(); w.cursor.More(); {
		w.value(at)
	}
}

// members cleans the members of the object that is next. Their names are only flagged.
func (w *walker) members(at position) {
	for w.cursor.Enter(); w.cursor.More(); {
		i, end, s := w.scan()
		key := w.data[i:end]
		w.flag(i, end, s, &w.flaggedKey)
		w.value(at.member(textOf(key)))
	}
}

// scan moves the cursor behind the string that is next, which is data[i:end], and tells
// what it saw in it.
func (w *walker) scan() (i, end int, s sight) {
	i = w.cursor.At()
	end, s = scan(w.data, i)
	w.cursor.MoveTo(end)
	return i, end, s
}

// text cleans the string that is next, in the way of its place.
func (w *walker) text(at position) {
	i, end, s := w.scan()
	switch at.text() {
	case exact:
		w.flag(i, end, s, &w.flaggedKey)
	case address:
		w.address(i, end, s)
	case counted:
		w.counted(i, end, s)
	case whole:
		w.whole(i, end, s)
	case wholeView, wholeFile:
		w.encoded(i, end, at == wholeView)
	default:
		if s.marks&w.watch == 0 {
			return
		}
		if text, changed := w.repair(w.decode(w.data[i:end])); changed {
			w.replace(i, end, text)
		}
	}
}

// flag adds one to count when a rule fires in the JSON string data[i:end]. The string
// keeps its bytes. When it hides text, it is an offence.
func (w *walker) flag(i, end int, s sight, count *int) {
	if s.marks&w.watch != 0 && w.flagText(w.decode(w.data[i:end]), count) {
		w.offend(i, w.decode(w.data[i:end]), "")
	}
}

// flagText adds one to count when a rule fires in text, and tells whether text hides
// something. A trial repair finds that out; its own counts do not count, but a secret
// that it finds still sets foundSecret, so that Block refuses secrets in places that are
// not rewritten.
func (w *walker) flagText(text []byte, count *int) (hides bool) {
	before := w.counts
	_, fires := w.repair(text)
	hides = w.hidden+w.control+w.escape > before.hidden+before.control+before.escape
	w.counts = before
	if fires {
		*count++
	}
	return hides
}

// base64 moves the cursor behind the string of Base64 that is next. Whatever is not
// Base64 is cleaned like any text, so that a server cannot pass hidden text or a secret
// by calling it binary.
func (w *walker) base64() {
	i := w.cursor.At()
	end := i + 2 + bytes.IndexByte(w.data[i+1:], '"')
	if isBase64(w.data[i+1 : end-1]) {
		w.cursor.MoveTo(end)
	} else {
		w.text(free)
	}
	w.tooLarge = w.tooLarge || w.cursor.At()-i-2 > w.maxBinary
}

// minURLSafe is how many characters Base64 in the alphabet for URLs has at least: that
// alphabet also spells names and tokens, but hardly ever a longer text. Shorter Base64 in
// it is cleaned as a text, which changes one in a hundred thousand of that size. If the
// longest were cleaned, too, one in sixteen images of 8 MiB would have something that
// looks like a secret.
const minURLSafe = 1 << 10

// isBase64 tells whether text is Base64 with the alphabet and the padding of
// https://www.rfc-editor.org/rfc/rfc4648#section-4, which the protocol asks for, or a
// long one with the alphabet for URLs, which servers were seen to send.
func isBase64(text []byte) bool {
	alphabet := base64Digits
	switch size := len(text); {
	case size > minURLSafe && (bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0):
		alphabet = wordDash
	case size%4 != 0:
		return false
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("=")), []byte("="))
	return alphabet.span(text, len(text)) == len(text)
}
