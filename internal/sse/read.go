package sse

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"strconv"
	"sync"
	"time"
)

// ErrTooLong is the error for an event or line over the reader's limit.
var ErrTooLong = errors.New("event too long")

const (
	firstBuffer = 4 << 10  // bytes a silent stream holds
	keptBuffer  = 64 << 10 // bytes it may go on holding after a long event
	emptyReads  = 100      // reads in a row that may bring nothing
)

// Read yields the events of r until it ends, then the error unless that is io.EOF; an event that is not complete by
// then is dropped. Lines end with LF, CR or CRLF; a BOM at the start is skipped; comments and unknown fields are
// dropped one by one. A line may have at most limit bytes, and so may an event's id, type and data together; beyond
// that the error is ErrTooLong and nothing more is read.
//
// It differs from the standard where MCP needs it: an event without data is yielded when it carries an id or a
// retry time (2025-11-25 opens streams with such events), ids are told per event and not kept for later ones, and
// bytes that are no UTF-8 are left as they are.
func Read(r io.Reader, limit int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := &scanner{source: r, limit: limit, buffer: buffers.Get().(*[firstBuffer]byte)[:0]}
		defer s.release()
		for {
			event, err := s.event()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// buffers keeps first buffers. Nothing that is yielded lies in one.
var buffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// scanner cuts a stream into lines and collects their fields.
type scanner struct {
	source  io.Reader
	limit   int
	buffer  []byte // what was read and not yet returned as a line is buffer[start:]
	start   int
	scanned int  // buffer[start:scanned] holds no line end
	begun   bool // the first line was returned
	afterCR bool // an LF now belongs to the line before
	data    []byte
}

func (s *scanner) release() {
	if cap(s.buffer) == firstBuffer {
		buffers.Put((*[firstBuffer]byte)(s.buffer[:firstBuffer]))
	}
}

// event returns the next event that is worth telling.
func (s *scanner) event() (Event, error) {
	var e Event
	s.data = s.data[:0]
	if cap(s.data) > keptBuffer {
		s.data = nil
	}
	hasData := false
	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData {
				e.Data = s.data[:len(s.data)-1]
			}
			if hasData || e.HasID || e.Retry > 0 {
				return e, nil
			}
			e = Event{}
			continue
		}
		hasData = s.field(&e, line) || hasData
		if len(e.ID)+len(e.Type)+len(s.data) > s.limit+1 { // one for the LF after the last line of data
			return Event{}, ErrTooLong
		}
	}
}

// field takes in one line that is not empty and tells whether it was data.
func (s *scanner) field(e *Event, line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		s.data = append(append(s.data, value...), '\n')
		return true
	case "event":
		e.Type = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.ID, e.HasID = string(value), true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.Retry = time.Duration(ms) * time.Millisecond
		}
	}
	return false
}

// line returns the next line without its end. It is valid until the next call.
func (s *scanner) line() ([]byte, error) {
	for {
		if s.afterCR && s.start < len(s.buffer) {
			s.afterCR = false
			if s.buffer[s.start] == '\n' {
				s.start++
			}
			s.scanned = s.start
		}
		if i := lineEnd(s.buffer[s.scanned:]); i >= 0 {
			return s.cut(s.scanned + i)
		}
		s.scanned = len(s.buffer)
		if s.scanned-s.start > s.limit {
			return nil, ErrTooLong
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// cut returns the line that ends before the line end at index end.
func (s *scanner) cut(end int) ([]byte, error) {
	line := s.buffer[s.start:end]
	s.afterCR = s.buffer[end] == '\r'
	s.start, s.scanned = end+1, end+1
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) > s.limit {
		return nil, ErrTooLong
	}
	return line, nil
}

// fill reads more behind what is there.
func (s *scanner) fill() error {
	s.makeRoom()
	for range emptyReads {
		n, err := s.source.Read(s.buffer[len(s.buffer):cap(s.buffer)])
		if n > 0 {
			s.buffer = s.buffer[:len(s.buffer)+n]
			return nil // an error beside n comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes the buffer longer than what is in it.
func (s *scanner) makeRoom() {
	rest := s.buffer[s.start:]
	switch {
	case len(rest) == 0 && cap(s.buffer) > keptBuffer:
		s.buffer = make([]byte, 0, firstBuffer)
	case len(rest) > 0 && len(s.buffer) < cap(s.buffer):
		return
	case len(rest) > cap(s.buffer)/2:
		s.buffer = append(make([]byte, 0, 2*cap(s.buffer)), rest...)
	default:
		s.buffer = append(s.buffer[:0], rest...)
	}
	s.scanned -= s.start
	s.start = 0
}

// lineEnd returns the index of the first CR or LF, -1 when there is none.
func lineEnd(text []byte) int {
	lf := bytes.IndexByte(text, '\n')
	if lf >= 0 {
		text = text[:lf]
	}
	if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
