package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// New returns a gateway without tenants. It refuses everybody until SetPolicy is called.
func New(cfg Config) *Gateway {
	cfg.PageSize = cmp.Or(cfg.PageSize, 1000)
	cfg.Allot = cmp.Or[allot.Slots](cfg.Allot, allot.Whole{})
	cfg.Others = cmp.Or[replica.Others](cfg.Others, replica.NewAlone())
	cfg.Memory = cmp.Or(cfg.Memory, share.New(share.DefaultMemory))
	cfg.Turns = cmp.Or(cfg.Turns, fairqueue.New(0))
	g := &Gateway{
		config:        cfg,
		methods:       methods(),
		inflight:      share.New(math.MaxInt64),
		streams:       share.New(math.MaxInt64),
		subscriptions: share.New(math.MaxInt64),
		bulkhead:      newBulkhead(cmp.Or(cfg.Slots, defaultSlots)),
		used:          newUsed(),
		rendered:      newRendered(cfg.Memory.Total()),
		ongoing:       ongoing{uses: make(map[*begun]struct{})},
		tasks: taskList{
			memory: cfg.Memory, byID: make(map[[sha256.Size]byte]map[string]*listedTask),
		},
		renewed:    make(chan struct{}, 1),
		serverInfo: ServerInfo(cfg.Name, cfg.Version),
		complete:   mcp.Member{Name: "resultType", Value: mcp.String("complete")},
	}
	if _, alone := cfg.Others.(*replica.Alone); !alone {
		g.self = cfg.Others.Self()
	}
	g.meta = mcp.NewObject(mcp.Member{Name: mcp.MetaServerInfo, Value: g.serverInfo}).JSON()
	g.ending = g.finish(hinted(mcp.Object{}))
	g.call = stack(g.stages(), invoke)
	g.tenants.Store(&directory{})
	return g
}

// Handle answers one request of a caller. The result has a resultType, unless it is that
// of a call InSession, and, where the protocol wants them, the hints of caching. Errors
// are *mcp.Error; CodeMethodNotFound stands for a method that is not served.
func (g *Gateway) Handle(ctx context.Context, c Caller, r *Request) (mcp.Object, error) {
	if of := mcp.MethodOf(r.Method).Extension; of != "" && of != mcp.ExtensionTasks &&
		!g.Extensions(c).Has(of) {
		return mcp.Object{}, errMethod
	}
	if m := g.methods[r.Method]; m != nil && r.mayUse(m.Tasks) {
		return g.call(ctx, g.newCall(c, r, m))
	}
	if mcp.MethodOf(r.Method).Lists {
		return g.list(c, r)
	}
	if r.Method == mcp.MethodTasksList && r.Tasks == mcp.TasksAsked {
		return g.listTasks(ctx, c, r)
	}
	if r.Method == mcp.MethodDiscover {
		return g.discover(c), nil
	}
	return mcp.Object{}, errMethod
}

var errMethod = mcp.Stable(mcp.CodeMethodNotFound, "DB-METHOD", "Method not found")

// Run tells whoever asked by OnChange when the catalogue or the tenants change, and
// reports to operators what they should know of it, until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	var collisions map[registry.Collision]bool
	var unmatched map[PatternPosition]bool
	// runs from the first change since names and patterns were last looked at; nil: none
	// came since
	var quiet <-chan time.Time
	for {
		changed := g.config.Registry.Changed()
		g.rendered.forget()
		g.callerViews.forget()
		g.announce()
		if quiet == nil {
			quiet = time.After(reportAfter)
		}
		for again := false; !again; {
			select {
			case <-changed:
				again = true
			case <-g.renewed:
				again = true
			case <-quiet:
				collisions, quiet = g.reportCollisions(ctx, collisions), nil
				unmatched = g.reportUnmatched(ctx, unmatched)
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// reportAfter is how long after a change the gateway looks which names are taken and
// which patterns match nothing: a reload changes tenants and servers one after the other,
// and servers come up one by one, so a look right away would report what is right soon,
// and make the views of all tenants for each of a hundred servers.
const reportAfter = time.Second
