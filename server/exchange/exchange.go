// Package exchange is one HTTP request of a client and its answer: it is read within
// bounds, refused or answered, logged and put on record. It knows what a request costs
// and how an error reads outside, and neither eras nor sessions nor which path leads
// where.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	a request's end         line: its line in the log, also for a stream that outlives it
//	a request's beginning   body: read and parsed            rights: what its caller may do by now, and its job
//	the exchange            exchange, service: what all have in common; log: records that name it; traceparent;
//	                        answer: from the desk; write: with JSON; refuse: with an error;
//	                        whereto: which issuers and scopes clients are told of;
//	                        unauthenticated: refusals of callers that nobody knows, summed up
//	what these consist of   arriving: a body; jobs; key: Idempotency-Key; summed: sums and delays; extensions;
//	                        desk: what the door uses of it
//	what all of them use    errors: what is told with which status; settings; text; guard: panics; requestid
package exchange

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Exchange is one HTTP request on its way through the door. Each stage adds what it found
// out; the endpoint, the log and the metrics read it. It is also the response writer, so
// that it knows what was answered. It belongs to the goroutine of the request. A call
// that outlives the request may read only the id and the caller.
type Exchange struct {
	http.ResponseWriter
	Control http.ResponseController
	service *Service
	Request *http.Request // as it came

	ID       string    // of this request, for records
	named    [1]string // the id, as the value of its header
	measured [1]string // the length of the answer, as the value of its header
	scope    scope     // the context of the request
	lasting  scope     // the context of what goes on when the client leaves
	Started  time.Time
	Settings Settings
	Remote   string
	// how often all had been judged when it came, before its token was checked
	judged    uint64
	Principal auth.Principal // set by authenticated
	Refused   *auth.Error    // why the token was refused; nil unless it was
	// the host or origin that was refused, with advice, for the log alone; nil: none was
	RefusedOrigin []slog.Attr
	lineForm      lineForm       // how the log tells of it
	Missed        string         // why the session was not found, for the log alone; "" unless it was not
	Caller        gateway.Caller // set by admitted
	Forwarded     bool           // another replica has sent it here, and has taken what every request costs
	From          string         // that replica
	LinkNote      string         // what that one says about the request; see link.Request
	Tenant        string         // that the path names, "" when it names none; set by authenticated
	Reservation   Reservation    // while it is in work
	arriving      arriving       // its body

	Era  mcp.Era    // set by the endpoint; zero while unknown
	Meta mcp.Object // of the message

	extensions mcp.RawJSON // that the client declares, as it sent them; nil: none

	Key     *Key // a call that is to run once; nil: any other message
	Method  string
	Tool    string // as the client spelt it
	Outcome string // one word for the log, or the code; see conclude
	Ended   string // how the desk has recorded the request; "": it has not
	Status  int    // as answered; zero: nothing yet
	// Queued is for how long the body waited to be parsed.
	Queued time.Duration
	// a flow has taken the connection over, and does at the end of its stream what is due
	// for the request
	Taken bool

	AcceptsJSON, AcceptsStream bool
	PrefersStream              bool // results come as event streams, so that each of a session can be resumed
}

// Of returns the exchange of a request, which is what answers it. Every handler behind
// identified is given it.
func Of(w http.ResponseWriter) *Exchange { return w.(*Exchange) }

// scope is a context that knows its exchange. It is part of the exchange, because a
// context made by net/http's WithContext costs a copy of the whole request.
type scope struct {
	context.Context //nolint:containedctx // the scope is the context

	exchange *Exchange
}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	if key == (exchangeKey{}) {
		return s.exchange
	}
	return s.Context.Value(key)
}

// Context returns the context of the request, which ends when the client leaves. The
// context of the http.Request does not know the exchange: records made with it would not
// say which request they are about.
func (x *Exchange) Context() context.Context { return &x.scope }

// Outliving returns a context that does not end. It is for calls that go on when the
// client leaves, and for records.
func (x *Exchange) Outliving() context.Context { return &x.lasting }

type exchangeKey struct{}

// FromContext returns the exchange that ctx belongs to, nil if it belongs to none.
func FromContext(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// WriteHeader implements http.ResponseWriter.
func (x *Exchange) WriteHeader(status int) {
	x.Status = cmp.Or(x.Status, status)
	// a sign-in is known to come too often when its header is written already
	crowded := strings.HasPrefix(x.Method, SignInMethods) && x.service.unauthenticated.full()
	if crowded || x.service.keepAliveOff.Load() {
		x.Header().Set("Connection", "close")
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *Exchange) Write(data []byte) (int, error) {
	if x.Status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(data)
}

// Unwrap lets an http.ResponseController reach the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// note keeps what the message says about itself, for the log and the endpoint.
func (x *Exchange) note(m *mcp.Message) {
	x.Meta = m.Meta
	x.Method = m.Method
	if m.Method == mcp.MethodToolsCall {
		x.Tool = m.Params.Text("name")
	}
}

// RequestIDHeader names the id of a request in its answer, whatever that is.
const RequestIDHeader = "X-Request-Id"

// Begin gives a request an id, which its answer and all its records carry, a place where
// later stages keep what they find out, and the time that its body may take. An id that
// the client sends is ignored: clients must not choose what stands in the records, and
// two requests must not share an id.
func (s *Service) Begin(w http.ResponseWriter, r *http.Request) *Exchange {
	x := &Exchange{
		ResponseWriter: w,
		Control:        *http.NewResponseController(w),
		service:        s,
		Request:        r,
		Started:        time.Now(),
		Settings:       s.config.Settings(),
		judged:         s.Reauthorized.Load(), // before the token is checked: see IsOutdated
		Outcome:        OutcomeOK,
	}
	x.scope, x.lasting = scope{r.Context(), x}, scope{context.Background(), x}
	if x.readOrigin(r); x.ID == "" {
		x.ID = s.IDs.Next()
	}
	x.named[0] = x.ID
	x.Header()[RequestIDHeader] = x.named[:]
	// Also of what is refused: net/http reads on in its body before it sends the answer.
	if r.ContentLength != 0 {
		_ = x.Control.SetReadDeadline(x.Started.Add(ReadTimeout)) // a recorder has no deadlines
	}
	return x
}

// readOrigin notes where a request comes from.
func (x *Exchange) readOrigin(r *http.Request) {
	o, ok := link.OriginOf(r.Context())
	if !ok {
		x.Remote = x.Settings.remoteOf(r)
		return
	}
	x.Forwarded, x.Remote, x.From, x.LinkNote = true, o.Remote, o.From, o.Note
	if o.ID != "" && len(o.ID) <= maxLogged && !slices.Contains([]byte(o.ID), ' ') {
		x.ID = o.ID
	}
}

// Conclude notes for the log how a request ended, unless the stream of its answer, which
// has ended, was refused or revoked.
func (x *Exchange) Conclude(outcome string) {
	if x.Outcome == OutcomeOK {
		x.Outcome = outcome
	}
}

// ConcludeError notes for the log that the answer ended with an error.
func (x *Exchange) ConcludeError(e *mcp.Error) { x.Conclude(outcomeFor(e)) }

// Reservation is what a request in work takes of what all requests share.
type Reservation struct {
	Slot  *atomic.Int64    // counts it among the requests in work; nil: nothing does
	given bool             // the slot was given back
	Body  share.Allocation // of the memory of its body
}

// Release gives back what the request holds; further calls do nothing. It also drops what
// the message said, so that an idle stream does not keep it in memory.
func (x *Exchange) Release() {
	x.Reservation.Release()
	x.Reservation, x.Meta = Reservation{}, mcp.Object{}
}

// ReleaseSlot gives back only the slot among the requests in work, when the request
// begins to wait for something slow. The memory of its body stays counted.
func (r *Reservation) ReleaseSlot() {
	if r.Slot != nil && !r.given {
		r.Slot.Add(-1)
		r.given = true
	}
}

// TakeSlot takes the slot again if it was given back, while others were asked.
func (r *Reservation) TakeSlot() {
	if r.given {
		r.Slot.Add(1)
		r.given = false
	}
}

// Release gives back all of it.
func (r *Reservation) Release() {
	r.ReleaseSlot()
	r.Body.Release()
}

// ReadAccept notes which forms of an answer the client accepts, and whether it names
// event streams before JSON. A client without an Accept header accepts any.
func (x *Exchange) ReadAccept(h http.Header) {
	values := h["Accept"]
	if len(values) == 0 || len(values) == 1 && values[0] == bothTypes { // nearly all clients send just this
		x.AcceptsJSON, x.AcceptsStream = true, true
		return
	}
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		x.acceptOne(one)
	}
}

func (x *Exchange) acceptOne(value string) {
	media, params, _ := strings.Cut(value, ";")
	for param := range strings.SplitSeq(params, ";") {
		quality, found := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(param, " ", "")), "q=")
		if found && strings.Trim(quality, "0.") == "" {
			return // q=0: anything but this
		}
	}
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "*/*":
		x.AcceptsJSON, x.AcceptsStream = true, true
	case jsonType, "application/*":
		x.AcceptsJSON = true
	case StreamType, "text/*":
		x.AcceptsStream, x.PrefersStream = true, !x.AcceptsJSON
	}
}

// Declares notes which extensions the client of a request declares, and returns those
// that are carried. declared is the member extensions of its capabilities, nil if there
// is none.
func (x *Exchange) Declares(ctx context.Context, declared mcp.RawJSON) mcp.Extensions {
	if declared == nil {
		return mcp.Extensions{}
	}
	x.extensions = declared
	carried, unknown := x.service.config.Extensions.OfClient(declared)
	for _, id := range unknown {
		if x.service.unknown.first(id) {
			x.service.Log.InfoContext(ctx, "clients declare an extension that is kept from servers",
				slog.String("extension", id), slog.String("cure", "extensions.pass lets it through"))
		}
	}
	return carried
}

// Outcomes of requests for the log, beside those of the desk.
const (
	OutcomeOK      = "ok"      // nothing else is to be said
	OutcomeRevoked = "revoked" // the caller is not accepted any more
	// another replica answers it, whose log has its line
	OutcomeForwarded = "forwarded"
)

// appendIdentity appends which request a line is about, as far as is known.
func (x *Exchange) appendIdentity(attrs []slog.Attr) []slog.Attr {
	attrs = append(attrs, slog.String("request_id", x.ID))
	if x.Caller.Tenant != nil {
		attrs = append(attrs, slog.String("tenant", x.Caller.Tenant.ID))
	}
	return attrs
}
