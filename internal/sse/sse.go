// Package sse reads and writes event streams (text/event-stream) as the HTML standard
// defines them. The gateway does both: it reads the streams of servers and writes those
// of its clients. This package knows nothing of what the events carry, nor of HTTP: it
// takes a reader and appends to bytes. sse.go has the event and how it is written,
// read.go how a stream is read.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html
package sse

import (
	"strconv"
	"time"
)

// Event is one event of a stream. In the zero Event nothing is set; Append writes it as
// an empty line, which readers ignore.
type Event struct {
	Type string // the event field; "" means "message"
	ID   string // the id field, if HasID
	// there is an id field; an empty one differs from none, since it resets the client's
	// last event id
	HasID bool
	// Data is the text of the data fields, joined by LF if there are several. Nil means
	// that there is none, which differs from an empty one. The data of an event that was
	// read is valid until the next one is read, or for ever if it has more than
	// MaxRetained bytes.
	Data []byte
	// how long a client should wait before it reconnects, in whole milliseconds; zero:
	// not said
	Retry time.Duration

	// Lost is why there was no room for an event that was read, nil if there was. Then
	// Data has only the beginning and End the end of what was lost, some hundred bytes of
	// each, and either may begin or end within a field.
	Lost error
	End  []byte
}

// Append appends the event to dst. If Data has line breaks of its own, each of its lines
// becomes a data field, so that nothing in it can pass for another field or end the
// event; a reader gets each line break as LF, whichever it was. CR, LF and NUL in ID and
// Type are left out for the same reason.
func Append(dst []byte, e Event) []byte {
	if e.HasID {
		dst = appendField(dst, "id: ", e.ID)
	}
	if e.Type != "" {
		dst = appendField(dst, "event: ", e.Type)
	}
	if ms := e.Retry.Milliseconds(); ms > 0 {
		dst = append(strconv.AppendInt(append(dst, "retry: "...), ms, 10), '\n')
	}
	if e.Data != nil {
		dst = appendLines(dst, "data: ", e.Data)
	}
	return append(dst, '\n')
}

// AppendComment appends a comment, which readers ignore. It keeps a stream alive that has
// nothing to say: proxies close connections that are silent. No empty line ends it, since
// that is for events: the Java SDK stops reading a stream after some hundred empty lines
// that end none.
func AppendComment(dst []byte, text string) []byte { return appendLines(dst, ": ", []byte(text)) }

// appendField appends a field whose value must stand in one line.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	for i := range len(value) {
		if c := value[i]; c != '\n' && c != '\r' && c != 0 {
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// appendLines appends each line of text behind prefix, an empty last one included.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		end := lineEnd(text)
		if end < 0 {
			return append(append(append(dst, prefix...), text...), '\n')
		}
		dst = append(append(append(dst, prefix...), text[:end]...), '\n')
		if text[end] == '\r' && end+1 < len(text) && text[end+1] == '\n' {
			end++
		}
		text = text[end+1:]
	}
}
