package credential

import (
	"context"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// checkEvery is how often a file in use is read again.
const checkEvery = time.Second

// fixed is a header whose value is in a file, the same for all callers. The operator, or
// the platform, replaces the file while the gateway runs: what could be read last goes on
// while it cannot be.
type fixed struct {
	impersonal

	life   *life
	name   string
	prefix string // before the content
	path   string

	mu    sync.Mutex // guards the fields below; held while the file is read
	ready *Headers   // nil: there are none
	err   error      // why there are none
	read  time.Time  // when the file was read last
}

var _ kind = (*fixed)(nil)

// headers returns what the file has. If it changed less than checkEvery ago, that may not
// be seen yet.
func (f *fixed) headers(context.Context, *auth.Principal) (*Headers, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.life.cfg.Now(); f.read.IsZero() || now.Sub(f.read) >= checkEvery || now.Before(f.read) {
		f.readLocked(now)
	}
	return f.ready, f.err
}

func (f *fixed) readLocked(now time.Time) {
	f.read = now
	content, err := readSecret(f.path)
	if err != nil && f.ready != nil {
		return // it is being replaced
	}
	if err == nil {
		err = CheckValue(content)
	}
	if err == nil && f.prefix != "" && !isToken(string(content)) {
		err = errNoToken
	}
	if err != nil {
		missing := failed(FaultMissing, "file of the credential: %w", err)
		f.life.tell(missing)
		f.ready, f.err = nil, missing
		return
	}
	value := f.prefix + string(content)
	if f.ready == nil || f.ready.values[0] != value {
		f.ready, f.err = newHeaders(f.name, value), nil
		f.ready.origin = f
		f.life.cfg.Count(Made)
	}
}

func (f *fixed) cached(ctx context.Context, _ auth.Owner) (*Headers, error) {
	return f.headers(ctx, nil)
}

// refused reads the file again, and tells whether there is another content by now.
func (f *fixed) refused(g *Headers) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready == g {
		f.readLocked(f.life.cfg.Now())
	}
	return f.ready != g
}
