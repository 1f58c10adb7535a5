package exchange

import (
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// Config is what a service needs. Every field is required.
type Config struct {
	Desk    Desk
	Metrics *metrics.Metrics
	Logger  *slog.Logger
	Memory  *share.Budget    // of bytes, for what is held for clients
	Turns   *fairqueue.Queue // at work that takes long
	// Settings are what a reload may change; it is called once a request.
	Settings func() Settings
	// Recheck returns nil if the token of a principal that was accepted earlier would be
	// accepted now.
	Recheck func(auth.Principal) error
	// RouteOf returns the pattern of the route that a request matched.
	RouteOf    func(*http.Request) string
	Extensions *mcp.ExtensionTable // that are carried; nil: those that are known
	MaxBody    int64               // bytes
}

// Service is what the exchanges of a server have in common: what bounds them, where
// their lines, counts and records go, and what decides who may still come in. It is safe
// for concurrent use.
type Service struct {
	Guard

	config Config
	Desk   Desk
	lines  LineHandler // for the line of each request; nil: log writes it

	memoryForBody int64 // what one user can hold of a body if nobody holds anything, in bytes

	IDs     requestIDs
	Jobs    *jobs
	unknown unknownExtensions
	sums    *refusalSums

	overLimit       delayer // refused requests of tenants beyond their limits
	unauthenticated delayer // refused requests of unauthenticated callers

	Reauthorized atomic.Uint64 // how often whatever callers have open was judged again
	keepAliveOff atomic.Bool   // set by DisableKeepAlives
}

// New returns a service.
func New(cfg Config) *Service {
	handler := cfg.Logger.Handler()
	lines, _ := handler.(LineHandler)
	return &Service{
		Guard:         Guard{cfg.Metrics, slog.New(LogHandler(handler))},
		config:        cfg,
		Desk:          cfg.Desk,
		lines:         lines,
		memoryForBody: max(cfg.Memory.Most()/share.Step*share.Step, share.Covered),
		Jobs:          &jobs{running: make(map[*Job]struct{})},
		unknown:       unknownExtensions{logged: make(map[string]bool)},
		sums:          &refusalSums{seen: make(map[sumKey]*tally)},
	}
}

// DisableKeepAlives makes every answer from now on the last one on its connection, and
// tells the client so.
func (s *Service) DisableKeepAlives() { s.keepAliveOff.Store(true) }
