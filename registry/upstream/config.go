package upstream

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
	// server serves all clients and the lists, as pool.go says. Over HTTP, and of modern servers, it changes nothing.
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

// Limits of handshakes.
const (
	handshakeLimit = 10 * time.Second // from the first byte to a known era, over HTTP
	startLimit     = time.Minute      // the same of a child, with its start
)

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
