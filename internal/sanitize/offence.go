package sanitize

import (
	"fmt"
	"strconv"
	"strings"

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

// offend notes that text hides something and must not be edited: the string that begins
// at data[i] or, if i is below zero, the name of the member whose value is walked. digest
// is that of the file, if it is one. In a definition what scripts and emoji need may stay
// there, as it may in results.
func (w *walker) offend(i int, text []byte, digest string) {
	found := Finding{}
	if w.strict {
		if found.Kind, found.First = conceals(string(text)); found.Kind == "" {
			return
		}
	}
	if w.offences++; w.offences <= w.limit {
		found.Path, w.digest = w.where(i), digest
		w.concealed = append(w.concealed, found)
	}
}

// refusal returns the *HiddenError of a message in which a string hides text and must not
// be edited, as offences tells. Of several it names the first.
func (w *walker) refusal() error {
	return &HiddenError{w.concealed[0].Path, w.digest}
}

// maxPath is about how long a path gets, in bytes.
const maxPath = 160

// where returns the place of a string, as offend has it. A second walk finds the string,
// so that a walk in which nothing offends need not keep track.
func (w *walker) where(i int) string {
	if i < 0 {
		return w.nameIn("", w.member)
	}
	path, at := w.shown(w.member, w.known), w.at
	for c := strictjson.CursorOf(w.data); len(path) <= maxPath; {
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
				return w.nameIn(path, string(name))
			}
			to, known := at.lookup(name)
			path, at = path+"."+w.shown(string(name), known), to
		default:
			return path
		}
	}
	return path + "…"
}

// shown returns the name of a member as it may be shown: that of a definition to its
// operator, that of a message to anybody.
func (w *walker) shown(name string, known bool) string {
	switch {
	case w.strict:
		return Spell(name)
	case known:
		return name
	}
	return "*"
}

// nameIn returns the place of the name of a member in the object at path, which is "" for
// the message itself.
func (w *walker) nameIn(path, name string) string {
	switch {
	case w.strict:
		return strings.TrimPrefix(path+"."+Spell(name), ".")
	case path == "":
		return nameOfMember
	}
	return nameOfMember + " of " + path
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
