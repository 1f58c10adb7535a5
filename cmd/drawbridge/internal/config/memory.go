package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// memory is what a Loader knows of a config that it loaded. A reader finds in one what
// was so in the config before, and fills another, which takes its place if there is no
// problem at the end.
type memory struct {
	// Whether it serves further loads. Otherwise a load keeps every place that only
	// validate asks for.
	lasting bool
	listen  string                // of the config that was loaded first; "": none was yet
	tenants map[string]remembered // by id
	parts   map[digest]*part      // by the digest of their text
}

// remembered is a tenant with a digest of all that it depends on, which is zero where it
// may depend on more, or there is a warning of it.
type remembered struct {
	key    digest
	tenant *gateway.TenantConfig
}

// newMemory returns a memory to be filled.
func newMemory() memory {
	return memory{tenants: map[string]remembered{}, parts: map[digest]*part{}}
}

// keyOf returns the digest of all that a tenant depends on, beside what is around it. It
// is zero for one of the config file itself, and for one of a file that may have
// variables, whose values may change.
func (r *reader) keyOf(m member, around digest, serving []string) digest {
	if !r.known.lasting || m.value.kind != unread || !m.value.part.plain {
		return digest{}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%x %q %x %q", around, serving, m.value.part.sum, m.name)
	return digest(sum.Sum(nil))
}

// remember ends a load without problems.
func (r *reader) remember() {
	r.next.lasting, r.next.listen = r.known.lasting, cmp.Or(r.known.listen, r.cfg.Listen)
	for _, p := range r.next.parts {
		p.text = nil // the next load reads it anyway
	}
	*r.known = r.next
}
