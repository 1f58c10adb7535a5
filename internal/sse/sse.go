// Package sse reads and writes event streams as the HTML standard defines them. It knows nothing of what the events
// carry.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html
package sse

import (
	"strconv"
	"time"
)

// Event is one event. Data of several data lines is joined by line breaks.
type Event struct {
	Type  string // "" means message
	ID    string
	HasID bool          // the event carried an id field; only then Append writes one
	Data  []byte        // nil: no data field. Of a read event: valid until the next one is read
	Retry time.Duration // zero: not said; whole milliseconds
}

// Append appends the event to dst. Data that holds line breaks of its own is written as several data fields, so that
// nothing in it can pass for a field; a reader gets each of its line breaks as LF. CR, LF and NUL in ID and Type are
// left out.
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

// AppendComment appends a comment, which keeps a silent stream alive.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	for i := range len(value) {
		if c := value[i]; c != '\n' && c != '\r' && c != 0 {
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// appendLines appends each line of text behind prefix.
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
