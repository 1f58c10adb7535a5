// Package gateway is the desk: one request, one path. It knows tenants and the order of
// the checks, and nothing of transports, headers, sessions or connections; requests and
// results are in the stateless form of the protocol.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line, and the Gateway, which stands in gateway:
//
//	what operators ask       explanation: what would become of a request; access: who may use what
//	what the doors call      desk: New, Handle, Run; repeat, subscribe; taskfollow: tasks on a stream
//	the path of a call       stages: their order, and those in no other file
//	  one stage each         revocable, resumed; limited: bulkheaded, too; record: what audited writes
//	  what each method does  method: the table; find: which item is meant; sealed; clean: sanitized
//	                         task; tasknewer, taskolder: of the other era; tasklisted: lists of tasks
//	lists                    list: a page; introduction: what the gateway is
//	what operators are told  warning
//	who may see what         view: what a caller sees now; admission: whose tenant it is;
//	                         unmatched: what no rule names
//	a call and the desk      call: what the stages have found; gateway; turn; question; mention
//	  parts of a call        relay, callslot, bulkhead, ongoing, state
//	what is remembered       page, memo, used, tasklist
//	policy                   tenant, rule, profile, personal; callerview: what follows from rules;
//	                         apps: what of it hosts of apps see
//	what all of them use     request, waited, errors, uncredited, vocabulary, limit, cache
package gateway

import (
	"log/slog"
	"sync"
	"sync/atomic"

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

// Config is what a Gateway needs. Every field is required unless its comment says
// otherwise.
type Config struct {
	Registry *registry.Registry
	Limiter  ratelimit.Limiter
	Audit    *audit.Log  // nil: nothing is recorded
	Digests  *audit.Keys // of arguments, for records; nil: records have no digests
	Recorded []Recorded  // which arguments are on record, besides their digest; nil: none
	Metrics  *metrics.Metrics
	Seal     *seal.Ring     // of cursors, requestState and ids of tasks
	Others   replica.Others // the other replicas; nil: there are none
	Allot    allot.Slots    // how many of a tenant's slots there are here; nil: all
	Shared   *redis.Store   // what the replicas share; nil: nothing
	Logger   *slog.Logger
	Memory   *share.Budget    // of bytes, for what is held for callers; nil: its own, of share.DefaultMemory
	Turns    *fairqueue.Queue // at work that takes long; nil: its own
	PageSize int              // items in one answer of a list; zero: 1000
	// for calls at once of all tenants, of which one server holds only a part; zero: 1024
	Slots   int
	Name    string // told to clients; "": drawbridge
	Version string // told to clients
}

// Recorded are arguments that the operator wants on record.
type Recorded struct {
	Pattern string   // of tools, or with prompt: in front of prompts, as in rules
	Names   []string // of the arguments, at the top
}

// Gateway is the desk. It is safe for concurrent use.
type Gateway struct {
	config     Config
	serverInfo mcp.RawJSON
	complete   mcp.Member         // resultType of a result that says none
	meta       mcp.RawJSON        // _meta of a result that has none: serverInfo
	ending     mcp.Object         // what every page of a list has behind its items and its cursor
	methods    map[string]*method // of calls
	call       Handler
	// slots of calls; like the next two, bounded by the limits of each tenant alone
	inflight      *share.Budget
	streams       *share.Budget // slots of event streams
	subscriptions *share.Budget // slots of subscriptions to resources
	bulkhead      *bulkhead     // calls by server
	used          *used         // states that were used here
	self          replica.ID    // "" where there are no other replicas
	rendered      *rendered
	callerViews   cache[callerViewKey, *callerView] // of all tenants, by what they are made of
	ongoing       ongoing
	tasks         taskList

	tenants atomic.Pointer[directory]
	renewed chan struct{} // holds a value if tenants were replaced and Run has not looked at them yet

	mu       sync.Mutex // guards the field below
	onChange []func()
}

// finish adds what every result of this gateway has: a resultType, and the gateway's own
// serverInfo in the place of an upstream's.
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

// OnChange has do called after each change of the catalogue or the tenants, from any
// goroutine. It must not block. Whoever calls Lists after OnChange misses no change.
func (g *Gateway) OnChange(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onChange = append(g.onChange, do)
}

// announce tells of a change.
func (g *Gateway) announce() {
	g.mu.Lock()
	all := g.onChange
	g.mu.Unlock()
	for _, do := range all {
		do()
	}
}
