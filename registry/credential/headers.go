package credential

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Headers are what requests carry. They are immutable, except that Refused tells their
// origin something. A nil Headers is nothing.
type Headers struct {
	names  []string // canonical
	values []string
	plain  int                                 // how many of them come first and are no secrets
	lines  []byte                              // the same as lines of a header
	traced bool                                // a Trace goes with it
	origin interface{ refused(*Headers) bool } // nil: another attempt would be the same
}

// newHeaders returns headers of which there is one.
func newHeaders(name, value string) *Headers {
	g := &Headers{}
	g.add(name, value)
	return g
}

// add adds a header, before anybody else sees the headers.
func (g *Headers) add(name, value string) {
	name = http.CanonicalHeaderKey(name)
	g.names, g.values = append(g.names, name), append(g.values, value)
	g.lines = appendLine(g.lines, name, value)
}

// Trace says for which request of a client a request to a server is made. It goes to
// servers that know callers. The zero Trace is that of a request that nobody made.
type Trace struct {
	// ID is the id of the request, as the records of the gateway have it. By it a
	// server's own log can be laid beside the audit of the gateway.
	ID string
	// Parent is the traceparent of the request, as it came. "": it had none.
	Parent string
}

// The headers that carry a Trace.
const (
	requestID   = "X-Request-Id"
	traceparent = "Traceparent"
)

// Add returns the headers with those of the headers, which win. header itself is not
// changed, and returned if there is nothing to add.
func (g *Headers) Add(header http.Header, t Trace) http.Header {
	if g == nil {
		return header
	}
	header = header.Clone()
	for i, name := range g.names {
		header[name] = []string{g.values[i]}
	}
	if g.traced && t.ID != "" {
		header[requestID] = []string{t.ID}
	}
	if g.traced && t.Parent != "" {
		header[traceparent] = []string{t.Parent}
	}
	return header
}

// Lines returns what appends the headers as lines of an HTTP/1.1 header, each with its
// end. It is nil if there are none.
func (g *Headers) Lines(t Trace) func(b []byte) []byte {
	if g == nil {
		return nil
	}
	return func(b []byte) []byte {
		b = append(b, g.lines...)
		if g.traced && t.ID != "" {
			b = appendLine(b, requestID, t.ID)
		}
		if g.traced && t.Parent != "" {
			b = appendLine(b, traceparent, t.Parent)
		}
		return b
	}
}

// appendLine appends a line of an HTTP/1.1 header, with its end.
func appendLine(lines []byte, name, value string) []byte {
	return append(append(append(append(lines, name...), ": "...), value...), "\r\n"...)
}

// Secrets returns the texts in the headers that no answer should repeat. Who calls is
// none: an answer may well say so.
func (g *Headers) Secrets() []string {
	if g == nil {
		return nil
	}
	out := slices.Clone(g.values[g.plain:])
	for _, value := range g.values[g.plain:] {
		if _, token, found := strings.Cut(value, " "); found {
			out = append(out, token)
		}
	}
	return out
}

// Refused is called when the server answered that the credential will not do (401). It
// tells whether it is worth asking for another and sending the request once more. A
// server that refuses everything is not believed each time: that would make work
// elsewhere for each of its answers.
func (g *Headers) Refused() (again bool) {
	return g != nil && g.origin != nil && g.origin.refused(g)
}

// refusedGap is the least time between two credentials of the same kind and caller that
// are made because the server refused the one before.
const refusedGap = 10 * time.Second

// Fault is a way in which there is no credential that the server takes. Its text is the
// reason in records and a label of metrics.
type Fault string

// The faults.
const (
	// FaultRefused: the server refused the credential.
	FaultRefused Fault = "credential_refused"
	// FaultClock: it was refused, and its clock or ours is wrong.
	FaultClock Fault = "credential_clock"
	// FaultMissing: a file with a secret or key cannot be used.
	FaultMissing Fault = "credential_missing"
	// FaultExchange: the endpoint that gives tokens refused.
	FaultExchange Fault = "tokens_refused"
	// FaultAway: the endpoint that gives tokens does not answer, or not as it should.
	FaultAway Fault = "tokens_away"
	// FaultSignIn: the person would have to sign in at the server.
	FaultSignIn Fault = "wants_sign_in"
)

// Made is what Config.Count counts where there is no fault.
const Made = "made"

// Error says that there is no credential, and so that nothing was sent. Its text is for
// the log alone, and holds no part of a token or secret.
type Error struct {
	Fault Fault
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Fault, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failed returns an error of a fault.
func failed(f Fault, format string, args ...any) *Error {
	return &Error{Fault: f, Err: fmt.Errorf(format, args...)}
}

// FaultOf returns the fault within an error, "" if there is none.
func FaultOf(err error) Fault {
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Fault
	}
	return ""
}

// maxSkew is how far two clocks may be apart before that is named as why a credential is
// refused.
const maxSkew = 30 * time.Second

// RefusedBy returns the error for a server, or an endpoint, that refused a credential
// with this status and header.
func RefusedBy(status int, header http.Header, now time.Time) *Error {
	if skew, known := skewOf(header, now); known && skew > maxSkew {
		return failed(FaultClock, "HTTP status %d; its clock and ours are %v apart", status,
			skew.Round(time.Second))
	}
	return failed(FaultRefused, "HTTP status %d: it does not take the credential of auth", status)
}

// skewOf returns how far the clock of whoever answered is from ours, and false if it does
// not say.
func skewOf(header http.Header, now time.Time) (time.Duration, bool) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return now.Sub(date).Abs(), true
}
