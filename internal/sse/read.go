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

// ErrTooLong is the error for an event or a line that is longer than the reader's limit.
var ErrTooLong = errors.New("event too long")

const (
	firstBuffer = 4 << 10  // bytes of memory that a stream begins with; thousands may be open and silent
	keptBuffer  = 64 << 10 // bytes of memory that a stream may keep after a long event
	emptyReads  = 100      // reads in a row that may bring neither bytes nor an error
)

// Read yields the events of r until r ends. If it ends with another error than io.EOF, that is yielded last. An event
// that is not complete by then is dropped. Lines end with LF, CR or CRLF, a BOM at the start is skipped, and comments
// and unknown fields are dropped.
//
// limit bounds memory, since the stream comes from anyone: a line may have at most limit bytes, and so may an event's
// id, type and data together. Beyond that the error is ErrTooLong and nothing more is read. Comments and unknown fields
// count only as lines, so a stream of nothing else is read for ever in constant memory.
//
// Read differs from the standard where MCP needs it. An event without data is yielded if it carries an id or a retry
// time, because 2025-11-25 opens streams with such events. Ids are those of each event and are not kept for later ones.
// Bytes that are not UTF-8 are left as they are.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
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

// buffers keeps the first buffers of streams that have ended. Events are copied out of a buffer, so nothing that was
// yielded lies in one.
var buffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// scanner cuts a stream into lines and collects their fields into events. The buffer looks like this:
//
//	returned as lines │ no line end in here │ not looked at yet │ free
//	0                 start                 scanned             len(buffer)     cap(buffer)
type scanner struct {
	source  io.Reader
	limit   int
	buffer  []byte
	start   int    // index of the first byte that was not returned as part of a line
	scanned int    // index of the first byte that was not searched for a line end
	begun   bool   // the first line was returned, so a BOM is no longer skipped
	afterCR bool   // the line before ended with CR; if LF comes next, it belongs to that line end
	data    []byte // of the event that is being read, each line with an LF behind it; reused by the next one
}

// release gives the first buffer back, unless a longer one has taken its place.
func (s *scanner) release() {
	if cap(s.buffer) == firstBuffer {
		buffers.Put((*[firstBuffer]byte)(s.buffer[:firstBuffer]))
	}
}

// event returns the next event that has data, an id or a retry time. Those that have nothing of that, such as comments
// between two empty lines, are skipped.
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
				e.Data = s.data[:len(s.data)-1] // without the LF behind the last line
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

// field takes in one line that is not empty, and tells whether it was a data field. As the standard asks, an id with
// NUL and a retry that is no number are ignored. A comment is a line whose name is empty.
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

// line returns the next line without its end. It is valid until the next call. A CR ends a line at once, whether or not
// an LF follows: to wait for that could take until the next event.
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

// cut returns the line that ends before the line end at index end of the buffer, and passes that line end.
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

// fill reads more bytes behind those in the buffer.
func (s *scanner) fill() error {
	s.makeRoom()
	for range emptyReads {
		n, err := s.source.Read(s.buffer[len(s.buffer):cap(s.buffer)])
		if n > 0 {
			s.buffer = s.buffer[:len(s.buffer)+n]
			return nil // an error that came with the bytes comes again at the next read
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom sees to it that there are free bytes at the end of the buffer. It does the first of these that applies: it
// replaces a large buffer of which everything was returned by a small one; it leaves the buffer alone if a line has
// begun and bytes are free behind it; it doubles the buffer if that line fills over half of it; it moves the line to
// the front.
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

// lineEnd returns the index of the first CR or LF, -1 if there is none.
func lineEnd(text []byte) int {
	lf := bytes.IndexByte(text, '\n')
	if lf >= 0 {
		text = text[:lf] // a CR behind it does not matter
	}
	if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
