package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// exchange is one HTTP request on its way through the door. Each stage adds what it found
// out; the endpoint, the log and the metrics read it. It is also the response writer, so
// that it knows what was answered. It belongs to the goroutine of the request. A call
// that outlives the request may read only the id and the caller.
type exchange struct {
	http.ResponseWriter
	control http.ResponseController
	service *service
	request *http.Request // as it came

	id       string    // of this request, for records
	named    [1]string // the id, as the value of its header
	measured [1]string // the length of the answer, as the value of its header
	scope    scope     // the context of the request
	lasting  scope     // the context of what goes on when the client leaves
	started  time.Time
	settings Settings
	remote   string
	// how often all had been judged when it came, before its token was checked
	judged    uint64
	principal auth.Principal // set by authenticated
	// that the principal stands for; for the desk alone, stands in no record. Set by
	// authenticated
	token   string
	refused *auth.Error // why the token was refused; nil unless it was
	// the host or origin that was refused, with advice, for the log alone; nil: none was
	refusedOrigin []slog.Attr
	lineForm      lineForm       // how the log tells of it
	missed        string         // why the session was not found, for the log alone; "" unless it was not
	caller        gateway.Caller // set by admitted
	forwarded     bool           // another replica has sent it here, and has taken what every request costs
	from          string         // that replica
	linkNote      string         // what that one says about the request; see link.Request
	tenant        string         // that the path names, "" when it names none; set by authenticated
	held          held           // while it is in work

	era  mcp.Era    // set by the endpoint; zero while unknown
	meta mcp.Object // of the message

	extensions mcp.RawJSON // that the client declares, as it sent them; nil: none

	keyed   *keyed // a call that is to run once; nil: any other message
	method  string
	tool    string // as the client spelt it
	outcome string // one word for the log, or the code; see conclude
	ended   string // how the desk has recorded the request; "": it has not
	status  int    // as answered; zero: nothing yet
	// a flow has taken the connection over, and does at the end of its stream what is due
	// for the request
	taken bool

	acceptsJSON, acceptsStream bool
	prefersStream              bool // results come as event streams, so that each of a session can be resumed
}

// of returns the exchange of a request, which is what answers it. Every handler behind
// identified is given it.
func of(w http.ResponseWriter) *exchange { return w.(*exchange) }

// scope is a context that knows its exchange. It is part of the exchange, because a
// context made by net/http's WithContext costs a copy of the whole request.
type scope struct {
	context.Context //nolint:containedctx // the scope is the context

	exchange *exchange
}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	if key == (exchangeKey{}) {
		return s.exchange
	}
	return s.Context.Value(key)
}

// context returns the context of the request, which ends when the client leaves. The
// context of the http.Request does not know the exchange: records made with it would not
// say which request they are about.
func (x *exchange) context() context.Context { return &x.scope }

// outliving returns a context that does not end. It is for calls that go on when the
// client leaves, and for records.
func (x *exchange) outliving() context.Context { return &x.lasting }

type exchangeKey struct{}

// exchangeIn returns the exchange that ctx belongs to, nil if it belongs to none.
func exchangeIn(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	if x.service.parting.Load() {
		x.Header().Set("Connection", "close")
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(data []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(data) //nolint:gosec // JSON or an event stream, never a page
}

// Unwrap lets an http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// note keeps what the message says about itself, for the log and the endpoint.
func (x *exchange) note(m *mcp.Message) {
	x.meta = m.Meta
	x.method = m.Method
	if m.Method == mcp.MethodToolsCall {
		x.tool = m.Params.Text("name")
	}
}

// requestIDHeader names the id of a request in its answer, whatever that is.
const requestIDHeader = "X-Request-Id"

// newExchange gives a request an id, which its answer and all its records carry, and a
// place where later stages keep what they find out. An id that the client sends is
// ignored: clients must not choose what stands in the records, and two requests must not
// share an id.
func (s *service) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{
		ResponseWriter: w,
		control:        *http.NewResponseController(w),
		service:        s,
		request:        r,
		id:             s.ids.next(),
		started:        time.Now(),
		settings:       s.config.Settings(),
		judged:         s.judged.Load(), // before the token is checked: see isOutdated
		outcome:        outcomeOK,
	}
	x.scope, x.lasting = scope{r.Context(), x}, scope{context.Background(), x}
	x.remote = x.settings.remoteOf(r)
	x.readOrigin(r)
	x.named[0] = x.id
	x.Header()[requestIDHeader] = x.named[:]
	return x
}

// cutShort ends the answer to the request with that id after a panic, in the goroutine of
// its handler: with an error, or with a broken connection if a part was sent already,
// because half an answer must not look like a whole one.
func (x *exchange) cutShort(id mcp.ID) {
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	x.refuse(id, errPanic)
}

// record puts a refusal of the door on record, even if the client has left meanwhile.
func (x *exchange) record(outcome, reason string) {
	line := audit.Record{
		Time: x.started, RequestID: x.id, TenantID: x.principal.TenantID,
		Issuer: x.principal.Issuer, Subject: x.principal.Subject, ClientID: x.principal.ClientID,
		Remote: x.remote, Method: x.method, Outcome: outcome, Reason: reason, Duration: time.Since(x.started),
	}
	if x.refused != nil {
		line.Issuer, line.Audience, line.Expected = x.refused.Issuer, x.refused.Audience, x.refused.Expected
	}
	x.service.desk.Refuse(x.outliving(), line)
}

// refuseAdmission answers a caller whom the desk does not let in, and puts that on record.
func (x *exchange) refuseAdmission(err error) {
	told := toldOf(err)
	status := statusOf(told.Code, 0)
	x.record(recordedAs(status), told.StableCode())
	x.answerError("", told, status)
}

// readOrigin notes where a request comes from if another replica has forwarded it.
func (x *exchange) readOrigin(r *http.Request) {
	o, ok := link.OriginOf(r.Context())
	if !ok {
		return
	}
	x.forwarded, x.remote, x.from, x.linkNote = true, o.Remote, o.From, o.Note
	if o.ID != "" && len(o.ID) <= maxLogged && !slices.Contains([]byte(o.ID), ' ') {
		x.id = o.ID
	}
}

// decode returns the message in a body. If it is malformed, decode refuses it and returns
// nil.
func (x *exchange) decode(raw mcp.RawJSON) *mcp.Message {
	m, err := mcp.DecodeRaw(raw)
	if err != nil {
		x.refuse(m.ID, badRequest(err))
		return nil
	}
	x.note(m)
	return m
}

// acknowledge answers the request of a message that needs no answer.
func (x *exchange) acknowledge(refused *refusal) {
	if refused != nil {
		x.refuse("", refused)
		return
	}
	x.writeStatus(http.StatusAccepted)
}

// conclude notes for the log how a request ended, unless the stream of its answer, which
// has ended, was refused or revoked.
func (x *exchange) conclude(outcome string) {
	if x.outcome == outcomeOK {
		x.outcome = outcome
	}
}
