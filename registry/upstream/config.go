package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Config of one upstream. Exactly one of Command and URL is set. It must not change after
// New.
type Config struct {
	Name   string // of the server, as the gateway's config has it
	Prefix string // put before the names of what the server offers

	Command string
	Args    []string
	// where the command runs, and a relative path in it starts; "": where the gateway
	// runs
	Dir string
	// added to PATH, HOME, LANG and TZ; nothing else of the gateway's environment is
	// passed
	Env map[string]string

	// Rights are which of the gateway's rights children have. Zero: all. Anything else
	// needs Keeper.
	Rights process.Rights

	// Keeper is how the command line of this executable begins, its name included, when
	// it is to call process.Keep. Then nothing that a child starts outlives the child or
	// the gateway. nil: what leaves the child's process group may do so.
	Keeper []string

	// StartTimeout is how long a child may take from its start until its era is known. A
	// program that is downloaded before it runs, as by npx, takes long the first time.
	// Zero: a minute.
	StartTimeout time.Duration

	// MaxChildren is how many children may run at once, the control connection's
	// included, which serves no calls unless Shared or OneUser says so. Zero: 8.
	MaxChildren int

	// an address, as whoever makes the Config has checked
	URL string
	// "sse": HTTP+SSE only; "http" or "streamable-http": Streamable HTTP only; "":
	// whatever is found
	Type    string
	Headers map[string]string // sent with every request; those of the protocol itself cannot be set
	Client  *http.Client      // from internal/dial; its Transport is used
	// what requests carry beside Headers, by who calls; none of its headers is in those.
	// nil: nothing
	Credential *credential.Source

	// Personal has the lists read for each user, with what their calls carry. The control
	// connection reads none then.
	Personal bool

	// Revision is the operator's word on the revision in which the server is spoken to. A
	// legacy revision is asked for in the handshake, and the server may answer with
	// another one of that era. The modern revision is required: nothing else will do. "":
	// the gateway finds out.
	Revision string

	// Shared is the operator's word that one session may serve everyone, so that tenants
	// and users are not kept apart.
	Shared bool

	// OneUser is the word of whoever runs the gateway that one user of one tenant makes
	// all calls. Then one child of a legacy server serves all clients and the lists, as
	// pool.go explains. It changes nothing over HTTP, nor for modern servers.
	OneUser bool

	// Grace is how long the lists keep what the server offered after it was lost, so that
	// clients do not see a restart as a change. Zero: not at all.
	Grace        time.Duration
	Timeout      time.Duration            // of one call; zero: 30 s
	ToolTimeouts map[string]time.Duration // by the server's own tool name, in place of Timeout
	// Idempotent are patterns (as for registry.MatchName) of the server's own names of
	// tools that the operator says do no harm when called twice. A call of such a tool is
	// made once more when the server was lost before it answered.
	Idempotent []string

	// Extensions are those that are carried between clients and the server. nil: those
	// that are known.
	Extensions *mcp.ExtensionTable

	// Released are digests of definitions that would be quarantined: with hidden text in
	// strings that are never edited, or of a server that is Pinned. The operator lets
	// these in nevertheless; see registry.Admit.
	Released []string
	// Pinned leaves out every tool and prompt whose definition is not in Released.
	Pinned bool

	Version string // of the gateway; servers are told it

	// Memory holds what the server sends, for the callers that it answers and for itself.
	// nil: nothing is counted.
	Memory *share.Budget
	// Turns is where large messages of the server wait to be read. nil: they are read at
	// once.
	Turns *fairqueue.Queue

	// Status is called whenever the upstream goes up or down or one of its lists changes;
	// this package logs none of that. nil: nobody is told.
	Status func(Status)
	// Count is called with what the server sent that had to be repaired or dropped, and
	// how often. It is called from any goroutine. nil: nothing is counted.
	Count func(kind Anomaly, n int)
	// Overheard is called when the server says beside a stream for such news, as in a
	// session of calls, that a list has changed: nobody but this process hears that. It
	// must not block. nil: nobody is told.
	Overheard func()
	// Panicked is called when a goroutine was saved from a panic. nil: nobody counts.
	Panicked func()
	Logger   *slog.Logger

	throttle *wire.Throttle // of all connections to the server; set by New
	target   *url.URL       // URL, in its parts; set by New
}

var errPanicked = errors.New("a fault of the gateway itself, which its log has")

// saved calls do. A panic in it is counted and logged, and becomes its error: so it costs
// what do is for, and not the process. Whatever reads what a server says runs in it,
// where it is not the goroutine of a call.
func (c *Config) saved(ctx context.Context, do func() error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			if c.Panicked != nil {
				c.Panicked()
			}
			c.Logger.ErrorContext(ctx, "panic", slog.Any("problem", problem),
				slog.String("stack", string(debug.Stack())))
			err = errPanicked
		}
	}()
	return do()
}

// Limits of handshakes.
const (
	handshakeLimit = 10 * time.Second // over HTTP, from the first byte until the era is known
	startLimit     = time.Minute      // for a child, from its start until the era is known
)

// openLimit returns how long one connection may take to open, its handshake included.
func (c *Config) openLimit() time.Duration {
	if c.URL != "" {
		return handshakeLimit
	}
	return cmp.Or(c.StartTimeout, startLimit)
}

// site returns where a server over HTTP is, for its transports. of is whose a session is,
// nil of what is for everyone or for the gateway itself, as the control connection is.
func (c *Config) site(of *auth.Owner) wire.Site {
	return wire.Site{
		Credential: c.credential(of),
		URL:        c.target, Client: c.Client.Transport, Headers: c.Headers, Version: c.Version,
		Throttle: c.throttle, Memory: c.memory(), Turns: c.Turns,
	}
}

// credential returns what the requests of a link carry: those of a call what its caller
// has, all others what the owner of the session has.
func (c *Config) credential(of *auth.Owner) wire.Credential {
	return func(ctx context.Context, p *auth.Principal) (*credential.Headers, error) {
		if p == nil && of != nil {
			return c.Credential.Cached(ctx, *of)
		}
		return c.Credential.For(ctx, p)
	}
}

// program returns what a child runs. said takes what the child writes to standard error.
func (c *Config) program(said *wire.LastLines) wire.Program {
	return wire.Program{
		Command: c.Command, Args: c.Args, Dir: c.Dir, Env: c.Env, Rights: c.Rights, Keeper: c.Keeper,
		Said: said, Logger: c.Logger, Throttle: c.throttle, Memory: c.memory(), Turns: c.Turns,
	}
}

// memory returns what holds what the server sends, for its transports.
func (c *Config) memory() wire.Memory {
	return wire.Memory{Budget: c.Memory, Server: share.Server(c.Name)}
}

// named returns the era of the revision that the operator named, and 0 when the operator
// named none.
func (c *Config) named() mcp.Era { return mcp.EraOf(c.Revision) }

// Anomaly is a kind of thing that no server should send, and of which Config.Count is
// told. Its text is a metric label.
type Anomaly = wire.Anomaly

// The anomalies.
const (
	Mended    = wire.Mended
	Garbage   = wire.Garbage
	Foreign   = wire.Foreign
	Oversized = wire.Oversized
	Paced     = wire.Paced
	Flooded   = wire.Flooded
)
