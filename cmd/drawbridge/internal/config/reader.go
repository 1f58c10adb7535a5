package config

import (
	"fmt"
	"maps"
	"slices"
)

// maxProblems bounds what is said about one file.
const maxProblems = 100

// reader turns nodes into values and collects every problem on the way.
type reader struct {
	file     string // as the operator wrote it
	env      Environment
	problems []Problem
	sources  Sources
	bytes    int      // of YAML that was read
	included int      // files
	root     *node    // of the file
	later    []func() // checks that need the whole config
	index    index    // for those
	warnings []Warning

	acknowledged []*node        // codes, wherever they stand
	needed       map[*node]bool // those of them that acknowledge something, or may
}

// newReader returns a reader of a config file of which data was read, or which could not be read because of err.
func newReader(path string, data []byte, err error, env Environment) *reader {
	return &reader{file: path, env: env, needed: make(map[*node]bool), sources: Sources{files: []string{path}, sum: chain(nil, data, err)}}
}

// fault records a problem at a node.
func (r *reader) fault(at *node, format string, args ...any) {
	r.faultHint(at, "", format, args...)
}

// faultHint records a problem at a node with what was probably meant.
func (r *reader) faultHint(at *node, hint, format string, args ...any) {
	if r.full() {
		return
	}
	r.problems = append(r.problems, Problem{at.file, at.line, at.col, fmt.Sprintf(format, args...), hint})
}

// full tells whether there are as many problems as are ever shown. Then it is no use to look for another one, or for
// what was meant.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

// at returns the value of a key at the top of the file, or the whole file when the key is not there.
func (r *reader) at(name string) *node {
	if n := r.root.member(name); n != nil {
		return n
	}
	return r.root
}

// fields says what a mapping may hold and who reads it.
type fields map[string]func(*node)

// object reads a mapping by its fields; unknown and repeated keys are problems. It reports whether n is a mapping at
// all.
func (r *reader) object(n *node, what string, known fields) bool {
	names := slices.Sorted(maps.Keys(known))
	return r.entries(n, what, func(m member) {
		read, ok := known[m.name]
		if !ok {
			r.faultHint(m.key, nearest(m.name, names), "unknown key %q in %s", m.name, what)
			return
		}
		read(m.value)
	})
}

// entries calls read for each member of a mapping with free names; repeated names are problems.
func (r *reader) entries(n *node, what string, read func(member)) bool {
	if n.kind != mapping {
		r.fault(n, "%s must be a mapping (key: value)", what)
		return false
	}
	seen := make(map[string]*node, len(n.members))
	for _, m := range n.members {
		if first, repeated := seen[m.name]; repeated {
			r.fault(m.key, "repeated key %q, first %s", m.name, first.seenFrom(m.key))
			continue
		}
		seen[m.name] = m.key
		read(m)
	}
	return true
}

// sequence calls read for each item of a list.
func (r *reader) sequence(n *node, what string, read func(*node)) {
	if n.kind != list {
		r.fault(n, "%s must be a list, as in [a, b]", what)
		return
	}
	for _, item := range n.items {
		read(item)
	}
}

// need reports each name that the mapping lacks.
func (r *reader) need(n *node, what string, names ...string) bool {
	complete := true
	for _, name := range names {
		if n.kind == mapping && n.member(name) == nil {
			r.fault(n, "%s lacks %q", what, name)
			complete = false
		}
	}
	return complete
}

// oneOf reports when not exactly one of the names is there, and returns that one.
func (r *reader) oneOf(n *node, what string, names ...string) string {
	found := ""
	for _, name := range names {
		switch value := n.member(name); {
		case value == nil:
		case found != "":
			r.fault(value, "%s has both %s and %s; keep one", what, found, name)
			return ""
		default:
			found = name
		}
	}
	if found == "" {
		r.fault(n, "%s needs one of %s", what, orList(names))
	}
	return found
}

// index finds by name what a config has: in a large config every pattern asks for that.
type index struct {
	tenants, issuers, servers []string // their names, in the order of the file
	tenant                    map[string]bool
	server                    map[string]*Server
}

func (r *reader) newIndex(cfg *Config) index {
	x := index{tenant: make(map[string]bool, len(cfg.Tenants)), server: make(map[string]*Server, len(cfg.Servers)), issuers: r.issuerNames()}
	for i := range cfg.Tenants {
		x.tenants = append(x.tenants, cfg.Tenants[i].ID)
		x.tenant[cfg.Tenants[i].ID] = true
	}
	for i := range cfg.Servers {
		x.servers = append(x.servers, cfg.Servers[i].Name)
		x.server[cfg.Servers[i].Name] = &cfg.Servers[i]
	}
	return x
}
