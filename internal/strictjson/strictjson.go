// Package strictjson answers: is this text one JSON value that every parser on the path reads the same way? It refuses
// what parsers disagree on (repeated names, broken UTF-8, lone surrogates, trailing data) and what costs too much
// (depth, number length, count of values), and takes a checked value apart without copying it. It knows nothing of
// JSON-RPC or MCP.
//
// It is the only door to github.com/go-json-experiment/json, whose API is still experimental.
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

// Bounds of a value, whoever sent it. The count of bytes is bounded by whoever reads them.
const (
	MaxDepth    = 64      // nested objects and arrays
	MaxValues   = 200_000 // values of any kind, names not counted
	MaxNumber   = 64      // bytes of one number
	MaxExponent = 400     // absolute value of a number's exponent

	maxPointer = 128 // bytes of a SyntaxError's pointer
)

// SyntaxError says what is wrong with a text and where. Its text holds a place and a reason, never the value found
// there, so it may be shown to whoever sent the text.
type SyntaxError struct {
	Offset  int64  // bytes before the fault
	Pointer string // RFC 6901, the innermost value reached, cut when it is long; "" is the root
	Reason  string
}

func (e *SyntaxError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
	}
	return fmt.Sprintf("%s at byte %d, in %q", e.Reason, e.Offset, e.Pointer)
}

// scanner is a decoder with the buffer it reads from, kept together for reuse. The decoder scans a bytes.Buffer in
// place; of any other reader it would make a copy and keep that.
type scanner struct {
	buffer  bytes.Buffer
	decoder jsontext.Decoder
}

func (s *scanner) reset(data []byte) {
	s.buffer = *bytes.NewBuffer(data)
	s.decoder.Reset(&s.buffer)
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Check returns nil when data is exactly one JSON value within the bounds of this package, else a *SyntaxError. All
// other functions that take data apart expect data that passed Check.
func Check(data []byte) error {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	defer s.reset(nil) // lets go of data
	s.reset(data)
	values := 0
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
			parent, n := s.decoder.StackIndex(s.decoder.StackDepth())
			isName = parent == '{' && n%2 == 1
		default: // has no bound of its own
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

func fault(d *jsontext.Decoder, reason string) error {
	return &SyntaxError{Offset: d.InputOffset(), Pointer: short(d.StackPointer()), Reason: reason}
}

// short returns the beginning of a pointer, whose names are as long as the sender likes.
func short(pointer jsontext.Pointer) string {
	if len(pointer) <= maxPointer {
		return string(pointer)
	}
	return strings.ToValidUTF8(string(pointer[:maxPointer]), "") + "…"
}

// describe turns the library's error into ours, without the characters it quotes.
func describe(d *jsontext.Decoder, err error) error {
	var syntactic *jsontext.SyntacticError
	reason := "not JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		reason = "the same name twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		reason = "unexpected end"
	case errors.As(err, &syntactic):
		return &SyntaxError{Offset: syntactic.ByteOffset, Pointer: short(syntactic.JSONPointer), Reason: reason}
	}
	return fault(d, reason)
}

// badNumber returns why a number is refused, "" when it is not.
func badNumber(literal string) string {
	if len(literal) > MaxNumber {
		return "a number of more than " + strconv.Itoa(MaxNumber) + " characters"
	}
	for i := range len(literal) {
		if literal[i] == 'e' || literal[i] == 'E' {
			exponent, err := strconv.Atoi(literal[i+1:])
			if err != nil || exponent > MaxExponent || exponent < -MaxExponent {
				return "an exponent beyond " + strconv.Itoa(MaxExponent)
			}
		}
	}
	return ""
}

// Unmarshal decodes data into v with the strictness of Check and with names matched exactly, case included. Members
// that v does not name are ignored.
func Unmarshal(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Marshal encodes v without whitespace and with the members of maps in order of name.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// Compact returns data without the whitespace between its tokens; strings and numbers keep their bytes. Data without
// any line break or space outside strings is returned as it is.
func Compact(data []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Compact(); err != nil {
		return nil, err
	}
	return value, nil
}
