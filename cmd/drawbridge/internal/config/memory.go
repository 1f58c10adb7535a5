package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// memory is what a Loader knows of the tenants of the config that it loaded last. What is
// found in a load is kept only if no problem is, at its end.
type memory struct {
	// Whether it serves further loads. Otherwise a load keeps every place that only
	// validate asks for.
	lasting bool
	listen  string                // of the config that was loaded first; "": none was yet
	tenants map[string]remembered // by id
	parts   map[digest]*part      // by the digest of their text

	// Of the load that is under way:
	around digest            // of what every tenant depends on
	keys   map[string]digest // of tenants, by id
	read   []*part           // the parts that belong to the config
}

// remembered is a tenant with a digest of all that it depends on, which is zero where it
// may depend on more, or there is a warning of it.
type remembered struct {
	key    digest
	tenant *gateway.TenantConfig
}

// begin begins a load.
func (k *memory) begin() { k.keys, k.read = map[string]digest{}, nil }

// key returns the digest of all that a tenant depends on. It is zero for one of the
// config file itself, and for one of a file that may have variables, whose values may
// change.
func (k *memory) key(m member, serving []string) digest {
	if !k.lasting || m.value.kind != unread || !m.value.part.plain {
		return digest{}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%x %q %x %q", k.around, serving, m.value.part.sum, m.name)
	return digest(sum.Sum(nil))
}

// part returns the part of that file and text, nil if it is not known, or holds more than
// tenants.
func (k *memory) part(file string, text []byte) *part {
	if p := k.parts[sha256.Sum256(text)]; p != nil && p.alone && p.file == file && len(p.tenants) > 0 {
		return p
	}
	return nil
}

// find returns the tenant of that id if it has the same key as before.
func (k *memory) find(id string, key digest) (t gateway.TenantConfig, ok bool) {
	known := k.tenants[id]
	if known.key != key || key == (digest{}) {
		return t, false
	}
	return *known.tenant, true
}

// shared returns t or, if it was the same in the config before, that one, so that both
// are the same memory.
func (k *memory) shared(t gateway.TenantConfig) gateway.TenantConfig {
	if before := k.tenants[t.ID].tenant; before != nil && before.Equal(&t) {
		return *before
	}
	return t
}

// keep ends a load without problems: from now on its tenants are those that are
// remembered.
func (k *memory) keep(cfg *Config) {
	k.listen = cmp.Or(k.listen, cfg.Listen)
	k.tenants = make(map[string]remembered, len(cfg.Tenants))
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		k.tenants[t.ID] = remembered{k.keys[t.ID], t}
	}
	k.parts = make(map[digest]*part, len(k.read))
	for _, p := range k.read {
		p.text = nil // the next load reads it anyway
		k.parts[p.sum] = p
	}
	k.begin()
}
