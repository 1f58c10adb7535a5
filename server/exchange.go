package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// exchange is one HTTP request on its way through the door. Each stage adds what it found
// out; the endpoint, the log and the metrics read it. It is also the response writer, so
// that it knows what was answered. It belongs to the goroutine of the request. A call
// that outlives the request may read only the id and the caller.
type exchange struct {
	http.ResponseWriter
	control http.ResponseController
	server  *Server
	request *http.Request // as it came

	id       string    // of this request, for records
	named    [1]string // the id, as the value of its header
	measured [1]string // the length of the answer, as the value of its header
	scope    scope     // the context of the request
	lasting  scope     // the context of what goes on when the client leaves
	started  time.Time
	settings Settings
	remote   string
	// how often all had been judged before its token was checked; set by authenticated
	judged    uint64
	principal auth.Principal // set by authenticated
	// that the principal stands for; for the desk alone, stands in no record. Set by
	// authenticated
	token   string
	refused *auth.Error // why the token was refused; nil unless it was
	// the host or origin that was refused, with advice, for the log alone; nil: none was
	foreign   []slog.Attr
	telling   telling        // how the log tells of it
	missed    string         // why the session was not found, for the log alone; "" unless it was not
	caller    gateway.Caller // set by admitted
	forwarded bool           // another replica has sent it here, and has taken what every request costs
	from      string         // that replica
	aside     string         // what that one says about the request; see link.Request
	tenant    string         // that the path names, "" when it names none; set by authenticated
	held      held           // while it is in work

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
	if x.server.parting.Load() {
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

// remoteOf returns the address of the client. X-Forwarded-For counts only as far as
// trusted proxies wrote it: reading from the end, the first address that is not a trusted
// proxy is the client's.
func (s *Settings) remoteOf(r *http.Request) string {
	peer := r.RemoteAddr
	if i := strings.LastIndexByte(peer, ':'); i >= 0 {
		peer = strings.Trim(peer[:i], "[]")
	}
	if len(s.TrustedProxies) == 0 || !s.trusts(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		address, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return peer
		}
		peer = address.String()
		if !s.trusts(peer) {
			return peer
		}
	}
	return peer
}

func (s *Settings) trusts(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && s.Trusts(parsed)
}

// Trusts tells whether the address is one of TrustedProxies.
func (s *Settings) Trusts(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
