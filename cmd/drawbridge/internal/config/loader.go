package config

import (
	"crypto/sha256"
	"fmt"
	"reflect"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// Loader loads one config file again and again, and does again only what may come out differently. It reads every file
// of the config each time, but parses and checks the tenants of an included file only if its text is another one than
// in the config that it loaded last, or anything else is that they depend on. The configs that it returns share what is
// equal in them.
//
// A config of a Loader serves a gateway. It does not know where the patterns and acknowledgements of tenants stand, so
// AllWarnings and Needless are for a config of Load. A Loader is for one goroutine at a time.
type Loader struct {
	path   string
	env    Environment
	memory memory
}

// NewLoader returns a Loader of the file at path.
func NewLoader(path string, env Environment) *Loader { return &Loader{path: path, env: env} }

// Load is the function Load, for a caller that watches the files. It returns the sources that were read even when the
// config is refused: the next change of one of those files is probably the correction, and the caller has to notice it.
func (l *Loader) Load() (*Config, Sources, error) { return loadFile(l.path, l.env, &l.memory) }

// memory is what a Loader knows of the tenants of the config that it loaded last. What is found in a load is kept only
// if no problem is, at its end. All methods do nothing on nil, which knows nothing.
type memory struct {
	known map[digest]*gateway.TenantConfig // by all that they depend on; those alone that there is no warning of
	parts map[digest]*part                 // by the digest of their text
	byID  map[string]*gateway.TenantConfig

	// Of the load that is under way:
	around digest // of what every tenant depends on
	found  []found
	read   []*part
}

// found is a tenant that may be remembered, by its place in the config.
type found struct {
	key   digest
	place int
}

// begin begins a load.
func (k *memory) begin() {
	if k != nil {
		k.found, k.read = nil, nil
	}
}

// surround goes on with a load whose keys but the tenants have been read. What a tenant says depends, beside its own text, on
// the names, prefixes and kinds of servers, on the names of issuers, and on what the whole config acknowledges. On which
// issuers serve it, see key; on variables of the environment, see there too.
func (k *memory) surround(r *reader) {
	if k == nil {
		return
	}
	around := sha256.New()
	for _, name := range r.index.servers {
		s := r.index.server[name]
		_, _ = fmt.Fprintf(around, "server %q %q %t\n", s.Name, s.Prefix, len(s.Builtin) > 0) // a hash has no errors
	}
	_, _ = fmt.Fprintf(around, "issuers %q\n", r.index.issuers)
	for _, item := range r.root.child("acknowledge").items {
		_, _ = fmt.Fprintf(around, "acknowledge %q\n", item.text)
	}
	k.around = digest(around.Sum(nil))
}

// key returns by what a tenant is remembered. It is zero for one that is not: one of the config file itself, and one
// of a file that may have variables, whose values may change.
func (k *memory) key(m member, serving []string) digest {
	if k == nil || m.value.kind != unread || !m.value.part.plain {
		return digest{}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%x %q %x %q", k.around, serving, m.value.part.sum, m.name)
	return digest(sum.Sum(nil))
}

// part returns the part of that file and text, nil if it is not known, or holds more than tenants.
func (k *memory) part(file string, text []byte) *part {
	if k == nil {
		return nil
	}
	if p := k.parts[sha256.Sum256(text)]; p != nil && p.alone && p.file == file && len(p.keys) > 0 {
		return p
	}
	return nil
}

// addPart notes that a part belongs to the config that is read.
func (k *memory) addPart(p *part) {
	if k != nil {
		k.read = append(k.read, p)
	}
}

// find returns the tenant with that key.
func (k *memory) find(key digest) (t gateway.TenantConfig, ok bool) {
	if k == nil || key == (digest{}) {
		return t, false
	}
	known, ok := k.known[key]
	if !ok {
		return t, false
	}
	return *known, true
}

// shared returns t or, if it was the same in the config before, that one, so that both are the same memory.
func (k *memory) shared(t gateway.TenantConfig) gateway.TenantConfig {
	if k == nil {
		return t
	}
	if before := k.byID[t.ID]; before != nil && reflect.DeepEqual(before, &t) {
		return *before
	}
	return t
}

// add notes that the tenant at that place of the config has that key.
func (k *memory) add(key digest, place int) {
	if k != nil && key != (digest{}) {
		k.found = append(k.found, found{key, place})
	}
}

// keep ends a load without problems: from now on its tenants are those that are remembered.
func (k *memory) keep(cfg *Config) {
	if k == nil {
		return
	}
	k.known = make(map[digest]*gateway.TenantConfig, len(k.found))
	k.byID = make(map[string]*gateway.TenantConfig, len(cfg.Tenants))
	for i := range cfg.Tenants {
		k.byID[cfg.Tenants[i].ID] = &cfg.Tenants[i]
	}
	for _, f := range k.found {
		k.known[f.key] = &cfg.Tenants[f.place]
	}
	k.found = nil
	k.parts = make(map[digest]*part, len(k.read))
	for _, p := range k.read {
		p.text = nil // the next load reads it anyway
		k.parts[p.sum] = p
	}
	k.read = nil
}
