// Package upstream is the back door: it keeps connections to other MCP servers, of either era and over stdio,
// Streamable HTTP or HTTP+SSE, and puts what they offer into the catalogue. A call in the middle of which its server asks
// something waits here for the answers. It carries results as raw JSON and does not know who may call what, nor how
// clients are served.
//
// Each server has one control connection, for its lists and for proofs of life. A modern server's serves all calls but
// those of older clients that can be asked, where the server has an older side too. These, and the calls of a legacy
// server, run on sessions beside it, in a pool that keeps callers apart, because a session may ask or tell its client
// something; Config.Shared gives that up. The pool lives and dies with the control connection. When that
// is lost, the server is taken as lost: all sessions are closed, calls on them end with an error that says that they may
// have taken effect, and the repeats of parked ones are refused. The price is that sessions which still answer are given
// up; the gain is that no call goes on at a server that nobody supervises.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Config of one upstream. Exactly one of Command and URL is set.
type Config struct {
	Name   string // of the server in the config
	Prefix string // before the exposed names of what it offers

	Command string
	Args    []string
	Dir     string            // where the command runs, and what a relative path in Command starts from; "": where the gateway runs
	Env     map[string]string // added to PATH, HOME, LANG and TZ; nothing else of the gateway's environment is passed

	// StartTimeout is how long a child may take from its start to a known era. A program that is fetched before it runs takes
	// long the first time. Zero: a minute.
	StartTimeout time.Duration

	MaxChildren int // children at once, with the one for lists, which serves no calls unless Shared; zero: 8

	URL     string
	Type    string            // "sse": HTTP+SSE only; "http" or "streamable-http": Streamable HTTP only; "": whatever is found
	Headers map[string]string // sent with every request; those of the protocol itself cannot be set
	Client  *http.Client      // from internal/dial; its Transport is used

	// Revision is the operator's word on what the server is spoken to in: of the legacy era one that is asked for, and the
	// server may answer with another of that era; the modern one, and nothing else will do. "": whatever is found.
	Revision string

	// Shared is the operator's word that one session may serve everyone: tenants and users are not kept apart.
	Shared bool

	// OneUser is the word of whoever runs the gateway that one user in one tenant is behind all calls: one child of a legacy
	// server serves all clients and the lists, as oneuser.go says. Over HTTP, and of modern servers, it changes nothing.
	OneUser bool

	// Grace is how long the lists keep what the server offered after it was lost, so that a restart is no change to those
	// who see them. Zero: not at all.
	Grace        time.Duration
	Timeout      time.Duration            // of one call; zero: 30 s
	ToolTimeouts map[string]time.Duration // by the upstream's own tool name
	// Idempotent are patterns, as of registry.MatchName, of the upstream's own tool names that the operator says do no harm when
	// called twice: such a call is made once more when the upstream was lost before it answered.
	Idempotent []string

	Version string // of the gateway, told to upstreams

	// Status is told whenever the upstream goes up or down or one of its lists changes, none of which is logged. May be nil.
	Status func(Status)
	// Count is told what was mended or dropped of what the upstream sent, and how often. May be nil; called from any
	// goroutine.
	Count  func(kind Anomaly, n int)
	Logger *slog.Logger
}

// wordsEvery is the least time between two lines in the log on children for calls that do not open.
const wordsEvery = time.Minute

// openLimit returns how long the handshake of one connection may take.
func (c *Config) openLimit() time.Duration {
	if c.URL != "" {
		return handshakeLimit
	}
	return cmp.Or(c.StartTimeout, startLimit)
}

// site says where a server over HTTP is.
func (c *Config) site() wire.Site {
	return wire.Site{URL: c.URL, Client: c.Client.Transport, Headers: c.Headers, Version: c.Version}
}

// program says what a child runs; said takes what it writes to standard error.
func (c *Config) program(said *wire.LastWords) wire.Program {
	return wire.Program{Command: c.Command, Args: c.Args, Dir: c.Dir, Env: c.Env, Said: said, Logger: c.Logger}
}

// named returns the era of the revision that the operator named, 0 when the server's is to be found out.
func (c *Config) named() mcp.Era { return mcp.EraOf(c.Revision) }

// Anomaly is a kind of thing that no server should send. Its text is a metric label.
type Anomaly = wire.Anomaly

// The anomalies.
const (
	Mended    = wire.Mended
	Garbage   = wire.Garbage
	Foreign   = wire.Foreign
	Oversized = wire.Oversized
	Flooded   = wire.Flooded
)

// CheckCommand tells why the program of a command that runs in dir, as Config.Dir, cannot be started: it is not in PATH,
// or not at its path.
func CheckCommand(command, dir string) error { return wire.CheckCommand(command, dir) }

// Status is how an upstream is.
type Status struct {
	Server   string
	Up       bool
	Tried    bool // at least one attempt has ended
	Revision string

	Tools, Prompts, Resources, Templates int // in the catalogue

	Refused  []registry.Refusal // definitions, and with reason "list" whole lists that could not be read
	Restarts int
	Problem  string    // why it is down, for operators; "" when up
	Said     []string  // the last lines that its child wrote to standard error, cleaned, in case these say why it is down
	Since    time.Time // when it went down, or was first tried; zero when up
	Advice   string    // what operators can mend although it is up; "": nothing
}

// Upstream is one supervised server.
type Upstream struct {
	cfg Config
	reg *registry.Registry

	control atomic.Pointer[control] // the present one; nil while there is none

	// said is what the child of the last control connection wrote to standard error; nil before the first connection.
	said atomic.Pointer[wire.LastWords]

	children atomic.Int64 // that have not ended

	watches watches
	strays  strays

	mu      sync.Mutex // guards the fields below
	status  Status
	wasUp   bool
	advised bool          // that is in the log
	kind    kind          // that was found last
	next    chan struct{} // closed when there is another connection
	worded  time.Time     // when the log was told last why a child for calls did not open
	since   time.Time     // when the server was lost last
	fading  *time.Timer   // takes its items out of the lists, unless it is back before; nil: they are out, or were never in
}

// New returns an upstream that puts what it offers into reg when run.
func New(cfg Config, reg *registry.Registry) *Upstream {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Count == nil {
		cfg.Count = func(Anomaly, int) {}
	}
	if cfg.Status == nil {
		cfg.Status = func(Status) {}
	}
	cfg.Logger = cfg.Logger.With("upstream", cfg.Name)
	return &Upstream{cfg: cfg, reg: reg, status: Status{Server: cfg.Name}, next: make(chan struct{})}
}

// Run connects, lists, follows changes and reconnects with backoff and jitter until ctx ends; then it ends the
// connection or child. Before, between connections and afterwards the server is lost for the catalogue; whoever gives up
// the server removes it there. Its error is always nil. It is called once.
func (u *Upstream) Run(ctx context.Context) error {
	u.lose()
	defer u.stopFading()
	defer u.watches.close()
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := u.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= stable {
			attempt = 0
		}
		u.down(err)
		if !pace.Wait(ctx, pace.Backoff(attempt)) {
			return nil
		}
	}
}

// Probe connects once, reads all lists into the catalogue and disconnects, for `validate -online`: what is in the
// catalogue then can be named, not used.
func (u *Upstream) Probe(ctx context.Context) (Status, error) {
	c, err := u.connect(ctx)
	if err != nil {
		return Status{Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.lastSaid()}, err
	}
	defer c.end(ctx, true)
	l := newLists(c)
	if err := u.read(ctx, l, everyTopic, func() {}); err != nil {
		return Status{Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.lastSaid()}, err
	}
	status := l.status(u.reg.Replace(u.source(l)))
	status.Server, status.Up, status.Tried = u.cfg.Name, true, true
	return status, nil
}

// lose tells the catalogue that the server is not there, and takes its items out of the lists when the grace is over.
// What was lost before stays lost since then.
func (u *Upstream) lose() {
	outage := u.reg.Lose(u.cfg.Name, u.cfg.Prefix)
	rest := u.cfg.Grace - time.Since(outage.Since)
	u.stopFading()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since = outage.Since
	if rest > 0 {
		// When the server is back just as the timer fires, the catalogue knows that this outage is over.
		u.fading = time.AfterFunc(rest, func() { u.reg.Unlist(u.cfg.Name, outage) })
		return
	}
	u.reg.Unlist(u.cfg.Name, outage)
}

func (u *Upstream) stopFading() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fading != nil {
		u.fading.Stop()
		u.fading = nil
	}
}

// up records what the upstream offers now.
func (u *Upstream) up(now Status) {
	u.mu.Lock()
	now.Server, now.Up, now.Tried, now.Restarts, now.Advice = u.cfg.Name, true, true, u.status.Restarts, u.status.Advice
	if !u.status.Up && u.wasUp {
		now.Restarts++
	}
	u.wasUp = true
	u.status = now
	u.mu.Unlock()
	u.cfg.Status(now)
}

// down records that the upstream is lost, and why. Its child has ended.
func (u *Upstream) down(err error) {
	said := u.lastSaid()
	u.mu.Lock()
	u.status = Status{
		Server: u.cfg.Name, Tried: true, Revision: u.status.Revision, Restarts: u.status.Restarts, Problem: problem(err),
		Said: said, Since: u.since,
	}
	status := u.status
	u.mu.Unlock()
	u.cfg.Status(status)
}

// lastSaid returns the last lines that the last child wrote to standard error, nil for a server that is no child.
func (u *Upstream) lastSaid() []string {
	if said := u.said.Load(); said != nil {
		return said.Shown()
	}
	return nil
}

// tellWords logs why a child that was to serve calls did not open, with what it wrote to standard error. Every call may start
// one, so that this is said once in wordsEvery.
func (u *Upstream) tellWords(ctx context.Context, c *connection, err error) {
	if err == nil || u.cfg.URL != "" || ctx.Err() != nil {
		return
	}
	u.mu.Lock()
	soon := time.Since(u.worded) < wordsEvery
	if !soon {
		u.worded = time.Now()
	}
	u.mu.Unlock()
	if !soon {
		u.cfg.Logger.WarnContext(ctx, "no child for calls", slog.String("problem", problem(err)),
			slog.String("stderr", strings.Join(c.said.Shown(), " | ")))
	}
}

// problem is what an operator reads: the error with its hidden cause, in a bounded length.
func problem(err error) string {
	text := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		text = cause.Error()
	}
	return text[:min(len(text), 300)]
}
