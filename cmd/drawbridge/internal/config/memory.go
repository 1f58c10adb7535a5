package config

import (
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
	// by all that they depend on; those alone that there is no warning of
	known map[digest]*gateway.TenantConfig
	parts map[digest]*part // by the digest of their text
	byID  map[string]*gateway.TenantConfig

	// Of the load that is under way:
	around digest // of what every tenant depends on
	found  []found
	read   []*part
}

// found is a tenant that may be remembered, by its place in the config.
type found struct {
	key   digest
	index int
}

// begin begins a load.
func (k *memory) begin() { k.found, k.read = nil, nil }

// key returns by what a tenant is remembered. It is zero for one that is not: one of the
// config file itself, and one of a file that may have variables, whose values may change.
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
	if p := k.parts[sha256.Sum256(text)]; p != nil && p.alone && p.file == file && len(p.keys) > 0 {
		return p
	}
	return nil
}

// addPart notes that a part belongs to the config that is read.
func (k *memory) addPart(p *part) { k.read = append(k.read, p) }

// find returns the tenant with that key.
func (k *memory) find(key digest) (t gateway.TenantConfig, ok bool) {
	known := k.known[key]
	if known == nil {
		return t, false
	}
	return *known, true
}

// shared returns t or, if it was the same in the config before, that one, so that both
// are the same memory.
func (k *memory) shared(t gateway.TenantConfig) gateway.TenantConfig {
	if before := k.byID[t.ID]; before != nil && before.Equal(&t) {
		return *before
	}
	return t
}

// add notes that the tenant at that place of the config has that key.
func (k *memory) add(key digest, index int) {
	if key != (digest{}) {
		k.found = append(k.found, found{key, index})
	}
}

// keep ends a load without problems: from now on its tenants are those that are
// remembered.
func (k *memory) keep(cfg *Config) {
	k.known = make(map[digest]*gateway.TenantConfig, len(k.found))
	k.byID = make(map[string]*gateway.TenantConfig, len(cfg.Tenants))
	for i := range cfg.Tenants {
		k.byID[cfg.Tenants[i].ID] = &cfg.Tenants[i]
	}
	for _, f := range k.found {
		k.known[f.key] = &cfg.Tenants[f.index]
	}
	k.found = nil
	k.parts = make(map[digest]*part, len(k.read))
	for _, p := range k.read {
		p.text = nil // the next load reads it anyway
		k.parts[p.sum] = p
	}
	k.read = nil
}
