// Package strictjson answers: is this text one JSON value that every parser on the path
// reads the same way? It refuses what parsers disagree on (repeated names, broken UTF-8,
// lone surrogates, text after the value) and what costs too much (depth, length of
// numbers, count of values). The gateway checks a message and passes it on. If it read
// the message differently from the server behind it, a client could get one past every
// rule that the other then obeys. This package knows nothing of JSON-RPC or MCP.
//
// Check comes first, once, on every text from outside. All that takes a text apart
// expects that it has passed Check, and so need not decode, copy or doubt it:
//
//	Check                        says whether a text is fit
//	Mend                         replaces broken UTF-8 in what a server sent, for another Check (mend.go)
//	Members, Elements, Unquote   take a value apart, one level at a time (split.go)
//	Cursor, Tokens               go through a value from left to right (cursor.go, tokens.go)
//
// fold.go has the form in which names are compared that a lenient parser may confuse.
//
// It is the only package that imports github.com/go-json-experiment/json, whose API is
// still experimental.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a value, whoever sent it. Its length in bytes is not bounded here but where
// it is read.
const (
	MaxDepth    = 64      // nested objects and arrays
	MaxValues   = 200_000 // values of any kind, names not counted
	MaxMembers  = 20_000  // members of an object together with those, so far, of the objects around it
	MaxNumber   = 64      // bytes of one number
	MaxExponent = 400     // absolute value of a number's exponent

	maxPointer = 128 // bytes of a SyntaxError's pointer
)

// Pointer is a JSON pointer, which is checked, taken apart and extended by its methods.
// https://www.rfc-editor.org/rfc/rfc6901
type Pointer = jsontext.Pointer

// SyntaxError says what is wrong with a text, and where. It holds a place and a reason
// and never the value that stands there, so it may be shown to whoever sent the text.
type SyntaxError struct {
	Offset int64 // how many bytes stand before the fault
	// Pointer is a JSON pointer (RFC 6901) to the innermost value that was reached; "" is
	// the whole text. It consists of names that the sender chose. A long one is cut and
	// ends in "…".
	Pointer string
	Reason  string // a text of this package
}

func (e *SyntaxError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
	}
	return fmt.Sprintf("%s at byte %d, in %q", e.Reason, e.Offset, e.Pointer)
}

// scanner is a decoder together with the buffer that it reads from, for reuse. The buffer
// is a bytes.Buffer because the decoder scans that in place; from any other reader it
// would copy, and keep the copy.
type scanner struct {
	buffer  bytes.Buffer
	decoder jsontext.Decoder
}

// reset lets the scanner read data from its beginning.
func (s *scanner) reset(data []byte) {
	s.buffer = *bytes.NewBuffer(data)
	s.decoder.Reset(&s.buffer)
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Check returns nil if data is exactly one JSON value within the bounds of this package,
// otherwise a *SyntaxError. Space around the value is allowed. Check does not keep data.
func Check(data []byte) error {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	defer s.reset(nil) // or the pool would keep data alive
	s.reset(data)
	values := 0
	var open names
	for {
		kind := s.decoder.PeekKind()
		token, err := s.decoder.ReadToken()
		if err != nil {
			return describe(&s.decoder, err)
		}
		isName := false
		switch kind {
		case '{', '[':
			if s.decoder.StackDepth() > MaxDepth {
				return fault(&s.decoder, "more than "+strconv.Itoa(MaxDepth)+" levels deep")
			}
		case '0':
			if reason := badNumber(token.String()); reason != "" {
				return fault(&s.decoder, reason)
			}
		case '"':
			// A string is a name if it is in an object and, counted from 1, at an odd
			// place.
			parent, n := s.decoder.StackIndex(s.decoder.StackDepth())
			isName = parent == '{' && n%2 == 1
			if isName && open.add(s.decoder.StackDepth()) > MaxMembers {
				return fault(&s.decoder, "more than "+strconv.Itoa(MaxMembers)+" members")
			}
		case '}':
			open.leave(s.decoder.StackDepth() + 1)
		default: // literals and closing brackets have no bound of their own
		}
		if !isName && kind != '}' && kind != ']' {
			if values++; values > MaxValues {
				return fault(&s.decoder, "more than "+strconv.Itoa(MaxValues)+" values")
			}
		}
		if s.decoder.StackDepth() == 0 {
			break
		}
	}
	if _, err := s.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return fault(&s.decoder, "more text after the value")
	}
	return nil
}

// names counts the names that the decoder remembers to find those that stand twice: of
// all objects that are open. It remembers each in a map of the object, so one name costs
// far more memory than it is long.
type names struct {
	byDepth [MaxDepth + 1]int
	sum     int
}

// add counts a name of the object at that depth and returns how many names are
// remembered.
func (n *names) add(depth int) int {
	n.byDepth[depth]++
	n.sum++
	return n.sum
}

// leave forgets the names of the object that was at that depth.
func (n *names) leave(depth int) {
	n.sum -= n.byDepth[depth]
	n.byDepth[depth] = 0
}

// fault returns a SyntaxError at the place where the decoder is.
func fault(d *jsontext.Decoder, reason string) error {
	return &SyntaxError{Offset: d.InputOffset(), Pointer: short(d.StackPointer()), Reason: reason}
}

// short returns the beginning of a pointer, since the names in it are as long as the
// sender likes.
func short(pointer Pointer) string {
	if len(pointer) <= maxPointer {
		return string(pointer)
	}
	return strings.ToValidUTF8(string(pointer[:maxPointer]), "") + "…"
}

// describe turns an error of the library into a SyntaxError, without the characters of
// the text that the library quotes.
func describe(d *jsontext.Decoder, err error) error {
	var syntactic *jsontext.SyntacticError
	reason := "not JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		reason = "the same name twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		reason = "unexpected end"
	case errors.As(err, &syntactic):
		return &SyntaxError{
			Offset: syntactic.ByteOffset, Pointer: short(syntactic.JSONPointer),
			Reason: reason,
		}
	}
	return fault(d, reason)
}

// badNumber returns why a number is refused, "" if it is not. Long numbers and large
// exponents make some parsers slow and others fail or round.
func badNumber(literal string) string {
	if len(literal) > MaxNumber {
		return "a number of more than " + strconv.Itoa(MaxNumber) + " characters"
	}
	// there is one at most
	if i := max(strings.IndexByte(literal, 'e'), strings.IndexByte(literal, 'E')); i >= 0 {
		exponent, err := strconv.Atoi(literal[i+1:])
		if err != nil || exponent > MaxExponent || exponent < -MaxExponent {
			return "an exponent beyond " + strconv.Itoa(MaxExponent)
		}
	}
	return ""
}

// Unmarshal decodes data into v after Check. Names must match exactly, case included;
// members that v does not name are ignored. It is for values of known form; what must
// pass through unchanged is taken apart with Members.
func Unmarshal(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Marshal encodes v without whitespace. Members of maps come in order of their names, so
// equal values give equal texts.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// Compact returns a copy of data without the whitespace between its tokens. Strings and
// numbers keep their bytes. The error says that data is not JSON.
func Compact(data []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Compact(); err != nil {
		return nil, err
	}
	return value, nil
}

// Canonical returns the one spelling of data: without whitespace, with the members of
// objects in order of their names, and with strings escaped only where they must be, as
// RFC 8785 has it. Texts that differ in nothing else get the same bytes. Numbers keep
// their text, against the RFC: it would round them, and numbers that only some parsers
// tell apart would become one. The error says that data is not JSON.
// https://www.rfc-editor.org/rfc/rfc8785
func Canonical(data []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, err
	}
	return value, nil
}
