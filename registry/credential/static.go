package credential

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// fixed is a header whose value is in a file, the same for all callers.
type fixed struct {
	life   *life
	name   string
	prefix string // before the content
	file   *file

	mu      sync.Mutex // guards the fields below
	ready   *Headers   // made of the content of that version; nil: none was made
	version int
}

var _ kind = (*fixed)(nil)

func (f *fixed) headers(context.Context, *auth.Principal) (*Headers, error) {
	content, version, err := f.file.read()
	if err == nil {
		err = CheckValue(content)
	}
	if err == nil && f.prefix != "" && !isToken(string(content)) {
		err = errNoToken
	}
	if err != nil {
		missing := failed(FaultMissing, "file of the credential: %w", err)
		f.life.tell(missing)
		return nil, missing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready == nil || f.version != version {
		f.ready, f.version = newHeaders(f.name, f.prefix+string(content)), version
		f.ready.origin = f
		f.life.cfg.Count(Made)
	}
	return f.ready, nil
}

func (f *fixed) cacheKey(p *auth.Principal) CacheKey { return CacheKey{owner: p.Owner()} }

func (f *fixed) cached(ctx context.Context, _ auth.Owner) (*Headers, error) {
	return f.headers(ctx, nil)
}

// refused reads the file again, and tells whether there is another content by now.
func (f *fixed) refused(g *Headers) bool {
	f.mu.Lock()
	version, current := f.version, f.ready == g
	f.mu.Unlock()
	return !current || f.file.again(version)
}
