// Package server is the front door: routes, the stages that every request passes, what
// everybody may read, and the drain. It decides which era a message belongs to; the
// packages below turn what the client speaks into requests in the stateless form for the
// desk, and answers back. It knows nothing of rules or upstreams.
//
// To read it, begin at the top of this table. A file uses only what stands below it or on
// its line, and the Server, which stands in server:
//
//	routes, life and drain   server
//	what everybody may read  metadata
//	the stages               middleware; origin: which pages of a browser may call
//	one message              endpoint: which era it belongs to; reauthorize: who may go on, when rights have changed
//	what needs no token      card; signin: an authorization server at addresses of this one
//	the packages below       legacy, modern: an era each
//	                         directory: which sessions there are; sessions: the state of one; ticket: what its id says
//	                         eventlog: the events that a client has yet to get
//	                         forward: requests that another replica answers; primary: which replica leads a session
//	                         streams: connections that stay open; notices: what clients are told without asking
//	                         once: requests that come twice; lowering: what older revisions do not know
//	                         exchange: one request and its answer
package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/legacy"
	"github.com/drawbridge-mcp/drawbridge/server/modern"
	"github.com/drawbridge-mcp/drawbridge/server/once"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// Defaults of Config, on which the need for memory and for connections depends.
const (
	DefaultMaxBody     = 4 << 20 // bytes
	DefaultMaxRequests = 1024
	DefaultMaxStreams  = 20_000
)

// DefaultSessionIdle is the default of Config, on which it depends for how long replicas
// know who leads a session.
const DefaultSessionIdle = 30 * time.Minute

type (
	// Settings are the parts of the config that a reload may change.
	Settings = exchange.Settings
	// AuthorizationServer is an issuer at which clients can get a token.
	AuthorizationServer = exchange.AuthorizationServer
	// LineHandler is what the handler of a logger may be besides.
	LineHandler = exchange.LineHandler
)

// Config is what a Server needs. Every field is required unless its comment says
// otherwise.
type Config struct {
	Gateway *gateway.Gateway
	Verify  func(ctx context.Context, token string) (auth.Principal, error) // errors are *auth.Error
	// Recheck returns nil if the token of a principal that Verify returned would be
	// accepted now. It is called for everything that is open whenever Reauthorize asks
	// for it, and by streams each time they wake: it must be cheap.
	Recheck func(auth.Principal) error
	Seal    *seal.Ring // of session ids
	Log     eventlog.Log
	// Entries say which replica leads each legacy session of Streamable HTTP. They tell
	// that other replicas use the same Log and have the same keys in Seal, and are among
	// Others. A client may then send its requests, cancellations and answers to any
	// replica, which forwards them. The bounds on sessions count for each replica. nil:
	// there are no others.
	Entries primary.Store
	Others  replica.Others // the other replicas; nil: there are none
	Once    once.Store     // answers of calls with a key; nil: its own, in memory
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	Memory  *share.Budget    // of bytes, for what is held for clients; nil: its own, of share.DefaultMemory
	Turns   *fairqueue.Queue // at work that takes long; nil: its own
	Version string
	Card    Card // what it says of itself to everybody
	// SignIn gives clients tokens, at addresses of this server; nil: others do.
	SignIn SignIn
	// Extensions are those that are carried; nil: those that are known.
	Extensions *mcp.ExtensionTable

	// KeySet returns the keys by which servers check who calls, as a JWK Set; nil, also
	// from the function: nothing is signed for them.
	KeySet func() []byte

	// what a reload may change; called once a request, must be cheap
	Settings                   func() exchange.Settings
	LegacySSE                  bool          // serve 2024-11-05 on /sse and /messages
	SessionIdle, SessionMaxAge time.Duration // zero: DefaultSessionIdle, 24 h
	MaxBody                    int64         // bytes; zero: DefaultMaxBody
	MaxRequests                int           // requests in work at once; zero: DefaultMaxRequests
	// event streams at once, of which one tenant alone gets half; zero: DefaultMaxStreams
	MaxStreams int
}

// Server is the client-facing HTTP service. It is safe for concurrent use.
type Server struct {
	exchanges *exchange.Service // what answers requests

	config Config
	desk   exchange.Desk

	modern *modern.Endpoint
	legacy *legacy.Service

	forwarder       *forward.Forwarder
	ofReplicas      atomic.Int64 // requests in work that other replicas have forwarded
	replicasDrained atomic.Bool  // no request that another replica forwards is answered any more

	working atomic.Int64 // requests in work

	streams *streams.Set

	again chan struct{} // holds a value if what callers have open is to be judged again
}

// New returns a server.
func New(cfg Config) *Server { return newServer(cfg, cfg.Gateway) }

func newServer(cfg Config, d exchange.Desk) *Server {
	cfg.SessionIdle = cmp.Or(cfg.SessionIdle, DefaultSessionIdle)
	cfg.SessionMaxAge = cmp.Or(cfg.SessionMaxAge, 24*time.Hour)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, DefaultMaxRequests)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, DefaultMaxStreams)
	if cfg.Others == nil {
		cfg.Others = replica.NewAlone()
	}
	cfg.Memory = cmp.Or(cfg.Memory, share.New(share.DefaultMemory))
	if cfg.Once == nil {
		cfg.Once = once.NewMemory(cfg.Memory)
	}
	cfg.Turns = cmp.Or(cfg.Turns, fairqueue.New(0))
	in := exchange.New(exchange.Config{
		Desk: d, Metrics: cfg.Metrics, Logger: cfg.Logger, Memory: cfg.Memory, Turns: cfg.Turns,
		Settings: cfg.Settings, Recheck: cfg.Recheck, RouteOf: routeOf, Extensions: cfg.Extensions,
		MaxBody: cfg.MaxBody,
	})
	s := &Server{
		exchanges: in,
		streams:   streams.New(streams.Config{Exchanges: in, Turns: cfg.Turns, Most: int64(cfg.MaxStreams)}),
		config:    cfg,
		desk:      d,
		forwarder: forward.New(in, cfg.Others, int64(cfg.MaxRequests)),
		again:     make(chan struct{}, 1),
	}
	s.modern = modern.New(modern.Config{
		Exchanges: in, Streams: s.streams, Forwarder: s.forwarder, Once: cfg.Once, Memory: cfg.Memory,
		MaxRequests: cfg.MaxRequests, Name: cfg.Card.Name, Version: cfg.Version,
	})
	s.legacy = legacy.New(legacy.Config{
		Exchanges: in, Streams: s.streams, Forwarder: s.forwarder, Seal: cfg.Seal, Log: cfg.Log,
		Entries: cfg.Entries, Others: cfg.Others, Metrics: cfg.Metrics, Memory: cfg.Memory,
		SessionIdle: cfg.SessionIdle, SessionMaxAge: cfg.SessionMaxAge, Name: cfg.Card.Name,
		Version: cfg.Version,
	})
	cfg.Others.ServeClients(s.forwarded())
	return s
}

// Handler returns the handler of the client listener. It serves only the paths that are
// listed here and in router, exactly as they are.
func (s *Server) Handler() http.Handler {
	// Every request, to whatever path, is:
	every := chi.Chain(s.identified, s.exchanges.Logged, s.recovered, checked(s.sameOrigin, s.bounded))
	r := s.router(every)
	document := func(path string, write http.HandlerFunc) { // of which net/http sends no body for HEAD
		r.Get(path, write)
		r.Head(path, write)
	}
	document(exchange.MetadataPath, s.metadata)
	document(exchange.MetadataPath+exchange.EndpointPath, s.metadata)
	document(exchange.MetadataPath+exchange.TenantPath+"{tenant}"+exchange.EndpointPath, s.metadata)
	if s.config.Card.Name != "" {
		document(catalogPath, s.public)
		document(exchange.EndpointPath+cardSuffix, s.public)
		document(exchange.TenantPath+"{tenant}"+exchange.EndpointPath+cardSuffix, s.public)
	}
	if s.config.KeySet != nil {
		document(KeysPath, s.keySet)
	}
	if s.config.SignIn == nil {
		r.Post(exchange.RegisterPath, s.register)
	} else {
		for route, name := range signin.Routes() {
			r.HandleFunc(route, signingIn{s.config.SignIn}.answering(name))
		}
	}
	return r
}

// router returns a router that serves what only a caller may use, and whose requests all
// pass these stages before it looks for their routes.
func (s *Server) router(every chi.Middlewares) *shortcut {
	r := chi.NewRouter()
	r.Use(every...)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.notFound)
	// Every request to what only a caller may use is besides, once its route says which
	// tenant the path names:
	known := checked(s.authenticated, s.admitted)
	r.Group(func(r chi.Router) {
		r.Use(known)
		r.HandleFunc(exchange.EndpointPath, s.endpoint)
		r.HandleFunc(exchange.TenantPath+"{tenant}"+exchange.EndpointPath, s.endpoint)
		if s.config.LegacySSE {
			r.HandleFunc(exchange.SSEPath, s.legacy.OpenSSE)
			r.HandleFunc(exchange.MessagesPath, s.legacy.PostMessage)
		}
	})
	r.Group(func(r chi.Router) { // the endpoints at their addresses without discovery
		r.Use(checked(s.keysTaken, s.authenticated, s.admitted))
		r.HandleFunc(exchange.KeyPath+exchange.EndpointPath, s.endpoint)
		r.HandleFunc(exchange.TenantPath+"{tenant}"+exchange.KeyPath+exchange.EndpointPath, s.endpoint)
	})
	return &shortcut{r, every.Handler(known(http.HandlerFunc(s.endpoint)))}
}

// routeOf returns the pattern of the route that matched. The path itself is not used as a
// label, because clients choose it.
func routeOf(r *http.Request) string {
	route := chi.RouteContext(r.Context())
	if route == nil { // it came by the shortcut
		return exchange.EndpointPath
	}
	return cmp.Or(route.RoutePattern(), "none")
}

// shortcut is a router that leads messages to exchange.EndpointPath past itself. Nearly
// every request is one. It passes the same stages, and is spared the look-up and the copy
// of the request that the router makes.
type shortcut struct {
	chi.Router

	messages http.Handler
}

// ServeHTTP implements http.Handler. An escaped path is left to the router, which takes
// it as it is written.
func (s *shortcut) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == exchange.EndpointPath && r.URL.RawPath == "" {
		s.messages.ServeHTTP(w, r)
		return
	}
	s.Router.ServeHTTP(w, r)
}

// Run ends sessions that nobody has used for too long, keeps what other replicas must
// know of them, judges again what callers have open when Reauthorize asks for it, and
// records the sums of refused requests, until ctx ends. A panic in one of these holds up
// nothing else; what callers have open is then judged once more after a while.
func (s *Server) Run(ctx context.Context) error {
	sweep := time.NewTicker(max(s.config.SessionIdle/10, time.Second))
	defer sweep.Stop()
	window := time.NewTicker(exchange.SumWindow)
	defer window.Stop()
	defer s.exchanges.RecordSums(context.WithoutCancel(ctx))
	defer s.legacy.Begin(ctx)()
	judged := true
	for {
		select {
		case <-window.C:
			s.exchanges.RecordSums(ctx)
		case <-sweep.C:
			s.legacy.Sweep(ctx)
			if !judged {
				s.Reauthorize()
			}
		case <-s.again:
			judged = s.exchanges.Safely(ctx, func() { s.reauthorize(ctx) })
		case <-ctx.Done():
			return nil
		}
	}
}

// DrainClients makes every answer from now on the last one on its connection, and
// tells the client so with "Connection: close". It is the first step of a shutdown. To
// close idle connections instead would be wrong: a request that is on its way on one of
// them would be lost. https://www.rfc-editor.org/rfc/rfc9112#section-9.6
func (s *Server) DrainClients() {
	s.exchanges.DisableKeepAlives()
	s.config.Others.Drain()
}

// DrainReplicas has other replicas told from now on that what they forward is to be
// answered elsewhere, so that they take over the sessions that are led here. It is called
// when no client can reach this one any more, and Wait after it: what is forwarded until
// others know that this replica has ended would run while the parts that it needs stop.
func (s *Server) DrainReplicas() { s.replicasDrained.Store(true) }

// EndStreams ends every open event stream properly: not all in one moment, so that their
// clients do not come back in one moment either (see endsEach), and one that a call waits
// on with the answer to that call. A stream that is asked for later gets what there is
// for it and ends at once, so that its client goes on elsewhere; only a session over
// HTTP+SSE, which would end with it, is refused. It is the second step of a shutdown,
// after which nobody can connect any more.
func (s *Server) EndStreams() { s.streams.End() }

// CloseStreams returns when every event stream has ended whose connection an http.Server
// has given up to this server, and which the http.Server neither waits for nor closes.
// When ctx ends, it closes the connections of those that are left. It is called after
// EndStreams and when the http.Server takes no more requests. Streams whose turn has not
// come end now.
func (s *Server) CloseStreams(ctx context.Context) { s.streams.EndTaken(ctx) }

// waitStep is how often Wait looks whether anything is in work.
const waitStep = 10 * time.Millisecond

// Wait returns when nothing is in work any more: no request, also none whose body is
// still coming, no call that waits for its client to repeat it or that another replica
// has sent here, and no stream whose end has yet to come. Requests that come meanwhile
// are served. If ctx ends first, Wait cancels the requests that are left, which are
// answered that they may have taken effect, and returns how many these are; none is
// counted by two calls of Wait. From then on requests are refused, as they would have no
// time: a client that is told so knows that its call was not made, and makes it
// elsewhere. Whatever is in work until its end is waited for by the next Wait. For how
// many requests it waits, and for how long at most, is logged.
func (s *Server) Wait(ctx context.Context) int {
	if calls := s.exchanges.Jobs.Count(); calls > 0 && !s.exchanges.Jobs.Closed() {
		line := []slog.Attr{slog.Int("calls", calls)}
		if end, bounded := ctx.Deadline(); bounded {
			line = append(line, slog.Duration("at_most", time.Until(end).Round(time.Second)))
		}
		s.exchanges.Log.LogAttrs(ctx, slog.LevelInfo, "waiting for calls", line...)
	}
	for s.working.Load()+s.ofReplicas.Load() > 0 || s.exchanges.Jobs.Count() > 0 || s.desk.Ongoing() > 0 ||
		s.streams.IsEnding() {
		if !pace.Wait(ctx, waitStep) {
			return s.exchanges.Jobs.End()
		}
	}
	return 0
}
