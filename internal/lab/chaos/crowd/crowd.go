// Package crowd is a crowd of MCP clients of all revisions that use a gateway as good
// clients do, and enter in a ledger what they ask and what they get. Most are written by
// hand, since what they must notice, such as an event that comes twice, a library would
// hide.
//
// crowd.go has the crowd and its kinds of clients, person.go what each client can do over
// HTTP, word.go what it reads there. modern.go, listen.go, session.go, legacy.go,
// follow.go and old.go have one kind of client each, or two. library.go, golang.go and
// npm.go have the clients of SDKs. tally.go counts what all of them did.
package crowd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/rpc"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
)

// The tenants that a crowd has unless its Config names others, and the servers that a
// gateway needs for it. Each tenant uses both, whose tools are exposed as modern__touch
// and legacy__touch: "modern" is /mcp of an upstream.Server, "legacy" is /legacy of one.
// Their timeout must be shorter than the crowd's patience.
const (
	TenantA = "red"
	TenantB = "blue"
	Modern  = "modern"
	Legacy  = "legacy"
)

// Config is what a crowd needs.
type Config struct {
	URL     string // of the gateway or of the load balancer, such as http://127.0.0.1:8080, without a path
	Token   func(tenant, user string) string
	Ledger  *ledger.Ledger
	Tally   *Tally   // that all its clients add to, which other crowds may share; nil: one of its own
	Tenants []string // nil: TenantA and TenantB
	Loads   []Load
	// how long a client waits for an answer before that counts as silence; zero: a minute
	Patience time.Duration

	// ChangePatience is how long a client waits to be told of a change. Where the replica
	// died that had its subscription, the one that has its stream makes another after up
	// to three heartbeats. Zero: two minutes.
	ChangePatience time.Duration

	// Forgetful tells that Redis may lose what it keeps. Then a client is told of changes
	// only while its stream is open: what it is owed when the stream ends is not asked
	// for on the one that resumes it.
	Forgetful bool
}

// Load is clients of some kinds, who do as much.
type Load struct {
	Kinds []string      // no other load of the crowd has one of these
	Size  int           // how many clients of each kind and tenant; zero: one
	Pause time.Duration // between two operations of one client, on average; zero: 20 ms
}

// Crowd is a crowd at work.
type Crowd struct {
	*Tally

	config Config
	http   *http.Client
	life   context.Context //nolint:containedctx // of all its clients, who live as long as the crowd
	end    context.CancelFunc
	asking context.Context //nolint:containedctx // it ends when nothing new is to be asked
	stop   context.CancelFunc
	work   sync.WaitGroup

	node func() *rpc.Client // the process that has the clients of npm, which the first call starts

	// of calls, and changes of resources that were told, by the kind of client and the
	// server; the map does not change
	answers map[string]*atomic.Int64
	at      map[string]*atomic.Int64 // clients at work, by kind; likewise
}

// kinds are the kinds of clients by their names.
var kinds = map[string]func(*person){
	"2026 calls": calling((*person).once, "stay", "big", "slow", "slow", "slow", "touch", "touch",
		"touch", "touch",
		"touch"),
	"2026 keyed":    calling((*person).keyed, "keyed"),
	"2026 progress": calling((*person).once, "progress"),
	"2026 parked":   calling((*person).parked, "ask"),
	"2026 listen":   (*person).listen,
	"2025 calls":    (*person).sessions,
	"2025 listen":   (*person).follow,
	"2024":          (*person).old,
	Plain:           calling((*person).once, "touch"),
	Brief:           (*person).briefSessions,
	"go-sdk":        func(p *person) { p.through(openGoSDK) },
	"mcp-go":        func(p *person) { p.through(openMCPGo) },
	"npm 1":         func(p *person) { p.through(openNPM) },
	"npm 2":         func(p *person) { p.through(openNPM) },
}

// calling makes calls of tools that are drawn, in the same way again and again.
func calling(call func(*person, context.Context, *deed), tools ...string) func(*person) {
	return func(p *person) {
		p.eachRound(func() {
			ctx, cancel := p.patient()
			defer cancel()
			call(p, ctx, p.draw(tools...))
		})
	}
}

// Kinds of clients for load, which are not among Kinds: one that does nothing but call
// the plain tool in 2026-07-28, and one that opens a session, makes a plain call in it
// and ends it with DELETE.
const (
	Plain = "2026 plain"
	Brief = "2025 brief"
)

// Kinds are those of clients that speak for themselves and do all that users of their
// revision do, in the order of the revisions.
var Kinds = []string{
	"2026 calls", "2026 keyed", "2026 progress", "2026 parked", "2026 listen", "2025 calls",
	"2025 listen", "2024",
}

// Start sets a crowd to work. It ends with Stop, or abruptly with ctx: then what is in
// flight stays open in the ledger.
func Start(ctx context.Context, c Config) *Crowd {
	c.Patience, c.ChangePatience = cmp.Or(c.Patience, time.Minute), cmp.Or(c.ChangePatience, 2*time.Minute)
	if c.Tenants == nil {
		c.Tenants = []string{TenantA, TenantB}
	}
	life, end := context.WithCancel(ctx)
	asking, stop := context.WithCancel(life)
	node := sync.OnceValue(func() *rpc.Client { return startNode(life, c.URL) })
	crowd := &Crowd{
		Tally: cmp.Or(c.Tally, &Tally{}), config: c, life: life, end: end, asking: asking, stop: stop, node: node,
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 1000, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true,
		}},
		answers: map[string]*atomic.Int64{}, at: map[string]*atomic.Int64{},
	}
	for _, load := range c.Loads {
		for _, kind := range load.Kinds {
			crowd.at[kind] = &atomic.Int64{}
			for _, server := range []string{Modern, Legacy} {
				crowd.answers[kind+", "+server] = &atomic.Int64{}
				if strings.HasSuffix(kind, "listen") {
					crowd.answers[kind+", changes of "+server] = &atomic.Int64{}
				}
			}
		}
	}
	for _, load := range c.Loads {
		crowd.set(load)
	}
	return crowd
}

// set sets the clients of a load to work.
func (c *Crowd) set(load Load) {
	for _, kind := range load.Kinds {
		for _, tenant := range c.config.Tenants {
			for i := range cmp.Or(load.Size, 1) {
				p := newPerson(c, load, kind, tenant, i)
				c.at[kind].Add(1)
				c.work.Go(func() { kinds[kind](p); c.at[kind].Add(-1) })
			}
		}
	}
}

// Stop asks nothing new, waits until all that was asked has its end, and ends streams and
// sessions. It returns an error if ctx ends before that; then the rest ends abruptly.
func (c *Crowd) Stop(ctx context.Context) error {
	c.stop()
	late := make(chan error, 1)
	inTime := context.AfterFunc(ctx, func() {
		late <- fmt.Errorf("clients of the crowd are still waiting, %v: %w", counted(c.at),
			context.Cause(ctx))
		c.end()
	})
	c.work.Wait()
	c.end()
	c.http.CloseIdleConnections()
	if !inTime() {
		return <-late
	}
	return nil
}

// Answers returns how many calls were answered with what a server did, by the kind of
// client and the server, and how many changes of a server's resources clients were told
// that listen. All kinds that the crowd has are there.
func (c *Crowd) Answers() map[string]int64 { return counted(c.answers) }

func counted(counters map[string]*atomic.Int64) map[string]int64 {
	now := make(map[string]int64, len(counters))
	for kind, n := range counters {
		now[kind] = n.Load()
	}
	return now
}

// stopping tells whether nothing new is to be asked.
func (c *Crowd) stopping() bool { return c.asking.Err() != nil }
