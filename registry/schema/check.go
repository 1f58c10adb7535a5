package schema

import (
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// CheckWithin returns nil when value is valid, else an error whose text says, for whoever
// made the value, what is wrong with it: place and rule, never a value, in at most 1 KiB.
// name is what the text calls the value as a whole. value must have passed
// strictjson.Check. A value that costs too much to check is refused as well. The check
// asks b for the means that it needs; nil: it has them.
func (s *Schema) CheckWithin(value mcp.RawJSON, name string, b Budget) error {
	if err := s.tooMuch(value, name, b); err != nil {
		return err
	}
	return s.verdict(value, name, b)
}

// CheckUnambiguousWithin is CheckWithin that also refuses an object with two names that a
// lenient parser may take for one, such as "id" and "ID", unless the schema declares
// both. Whoever reads the value after this gateway might otherwise see another member
// than the one that was checked.
func (s *Schema) CheckUnambiguousWithin(value mcp.RawJSON, name string, b Budget) error {
	if err := s.tooMuch(value, name, b); err != nil {
		return err
	}
	if err := s.ambiguous(value, name, b); err != nil {
		return err
	}
	return s.verdict(value, name, b)
}

// What takes how long in a check, about.
const (
	readTime = 3 * time.Nanosecond   // one byte, once
	stepTime = 20 * time.Nanosecond  // one step of a pattern
	workTime = 250 * time.Nanosecond // a unit of work of the library
)

// tooMuch refuses a value that would cost too much to check, before anything decodes it,
// and asks for the time of what the fast path does.
func (s *Schema) tooMuch(value mcp.RawJSON, name string, b Budget) error {
	steps, err := s.countSteps(value, name)
	if err != nil {
		return err
	}
	if len(value) > maxString {
		if _, longest, _ := size(value); longest > maxString {
			return errors.New(name + ": a string is longer than 1 MiB")
		}
	}
	reads := min(s.cost.passes*len(value), maxReads)
	return askTurn(b, time.Duration(reads)*readTime+time.Duration(steps)*stepTime)
}

// ambiguous refuses two names of one object that fold alike and are not both declared.
// Most values have no such names, which hasTwins finds out without decoding them.
func (s *Schema) ambiguous(value mcp.RawJSON, name string, b Budget) error {
	if !hasTwins(new(strictjson.CursorOf(value))) {
		return nil
	}
	// subschemas that are not enforced are in no other estimate, and to find them is a
	// search in those that were found
	unenforced := 0
	if s.gaps != nil {
		unenforced = len(s.nodes) * len(s.nodes) / 2048
	}
	if _, err := s.askWork(value, unenforced, name, b); err != nil {
		return err
	}
	at := s.root.reach(nil, (*edge).inPlace)
	path, first, second := undeclaredTwins(new(strictjson.CursorOf(value)), at, nil)
	if path == nil {
		return nil
	}
	e := &explainer{root: name}
	e.add(path[:len(path)-1], "must not have both %s and %s, whose names differ only in form", named(first),
		named(second))
	return errors.New(e.text())
}

// verdict accepts by the fast path what it can and gives the rest to the library, unless
// that would be too much work.
func (s *Schema) verdict(value mcp.RawJSON, name string, b Budget) error {
	if s.cost.passes*len(value) <= maxReads && s.root.accepts(new(strictjson.CursorOf(value))) {
		return nil
	}
	values, err := s.askWork(value, 0, name, b)
	if err != nil {
		return err
	}
	decoded, err := decodeWithin(b, value, s.cost.kept(values))
	if err != nil {
		return err
	}
	found, err := s.library.judge(decoded)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if found == nil {
		return nil
	}
	e := &explainer{root: name}
	e.fault(found, s.root, decoded, nil)
	return &MismatchError{e.text(), e.path}
}

// askWork refuses a value that would be too much work for the library, or for the search
// for names that are not declared, and asks for the time of that. more is what each value
// takes beside what the schema itself says. It returns how many values there are.
func (s *Schema) askWork(value mcp.RawJSON, more int, name string, b Budget) (values int, err error) {
	values, _, powers := size(value)
	work := s.cost.work(value, values, powers) + more*values
	if work > maxWork {
		return values, errors.New(name + ": too many values to check against this schema")
	}
	return values, askTurn(b, time.Duration(work)*workTime)
}

// MismatchError is the error of a value that does not have the form that its schema
// describes.
type MismatchError struct {
	text string
	// Path is the JSON Pointer of what is wrong first, with names of the schema and
	// numbers alone: where the value has a name of its own choice, the place is what
	// holds it. "" is the value as a whole.
	Path string
}

func (m *MismatchError) Error() string { return m.text }
