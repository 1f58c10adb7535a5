package sanitize

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// refusedLink is the content block that takes the place of a resource link whose URI
// would run code when it is followed.
const (
	refusedText = "[a link with a dangerous scheme was left out by drawbridge]"
	refusedLink = `{"type":"text","text":"` + refusedText + `"}`
)

// block cleans the content block that is next. Its type decides at which places its
// members stand, so the type is looked up first: members come in any order.
func (w *walker) block(at position) {
	kind := blockPosition(at, w.cursor)
	if kind == linkBlock && dangerous(textOf(find(w.cursor, "uri"))) {
		w.refuseLink()
		return
	}
	w.members(kind)
}

// blockPosition returns the place of the content block that is next, which stands at
// content or sampled. c is a copy of the cursor.
func blockPosition(at position, c strictjson.Cursor) position {
	types := contentBlocks
	if at == sampled {
		types = sampledBlocks
	}
	// what is not in the table is at zero, which is the place of no block
	return cmp.Or(types[string(textOf(find(c, "type")))], strangeBlock)
}

// refuseLink puts refusedLink in the place of the content block that is next, and moves
// the cursor behind the block.
func (w *walker) refuseLink() {
	w.flaggedURI++
	w.copyUntil(w.cursor.At())
	w.cursor.Next()
	w.out, w.copied = append(w.out, refusedLink...), w.cursor.At()
}

// address counts a URI once when a rule fires in it or when following it would run code.
// The URI keeps its bytes.
func (w *walker) address(i, end int, s sight) {
	before := w.flaggedURI
	w.flag(i, end, s, &w.flaggedURI)
	if w.flaggedURI == before && dangerous(textOf(w.data[i:end])) {
		w.flaggedURI++
	}
}

// Dangerous tells whether a browser that follows uri would run code that uri itself
// contains.
func Dangerous(uri string) bool { return dangerous([]byte(uri)) }

// dangerous tells whether a browser that follows uri would run code that uri itself
// contains. Browsers skip control characters and spaces at the beginning, and tabs and
// line breaks anywhere. So does this function; otherwise "java\tscript:" would pass.
// https://url.spec.whatwg.org/#concept-basic-url-parser
func dangerous(uri []byte) bool {
	uri = bytes.TrimLeftFunc(uri, func(r rune) bool { return r <= ' ' || suspect(r) })
	if len(uri) == 0 || !strings.ContainsRune("jvdJVD", rune(uri[0])) {
		return false
	}
	head := make([]byte, 0, len("data:text/html"))
	for _, c := range uri {
		if len(head) == cap(head) {
			break
		}
		if c > ' ' && c < 0x7F {
			head = append(head, c)
		}
	}
	head = bytes.ToLower(head)
	return bytes.HasPrefix(head, []byte("javascript:")) || bytes.HasPrefix(head, []byte("vbscript:")) ||
		bytes.HasPrefix(head, []byte("data:text/html"))
}
