// Package crowd is a crowd of MCP clients of all revisions that use a gateway as good
// clients do, and enter in a ledger what they ask and what they get. Most are written by
// hand, since what they must notice, such as an event that comes twice, a library would
// hide.
//
// crowd.go has the crowd and its kinds of clients, person.go what each client can do over
// HTTP, word.go what it reads there. modern.go, listen.go, session.go, legacy.go,
// follow.go and old.go have one kind of client each, or two. library.go, golang.go and
// npm.go have the clients of SDKs. tally.go counts what is no call.
package crowd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/rpc"
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
	Size    int           // how many clients of each kind and tenant; zero: one
	Tenants []string      // nil: TenantA and TenantB
	Kinds   []string      // nil: all of Kinds
	Pause   time.Duration // between two operations of one client, on average; zero: 20 ms
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

// Crowd is a crowd at work.
type Crowd struct {
	config Config
	http   *http.Client
	life   context.Context //nolint:containedctx // of all its clients, who live as long as the crowd
	end    context.CancelFunc
	asking context.Context //nolint:containedctx // it ends when nothing new is to be asked
	stop   context.CancelFunc
	work   sync.WaitGroup
	tally  tally

	deeds struct {
		calls, resumed, questions, cancelled, repeated, changes, sessions, lives, listened, postponed,
		reconnects, doubled atomic.Int64
	}
	nodeOnce sync.Once
	node     *rpc.Client // has the clients of npm; nil: there are none
	nodeErr  error

	answers map[string]*atomic.Int64 // of calls, by the kind of client; the map does not change
	at      map[string]*atomic.Int64 // clients at work, by kind; likewise
}

// kinds are the kinds of clients by their names.
func kinds() map[string]func(*person) {
	return map[string]func(*person){
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

// Kinds returns the kinds of clients that a crowd has unless it is told others, in the
// order of the revisions.
func Kinds() []string {
	return []string{
		"2026 calls", "2026 keyed", "2026 progress", "2026 parked", "2026 listen", "2025 calls",
		"2025 listen", "2024",
	}
}

// Start sets a crowd to work. It ends with Stop, or abruptly with ctx: then what is in
// flight stays open in the ledger.
func Start(ctx context.Context, c Config) *Crowd {
	c.Size, c.Pause = cmp.Or(c.Size, 1), cmp.Or(c.Pause, 20*time.Millisecond)
	c.Patience, c.ChangePatience = cmp.Or(c.Patience, time.Minute), cmp.Or(c.ChangePatience, 2*time.Minute)
	if c.Tenants == nil {
		c.Tenants = []string{TenantA, TenantB}
	}
	if c.Kinds == nil {
		c.Kinds = Kinds()
	}
	life, end := context.WithCancel(ctx)
	asking, stop := context.WithCancel(life)
	crowd := &Crowd{config: c, life: life, end: end, asking: asking, stop: stop, http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1000, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true,
		},
	}}
	crowd.answers, crowd.at = map[string]*atomic.Int64{}, map[string]*atomic.Int64{}
	for _, kind := range c.Kinds {
		crowd.answers[kind], crowd.at[kind] = &atomic.Int64{}, &atomic.Int64{}
	}
	for _, kind := range c.Kinds {
		for _, tenant := range c.Tenants {
			for i := range c.Size {
				p := newPerson(crowd, kind, tenant, fmt.Sprintf("user-%d", i), i)
				crowd.at[kind].Add(1)
				crowd.work.Go(func() { kinds()[kind](p); crowd.at[kind].Add(-1) })
			}
		}
	}
	return crowd
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

// Deeds is what a crowd did, as a proof that it did something.
type Deeds struct {
	Calls      int64 // asked
	Resumed    int64 // streams that went on after they broke
	Questions  int64 // questions of tools that were answered, on a stream or by a repeat of the call
	Cancelled  int64 // calls that their client cancelled
	Repeated   int64 // requests with an Idempotency-Key that were sent again after a broken connection
	Changes    int64 // changes of lists and resources that were told
	Sessions   int64 // that were opened, over HTTP+SSE too
	Listened   int64 // subscriptions/listen that were acknowledged
	Postponed  int64 // requests that were told to come again later
	Reconnects int64 // sessions that were opened because the last one was gone
	Doubled    int64 // events that came again on a stream that was resumed after them

	Requests int64 // that were sent over HTTP, of all kinds
	Lives    int64 // sessions that were opened, used and ended with DELETE
	Goodbyes int64 // streams that the gateway ended in good order, though there was more to come
	// messages over HTTP+SSE that were refused since their session had just ended, and
	// were sent again in another
	Crossed int64
	// answers, streams among them, whose connection broke without the client's doing
	Aborted     int64
	LongestCall time.Duration // from a plain call of 2026-07-28 to its answer
	LongestGap  time.Duration // from the end of a stream of a session until the client had it again
}

// Add adds what another crowd did.
func (d *Deeds) Add(other Deeds) {
	for _, n := range []struct {
		to   *int64
		more int64
	}{
		{&d.Calls, other.Calls},
		{&d.Resumed, other.Resumed},
		{&d.Questions, other.Questions},
		{&d.Cancelled, other.Cancelled},
		{&d.Repeated, other.Repeated},
		{&d.Changes, other.Changes},
		{&d.Sessions, other.Sessions},
		{&d.Listened, other.Listened},
		{&d.Postponed, other.Postponed},
		{&d.Reconnects, other.Reconnects},
		{&d.Doubled, other.Doubled},
		{&d.Requests, other.Requests},
		{&d.Lives, other.Lives},
		{&d.Goodbyes, other.Goodbyes},
		{&d.Crossed, other.Crossed},
		{&d.Aborted, other.Aborted},
	} {
		*n.to += n.more
	}
	d.LongestCall, d.LongestGap = max(d.LongestCall, other.LongestCall), max(d.LongestGap, other.LongestGap)
}

// Deeds returns what the crowd has done so far.
func (c *Crowd) Deeds() Deeds {
	d, t := &c.deeds, &c.tally
	return Deeds{
		Calls: d.calls.Load(), Resumed: d.resumed.Load(), Questions: d.questions.Load(),
		Cancelled: d.cancelled.Load(),
		Repeated:  d.repeated.Load(), Changes: d.changes.Load(), Sessions: d.sessions.Load(),
		Listened:  d.listened.Load(),
		Postponed: d.postponed.Load(), Reconnects: d.reconnects.Load(), Lives: d.lives.Load(),
		Doubled:  d.doubled.Load(),
		Requests: t.requests.Load(), Goodbyes: t.goodbyes.Load(), Aborted: t.aborted.Load(),
		Crossed:     t.crossed.Load(),
		LongestCall: time.Duration(t.longestCall.Load()), LongestGap: time.Duration(t.longestGap.Load()),
	}
}

// Answers returns how many calls were answered with what a server did, by the kind of
// client. Each kind that the crowd has is there.
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
