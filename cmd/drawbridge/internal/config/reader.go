package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// maxProblems bounds how many problems of one config are reported, so that a file that is
// no config at all does not fill the log.
const maxProblems = 100

// reader turns the nodes of one config into values and collects every problem on the way.
// A function that reads a value reports what is wrong with it and returns the zero value;
// its caller goes on, so that later problems are found in the same run. The results count
// only if problems is empty at the end. A reader is for one load and one goroutine.
type reader struct {
	env      Environment
	cfg      *Config // that is read
	opened   opened  // the part that was parsed again last
	known    *memory // what a Loader remembers of the config before
	next     memory  // and what it will remember of this one
	problems []Problem
	warned   int      // warnings so far, also beyond those that are kept
	secrets  []string // files that are read again without a reload, and so are no sources
	bytes    int      // of YAML, of the config and all files included so far; parseYAML bounds them
	root     *node    // the whole config, included files joined to it; nil until the config file is parsed
	index    index    // for checks of names
	// the audiences of identities, which must not be the gateway's own
	identities []*node

	// The items of all lists acknowledge, and those among them that silence a warning or
	// may do so. What is in the first and not in the second is useless, and validate says
	// so.
	acknowledged []*node
	needed       map[*node]bool
}

// newReader returns a reader for the config file at path. Data is the content of that
// file or, if the file could not be read, err says why: both go into the digest of the
// sources, so that a Watch notices when the file comes back.
func newReader(path string, data []byte, err error, env Environment) *reader {
	r := &reader{
		env: env, cfg: Default(), known: &memory{}, next: newMemory(),
		needed: make(map[*node]bool),
	}
	r.cfg.File, r.cfg.Sources = path, Sources{files: []string{path}, sum: chain(nil, data, err)}
	return r
}

// fault records a problem at the place of a node. Nothing is recorded beyond maxProblems.
func (r *reader) fault(at *node, format string, args ...any) {
	r.faultHint(at, "", format, args...)
}

// faultHint records a problem at the place of a node, with what was probably meant; a
// hint of "" means that nobody can tell.
func (r *reader) faultHint(at *node, hint, format string, args ...any) {
	if r.full() {
		return
	}
	r.problems = append(r.problems, Problem{at.file, at.line, at.col, fmt.Sprintf(format, args...), hint})
}

// wrong is a problem that there may be, so that the rules of a value can stand in a list.
type wrong struct {
	is   bool
	at   *node // not nil if the problem is there
	text string
}

// faultFirst records the first of the problems that is there, and tells whether one is.
func (r *reader) faultFirst(all ...wrong) bool {
	i := slices.IndexFunc(all, func(w wrong) bool { return w.is })
	if i >= 0 {
		r.fault(all[i].at, "%s", all[i].text)
	}
	return i >= 0
}

// faultEach records all of the problems that are there.
func (r *reader) faultEach(all ...wrong) {
	for _, one := range all {
		r.faultFirst(one)
	}
}

// faultAll records each of the errors that one joins; nil is none.
func (r *reader) faultAll(at *node, err error) {
	var joined interface{ Unwrap() []error }
	switch {
	case errors.As(err, &joined):
		for _, one := range joined.Unwrap() {
			r.fault(at, "%s", one)
		}
	case err != nil:
		r.fault(at, "%s", err)
	}
}

// faultEmpty records that a list is empty, in those words.
func (r *reader) faultEmpty(n *node, text string) {
	r.faultFirst(wrong{n.kind == list && len(n.items) == 0, n, text})
}

// full tells whether there are as many problems as are ever shown. Checks that compare a
// name with all others ask it first: in a large file full of slips they would take long,
// for problems that nobody sees.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

// at returns the value of a key at the top of the file, or the whole file when the key is
// not there.
func (r *reader) at(name string) *node {
	return cmp.Or(r.root.member(name), r.root)
}

// fields says which keys a mapping may have: for each key, the function that reads its
// value; see into. Such a function is called once, with the value's node, of any kind.
type fields map[string]func(*node)

// object reads a mapping whose keys are known in advance. It reports unknown and repeated
// keys as problems, since a mistyped key would otherwise leave a setting, such as a
// limit, at its default without a word. What was probably meant by an unknown key counts
// as being there, so that it is no second problem that it is missing: as an empty node,
// of which nothing else is said. It returns whether n is a mapping at all. What names the
// mapping in messages.
func (r *reader) object(n *node, what string, known fields) bool {
	return r.entries(n, what, func(m member) {
		read, ok := known[m.name]
		if !ok {
			hint, cure := nearestKey(m.name, known), cureOf(what, m.name, known)
			if known[m.name+"_file"] != nil {
				hint = m.name + "_file"
			}
			if hint != "" && n.member(hint) == nil {
				n.members = append(n.members, member{hint, m.key, m.key})
			}
			if cure != "" {
				r.fault(m.key, "unknown key %q in %s; %s", m.name, what, cure)
				return
			}
			r.faultHint(m.key, hint, "unknown key %q in %s", m.name, what)
			return
		}
		read(m.value)
	})
}

// cureOf says what to write in place of a key that clients and other gateways have in
// such a mapping, or of one whose value stands in a file here; "" for any other key.
func cureOf(what, key string, known fields) string {
	if known[key+"_file"] != nil {
		return "write a file that has it as " + key + "_file"
	}
	const (
		byRules  = "what callers may use is said by the rules of their tenant"
		byHeader = "write headers: {Authorization: \"Bearer ${TOKEN}\"}, or auth"
		address  = "write url"
		kept     = "1,000 events and 1 MiB of each stream are kept, for as long as age says"
		groups   = "write scopes; scopes of the issuer says from which claims they come"
	)
	return map[string]string{ //nolint:gosec // these are names of keys, and words about them
		"a server httpUrl":      address,
		"a server serverUrl":    address,
		"a server transport":    "the transport is found out, or said by type",
		"a server disabled":     "a server that no tenant names is not started",
		"a server enabled":      "a server that no tenant names is not started",
		"a server image":        "write command: docker, with args: [run, -i, --rm, IMAGE]",
		"a server oauth":        "write auth: drawbridge help identity",
		"a server http_headers": "write headers",

		"a server bearer_token":         byHeader,
		"a server bearer_token_env_var": byHeader,

		"a server tools":          byRules,
		"a server exclude":        byRules,
		"a server alwaysAllow":    byRules,
		"a server autoApprove":    byRules,
		"a server allowed_tools":  byRules,
		"a server enabled_tools":  byRules,
		"a server disabled_tools": byRules,
		"a server includeTools":   byRules,
		"a server excludeTools":   byRules,

		"a rule groups":           groups,
		"a rule roles":            groups,
		"a rule users":            "write subjects, each as issuer#subject",
		"a limit per":             "rate is how many a second: 0.5 is one in two seconds",
		"an issuer client_id":     "write it in sign_in",
		"an issuer client_secret": "write sign_in, with a file that has it as client_secret_file",

		"a tenant allow":         "write rules: [{allow: […]}]",
		"a tenant deny":          "write rules: [{deny: […]}]",
		"an issuer tenant_claim": "write tenants: {claim: …}, with tenants_allowed or map",
		"tenants allowed":        "write tenants_allowed beside tenants",
		"events count":           kept, "events bytes": kept,
		"a client grant_types":  "write grants",
		"auth bearer":           "write a file that has it as token_file",
		"auth oauth":            "write client_credentials or token_exchange: drawbridge help identity",
		"the config rules":      "write them in a tenant",
		"the config sign_in":    "write it in an issuer",
		"the config auth":       "write issuers",
		"the config port":       "write listen, as 127.0.0.1:8080",
		"the config host":       "write listen, as 127.0.0.1:8080",
		"the config metrics":    "write operator, the address of the metrics",
		"the config upstreams":  "write servers",
		"the config rate_limit": "write limits in a tenant",
		"the config log_level":  "write log: {level: …}",
		"the config keys_file":  "write sessions: {keys_file: …}",
		"the config mcpServers": "write servers; drawbridge dev -servers runs a client's file as it is",
		"the config tls":        "a load balancer in front terminates TLS: drawbridge help load-balancers",
		"the config cors":       "pages that may call stand in allowed_origins",
	}[what+" "+key]
}

// entries calls read for each member of a mapping whose keys the operator chooses, such
// as the names of tenants. It reports repeated keys and calls read for the first of them
// only. It returns whether n is a mapping at all.
func (r *reader) entries(n *node, what string, read func(member)) bool {
	if n.kind != mapping {
		r.faultFirst(wrong{n.kind != 0, n, what + " must be a mapping (key: value)"})
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
		r.faultFirst(wrong{n.kind != 0, n, what + " must be a list, as in [a, b]"})
		return
	}
	for _, item := range n.items {
		read(item)
	}
}

// need reports each of the names that the mapping lacks, and returns whether all of them
// are there. It says nothing, and returns true, for a node that is no mapping: object has
// reported that.
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

// oneOf returns which one of the names the mapping has. If the mapping has none of them
// or several, that is a problem and the result is "".
func (r *reader) oneOf(n *node, what string, names ...string) string {
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return n.member(name) == nil })
	switch len(found) {
	case 0:
		r.fault(n, "%s needs one of %s", what, orList(names))
	case 1:
		return found[0]
	default:
		a, b := n.member(found[0]), n.member(found[1])
		r.faultFirst(wrong{
			min(a.kind, b.kind) != 0, b,
			fmt.Sprintf("%s has both %s and %s; keep one", what, found[0], found[1]),
		})
	}
	return ""
}

// index finds tenants, issuers and servers by name. Every pattern and every name in a
// tenant is looked up, so that a search through lists would take time that grows with the
// square of a large config.
type index struct {
	tenants map[string]bool    // nil: the file has none, which is a problem of its own
	issuers []string           // all of them, as servers, when the rest of the config has been read
	servers map[string]*Server // nil: a part of the config is missing
}

// runningAddress is PublicAddress for what callers and servers compare. Without
// public_url it follows from listen, and a new listen takes effect only at a restart.
// Until then it goes on naming the address that the process was started with: otherwise
// the clients' tokens would be refused, and identities would be of an issuer that servers
// do not know.
func (r *reader) runningAddress() string {
	return cmp.Or(r.cfg.PublicURL, "http://"+cmp.Or(r.known.listen, r.cfg.Listen))
}
