package sanitize

import (
	"fmt"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// HiddenError says that a string hides text and must not be edited, because programs
// compare it or it goes back to the server. Nothing can be done with a message that has
// one but leave it out.
type HiddenError struct {
	// Path is where the string stands in the message, as content[0].uri. Names of
	// members that the protocol does not have are a star there: a server chose them, so
	// they may be anything.
	Path string
	// Digest is that of a file that hides text, with which the operator can release it;
	// "": it is in none.
	Digest string
}

func (e *HiddenError) Error() string {
	text := "hidden text in " + e.Path
	if e.Digest != "" {
		text += fmt.Sprintf("; if it is meant, released: [%q] at the server lets it in", e.Digest)
	}
	return text
}

// nameOfMember is the place of a string that is the name of a member of the message
// itself.
const nameOfMember = "the name of a member"

// accuse notes that the string at path offends, which is a file if there is a digest. Of
// several the first by name is told, so that it is always the same one.
func (w *walker) accuse(path, digest string) {
	if w.offends == "" || path < w.offends {
		w.offends, w.advised = path, digest
	}
}

// refusal returns a *HiddenError when a string of the message hides text and must not be
// edited, nil otherwise.
func (w *walker) refusal() error {
	if w.offends == "" {
		return nil
	}
	return &HiddenError{w.offends, w.advised}
}

// shown returns the name of a member as it may be shown.
func shown(name string, known bool) string {
	if known {
		return name
	}
	return "*"
}

// where returns the place of the string that begins at index i of the value that was
// walked last. root is the name of the value as it may be shown, and at the place of the
// value. A second walk finds the string, so that a walk in which nothing offends need not
// keep track.
func (w *walker) where(root string, at position, i int) string {
	path := root
	for c := strictjson.CursorOf(w.data); ; {
		switch c.Kind() {
		case '[':
			path += "[" + strconv.Itoa(enterElement(&c, i)) + "]"
		case '{':
			if at == content || at == sampled {
				at = blockPosition(at, c)
			}
			if at == contents {
				at = contentsPosition(c, w.wholly)
			}
			name, isName := enterMember(&c, i)
			if isName {
				return nameOfMember + " of " + path
			}
			to, known := at.lookup(name)
			path += "." + shown(string(name), known)
			at = to
		default:
			return path
		}
	}
}

// enterElement moves the cursor before the element of the array that is next in which
// index i lies, and returns how many stand before it.
func enterElement(c *strictjson.Cursor, i int) (n int) {
	for c.Enter(); c.More(); n++ {
		element := *c
		if c.Next(); i < c.At() {
			*c = element
			break
		}
	}
	return n
}

// enterMember moves the cursor before the value of the object that is next in which index
// i lies, and returns the name of the value. When i lies in the name itself, isName is
// true.
func enterMember(c *strictjson.Cursor, i int) (name []byte, isName bool) {
	for c.Enter(); c.More(); {
		name = textOf(c.Next())
		if i < c.At() {
			return name, true
		}
		value := *c
		if c.Next(); i < c.At() {
			*c = value
			break
		}
	}
	return name, false
}
