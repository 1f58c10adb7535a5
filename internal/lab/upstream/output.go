package upstream

import (
	"net/http"
	"sync"
)

// output is the answer to one HTTP request: one message as plain JSON, or an event stream
// once there is more than that. It is safe for concurrent use, except by two that end it.
type output struct {
	w http.ResponseWriter

	mu     sync.Mutex // guards the fields below
	begun  bool       // the header was written
	stream bool       // it says that events come
	gone   bool       // nobody reads any more
}

// event sends a message on the stream, which begins now if it has not.
func (o *output) event(message []byte) {
	o.begin("text/event-stream")
	o.write(append(append([]byte("data: "), message...), "\n\n"...))
}

// comment keeps the stream open, and begins it.
func (o *output) comment() {
	o.begin("text/event-stream")
	o.write([]byte(": \n\n"))
}

// end sends the last message: on the stream, if there is one.
func (o *output) end(message []byte) {
	if o.begin("application/json") {
		o.event(message)
		return
	}
	o.write(message)
}

// begin writes the header of a good answer, once, and tells whether there is a stream.
func (o *output) begin(media string) (stream bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		o.begun, o.stream = true, media == "text/event-stream"
		o.w.Header().Set("Content-Type", media)
		o.w.WriteHeader(http.StatusOK)
	}
	return o.stream
}

// write writes and flushes, and tells whether anybody reads that.
func (o *output) write(text []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return false
	}
	if _, err := o.w.Write(text); err != nil { //nolint:gosec // G705: JSON for clients of ours
		o.gone = true
		return false
	}
	o.gone = http.NewResponseController(o.w).Flush() != nil
	return !o.gone
}

// close makes the output write nothing any more, since its handler returns.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = true
}
