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

// MaxRetained is the size of the largest data of an event whose memory the reader uses
// again, in bytes.
const MaxRetained = 64 << 10

// shown is how much is shown of the beginning and of the end of what was lost, in bytes.
const shown = 256

const (
	firstBuffer    = 4 << 10     // bytes that a stream begins with; thousands may be open and silent
	retainedBuffer = MaxRetained // bytes of memory that a stream may keep after a long event
	emptyReads     = 100         // reads in a row that may bring neither bytes nor an error
)

// Read yields the events of r until r ends. If it ends with another error than io.EOF,
// that is yielded last. An event that is not complete by then is dropped. Lines end with
// LF, CR or CRLF, a BOM at the start is skipped, and comments and unknown fields are
// dropped.
//
// limit bounds memory, since the stream comes from anyone: a line may have at most limit
// bytes, and so may an event's id, type and data together. Beyond that the error is
// ErrTooLong and nothing more is read. Comments and unknown fields count only as lines,
// so a stream of nothing else is read for ever in constant memory.
//
// Read differs from the standard where MCP needs it. An event without data is yielded if
// it carries an id or a retry time, because 2025-11-25 opens streams with such events.
// Ids are those of each event and are not kept for later ones. Bytes that are not UTF-8
// are left as they are.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
func Read(r io.Reader, limit int) iter.Seq2[Event, error] {
	return ReadWithin(r, limit, func(int) error { return nil }, func(int) {})
}

// ReadWithin is Read for a stream whose memory is counted: before the reader takes more
// of it, it tells reserve how many bytes it holds then, and so it does after it has let
// go of some. If reserve returns an error, the event that is being read is lost: the rest
// of it is skipped, and it is yielded with that error in Lost. Smaller ones are never
// refused. It tells padding of each line how many bytes it has that are no data: all of a
// comment, and none of a line of data. There may be any number of lines without an event,
// and whoever bounds how fast a stream is read learns of them only so.
func ReadWithin(r io.Reader, limit int, reserve func(bytes int) error,
	padding func(bytes int),
) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := &scanner{
			source: r, limit: limit, reserve: reserve, padding: padding,
			buffer: buffers.Get().(*[firstBuffer]byte)[:0],
		}
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

// buffers keeps the first buffers of streams that have ended. Events are copied out of a
// buffer, so nothing that was yielded lies in one.
var buffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// scanner cuts a stream into lines and collects their fields into events. The buffer
// looks like this:
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

	padding func(bytes int)

	reserve func(bytes int) error
	lost    error // of reserve, for the event that is being read; nil: there is room
	cutOff  bool  // the beginning of the line that is being read was dropped
	head    []byte
	tail    []byte // with head, what is shown of an event that is lost
}

// release gives the first buffer back, unless a longer one has taken its place.
func (s *scanner) release() {
	if cap(s.buffer) == firstBuffer {
		buffers.Put((*[firstBuffer]byte)(s.buffer[:firstBuffer]))
	}
}

// event returns the next event that has data, an id or a retry time. Those that have
// nothing of that, such as comments between two empty lines, are skipped.
func (s *scanner) event() (Event, error) {
	var e Event
	s.data = s.data[:0]
	if cap(s.data) > retainedBuffer {
		s.data = nil
		_ = s.reserve(cap(s.buffer)) // less than before
	}
	hasData := false
	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			s.padding(0)
			switch {
			case s.lost != nil:
				return s.lostEvent(e), nil //nolint:nilerr // the event has the error
			case hasData:
				e.Data = s.data[:len(s.data)-1] // without the LF behind the last line
			}
			if hasData || e.HasID || e.Retry > 0 {
				return e, nil
			}
			e = Event{}
			continue
		}
		if s.field(&e, line) {
			hasData, line = true, nil
		}
		s.padding(len(line))
		if len(e.ID)+len(e.Type)+len(s.data) > s.limit+1 { // one for the LF after the last line of data
			return Event{}, ErrTooLong
		}
	}
}

// field takes in one line that is not empty, and tells whether it was a data field. As
// the standard asks, an id with NUL and a retry that is no number are ignored. A comment
// is a line whose name is empty.
func (s *scanner) field(e *Event, line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		s.take(value)
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

// take adds one line to the data of the event. A long one is not copied: the buffer that
// it lies in becomes the data.
func (s *scanner) take(value []byte) {
	need := len(s.data) + len(value) + 1
	switch {
	case s.lost != nil:
		s.tail = lastOf(s.tail, value)
		return
	case len(s.data) == 0 && len(value) > retainedBuffer:
		s.keepBuffer(value)
		return
	case need > cap(s.data):
		size := need
		if need > firstBuffer {
			size = max(need, cap(s.data)*3/2)
			if err := s.reserve(cap(s.buffer) + size); err != nil {
				s.lose(err, s.data)
				s.tail = lastOf(s.tail, value)
				return
			}
		}
		s.data = append(make([]byte, 0, size), s.data...)
	}
	s.data = append(append(s.data, value...), '\n')
}

// keepBuffer makes value, which is the end of the line that was just cut, the data of the
// event together with the buffer that it lies in. What follows in the buffer goes on in a
// new one.
func (s *scanner) keepBuffer(value []byte) {
	s.data = value[:len(value)+1]
	rest := s.buffer[s.start:]
	s.buffer = append(make([]byte, 0, max(firstBuffer, len(rest))), rest...)
	s.start, s.scanned = 0, 0
	s.data[len(value)] = '\n' // in the place of the line end
	if err := s.reserve(cap(s.buffer) + cap(s.data)); err != nil {
		s.lose(err, s.data)
	}
}

// lose gives up the event that is being read, of which that much has come.
func (s *scanner) lose(err error, came []byte) {
	s.lost, s.data = err, nil
	s.head, s.tail = bytes.Clone(came[:min(len(came), shown)]), lastOf(nil, came)
}

// lostEvent returns an event that was given up, and forgets it.
func (s *scanner) lostEvent(e Event) Event {
	e.Lost, e.Data, e.End = s.lost, bytes.TrimPrefix(bytes.TrimPrefix(s.head, []byte("data:")), []byte(" ")),
		s.tail
	s.lost, s.head, s.tail = nil, nil, nil
	return e
}

// dropLine forgets the line that is being read, as far as it has come.
func (s *scanner) dropLine() {
	line := s.buffer[s.start:]
	s.cutOff = s.cutOff || len(line) > 0
	s.tail = lastOf(s.tail, line)
	if s.buffer = s.buffer[:0]; cap(s.buffer) > retainedBuffer {
		s.buffer = make([]byte, 0, firstBuffer)
		_ = s.reserve(cap(s.buffer)) // less than before
	}
	s.start, s.scanned = 0, 0
}

// lastOf returns the last bytes of a and b together, in memory of their own.
func lastOf(a, b []byte) []byte {
	b = b[max(0, len(b)-shown):]
	a = a[max(0, len(a)+len(b)-shown):]
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

// line returns the next line without its end. It is valid until the next call. A CR ends
// a line at once, whether or not an LF follows: to wait for that could take until the
// next event.
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
		switch {
		case s.lost != nil:
			s.dropLine()
		case s.scanned-s.start > s.limit:
			return nil, ErrTooLong
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// cut returns the line that ends before the line end at index end of the buffer, and
// passes that line end.
func (s *scanner) cut(end int) ([]byte, error) {
	line := s.buffer[s.start:end]
	s.afterCR = s.buffer[end] == '\r'
	s.start, s.scanned = end+1, end+1
	if len(line) > s.limit { // a BOM counts, as it does while the line is not whole
		return nil, ErrTooLong
	}
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if s.cutOff {
		s.cutOff, s.tail = false, lastOf(s.tail, line)
		return []byte(":"), nil // it counts as a comment
	}
	return line, nil
}

// fill reads more bytes behind those in the buffer.
func (s *scanner) fill() error {
	s.makeSpace()
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

// makeSpace sees to it that there are free bytes at the end of the buffer. It does the
// first of these that applies: it replaces a large buffer of which everything was
// returned by a small one; it leaves the buffer alone if a line has begun and bytes are
// free behind it; it makes the buffer larger if that line fills over half of it; it moves
// the line to the front.
func (s *scanner) makeSpace() {
	rest := s.buffer[s.start:]
	switch {
	case len(rest) == 0 && cap(s.buffer) > retainedBuffer:
		s.buffer = make([]byte, 0, firstBuffer)
		_ = s.reserve(cap(s.buffer) + cap(s.data)) // less than before
	case len(rest) > 0 && len(s.buffer) < cap(s.buffer):
		return
	case len(rest) > cap(s.buffer)/2:
		size := 2 * cap(s.buffer)
		if size > retainedBuffer {
			size = cap(s.buffer) * 3 / 2
		}
		if err := s.reserve(size + cap(s.data)); err != nil {
			s.lose(err, rest)
			s.tail = nil
			s.dropLine()
			return
		}
		s.buffer = append(make([]byte, 0, size), rest...)
	default:
		s.buffer = append(s.buffer[:0], rest...)
	}
	s.scanned -= s.start
	s.start = 0
}

// lineEnd returns the index of the first CR or LF, -1 if there is none. It looks at a
// part after the other: if it looked for an LF in all of a text that has only CRs, each
// of its lines would cost as much as the rest of the text.
func lineEnd(text []byte) int {
	for at := 0; at < len(text); at += firstBuffer {
		part := text[at:min(at+firstBuffer, len(text))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf] // a CR behind it does not matter
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return -1
}
