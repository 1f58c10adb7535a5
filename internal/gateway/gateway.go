// Package gateway is the desk: one request, one path. It knows tenants and the order of the checks, and nothing of
// transports, headers, sessions or connections; requests and results are in the stateless form of the protocol.
package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Config is what a Gateway needs. Every field is required unless its comment says otherwise.
type Config struct {
	Registry *registry.Registry
	Limiter  ratelimit.Limiter
	Audit    *audit.Log // nil: nothing is recorded
	Metrics  *metrics.Metrics
	Seal     *seal.Ring     // of cursors, requestState and ids of tasks
	Others   replica.Others // the other replicas; nil: there are none
	Allot    allot.Places   // how many of a tenant's places there are here; nil: all
	Shared   *redis.Store   // what the replicas share; nil: nothing
	Logger   *slog.Logger
	Memory   *share.Budget    // of bytes, for what is held for callers; nil: its own, of share.DefaultMemory
	Turns    *fairqueue.Queue // at work that takes long; nil: its own
	PageSize int              // items in one answer of a list; zero: 1000
	Places   int              // for calls at once of all tenants, of which one server holds only a part; zero: 1024
	Version  string           // told to clients
}

// Caller is who sends a request, and the policy of the tenant that applies. Only Admit and Resolve make one. It is
// valid for one request; whatever lives longer, such as a stream, resolves the principal again each time. What it says
// belongs together: do not modify it.
type Caller struct {
	Principal auth.Principal
	Tenant    *Tenant

	rules   ruleSet // of the tenant, that match the principal
	userKey string  // see key; "": it was not made yet
}

// Request is one request in the stateless form of the protocol, whatever form the client used.
type Request struct {
	ID           string // of the HTTP request, for records
	Method       string
	Params       mcp.Object
	Capabilities mcp.Object // what this client can be asked now, in the canonical form of mcp.CapabilitiesOf
	// InSession says that the client has a session, and expects questions while its call is under way. Sessions know
	// neither resultType nor serverInfo, so that the desk does not add them to the results of calls.
	InSession bool
	Client    string    // as registry.Call.Client
	LogLevel  mcp.Level // of log messages that the client wants; zero: none
	Tasks     mcp.Tasks // the form that this client knows; zero: none
	Form      *Form     // of the items of lists that this client knows; nil: that of the catalogue
	// Refusals are the client's errors in answer to questions of the previous round, by the keys of the questions.
	Refusals map[string]*mcp.Error
	// Before is called when nothing is left to be checked, right before the item is used, in each round; an error, an
	// *mcp.Error, ends the call. nil: nothing is to be waited for.
	Before func(context.Context) error
	// Notify sends a notification to the client before the result. It is never nil, and is not called after Handle has
	// returned.
	Notify func(context.Context, mcp.Notification) error
	// Room holds the answer for as long as it is in memory. When Handle returns a large result, it holds that twice, so
	// that the caller can encode it, but for a list, whose items are shared; the caller releases it when the client has
	// the answer. nil: nothing is counted.
	Room *share.Claim
}

// Gateway is the desk. It is safe for concurrent use.
type Gateway struct {
	config        Config
	serverInfo    mcp.RawJSON
	complete      mcp.Member  // resultType of a result that says none
	meta          mcp.RawJSON // _meta of a result that has none: serverInfo
	discovered    mcp.Object
	ending        mcp.Object         // what every page of a list has behind its items and its cursor
	methods       map[string]*method // of calls
	call          Handler
	inflight      *share.Budget // places of calls; like the next two, bounded by the limits of each tenant alone
	streams       *share.Budget // places of event streams
	subscriptions *share.Budget // places of subscriptions to resources
	bulkhead      *bulkhead     // calls by server
	used          *used         // states of what waits here, which are used here alone
	firsts        firsts        // all other states
	self          replica.ID    // "" where there are no other replicas
	buckets       sync.Pool     // of *[4]ratelimit.Bucket, for charge: a limiter keeps none of what it is given
	rendered      *rendered
	grants        grants
	ongoing       ongoing

	tenants atomic.Pointer[directory]
	changed atomic.Pointer[chan struct{}]
	renewed chan struct{} // holds a value if tenants were replaced and Run has not looked at them yet
}

// New returns a gateway without tenants. It refuses everybody until SetTenants is called.
func New(cfg Config) *Gateway {
	if cfg.PageSize <= 0 {
		cfg.PageSize = 1000
	}
	if cfg.Allot == nil {
		cfg.Allot = allot.Whole{}
	}
	if cfg.Others == nil {
		cfg.Others = replica.NewAlone()
	}
	if cfg.Memory == nil {
		cfg.Memory = share.New(share.DefaultMemory)
	}
	if cfg.Turns == nil {
		cfg.Turns = fairqueue.New(0)
	}
	g := &Gateway{
		config:        cfg,
		methods:       methods(),
		inflight:      share.New(math.MaxInt64),
		streams:       share.New(math.MaxInt64),
		subscriptions: share.New(math.MaxInt64),
		bulkhead:      newBulkhead(cmp.Or(cfg.Places, defaultPlaces)),
		used:          newUsed(),
		rendered:      newRendered(cfg.Memory.Total()),
		renewed:       make(chan struct{}, 1),
		serverInfo:    ServerInfo(cfg.Version),
		complete:      mcp.Member{Name: "resultType", Value: mcp.String("complete")},
	}
	g.meetOthers()
	g.meta = mcp.NewObject(mcp.Member{Name: mcp.MetaServerInfo, Value: g.serverInfo}).JSON()
	g.discovered = g.discover()
	g.ending = g.finish(hinted(mcp.Object{}))
	g.call = stack(g.stages(), invoke)
	g.tenants.Store(&directory{})
	changed := make(chan struct{})
	g.changed.Store(&changed)
	return g
}

// meetOthers makes the gateway one of several replicas, if it is.
func (g *Gateway) meetOthers() {
	g.firsts = g.used
	if g.config.Shared != nil {
		g.firsts = &usedAnywhere{store: g.config.Shared, here: newUsed()}
	}
	if _, alone := g.config.Others.(*replica.Alone); alone {
		return
	}
	g.self = g.config.Others.Self()
	g.grants.compared = true
}

// Handle answers one request of a caller. The result has a resultType, unless it is that of a call InSession, and, where the protocol wants them, the hints of
// caching. Errors are *mcp.Error; CodeMethodNotFound stands for a method that is not served.
func (g *Gateway) Handle(ctx context.Context, c Caller, r *Request) (mcp.Object, error) {
	if m := g.methods[r.Method]; m != nil && r.mayUse(m.Tasks) {
		return g.call(ctx, newCall(c, r, m))
	}
	if mcp.MethodOf(r.Method).Lists {
		return g.list(c, r)
	}
	if r.Method == mcp.MethodDiscover {
		return g.discovered, nil
	}
	return mcp.Object{}, mcp.Stable(mcp.CodeMethodNotFound, "DB-METHOD", "Method not found")
}

// ended is finish for the result of a call. A session's has no place for what finish adds, and the door would take it
// away again.
func (g *Gateway) ended(c *call, result mcp.Object) mcp.Object {
	if c.request.InSession {
		return result
	}
	return g.finish(result)
}

// finish adds what every result of this gateway has: a resultType, and the gateway's own serverInfo in the place of an
// upstream's.
// https://modelcontextprotocol.io/specification/2026-07-28/basic
func (g *Gateway) finish(result mcp.Object) mcp.Object {
	meta := mcp.Member{Name: "_meta", Value: g.meta}
	if said, ok := mcp.ObjectOf(result.Value("_meta")); ok {
		meta.Value = said.With(mcp.MetaServerInfo, g.serverInfo).JSON()
	}
	if result.Has("resultType") {
		return result.WithAll(meta)
	}
	return result.WithAll(g.complete, meta)
}

// Run tells those who wait on Changed when the catalogue changes, and reports to operators what they should know of it,
// until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	var collisions map[registry.Collision]bool
	var unmatched map[PatternPlace]bool
	quiet := time.NewTimer(reportAfter) // runs from the first change since patterns were last looked at
	defer quiet.Stop()
	for running := true; ; {
		changed := g.config.Registry.Changed()
		g.rendered.forget()
		collisions = g.reportCollisions(ctx, collisions)
		g.announce()
		if !running {
			quiet.Reset(reportAfter)
			running = true
		}
		for same := true; same; {
			select {
			case <-changed:
				same = false
			case <-g.renewed:
				same = false
			case <-quiet.C:
				unmatched, running = g.reportUnmatched(ctx, unmatched), false
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// reportAfter is how long after a change the gateway looks which patterns match nothing: a reload changes tenants and
// servers one after the other, and servers come up one by one, so a look right away would report what is right soon.
const reportAfter = time.Second

// Changed returns a channel that is closed at the next change of the catalogue or the tenants. A caller that asks for
// the channel first and calls Lists afterwards misses no change.
func (g *Gateway) Changed() <-chan struct{} { return *g.changed.Load() }

// announce wakes everybody who waits on Changed.
func (g *Gateway) announce() {
	next := make(chan struct{})
	close(*g.changed.Swap(&next))
}
