package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// parse returns what read finds in the text of the config file. The error is a
// RefusedError.
func (r *reader) parse(data []byte, read func()) (*Config, error) {
	if r.root = r.parseYAML(data); r.root != nil {
		read()
	}
	if len(r.problems) > 0 {
		return nil, RefusedError(sorted(r.problems))
	}
	return r.cfg, nil
}

// finish runs the checks that need the whole config but its tenants, for example whether
// a tenant that an issuer names exists. They wait until every key has been read because a
// file may have its keys in any order.
func (r *reader) finish() {
	r.index = r.newIndex()
	for _, check := range r.later {
		check()
	}
	r.later = nil
}

// config reads the top level of the file. The order of the keys means nothing, so
// whatever depends on several keys is looked at after all keys have been read. The
// tenants come last: each is read, checked and forgotten before the next.
func (r *reader) config() {
	known := r.topFields()
	if !r.includes(r.root, known) {
		return
	}
	complete := r.object(r.root, "the config", known) &&
		r.need(r.root, "the config", "issuers", "tenants", "servers")
	if complete {
		r.cfg.Audit.File = r.auditFile()
		r.checkAddresses()
		r.finish()
		r.checkSigningIn()
	}
	if n := r.root.member("tenants"); n != nil {
		r.tenants(n, complete)
	}
	if complete {
		r.finishAuth()
	}
}

// topFields returns the keys of the top level, each with the function that reads its
// value into r.cfg. Which keys exist is said here alone; an included file and LoadSigners
// accept a part of them.
func (r *reader) topFields() fields {
	s, l := &r.cfg.Sessions, &r.cfg.Limits
	return fields{
		"include": func(*node) {}, // the files were joined before any key is read, see includes
		"tenants": func(*node) {}, // read last, see config

		"listen":          into(&r.cfg.Listen, r.address),
		"operator":        into(&r.cfg.Operator, r.address),
		"public_url":      into(&r.cfg.PublicURL, r.publicURL),
		"allowed_origins": into(&r.cfg.AllowedOrigins, r.checkedTexts("allowed_origins", checkOrigin)),
		"allowed_hosts":   into(&r.cfg.AllowedHosts, r.checkedTexts("allowed_hosts", checkHost)),
		"trusted_proxies": into(&r.cfg.TrustedProxies, r.prefixes),
		"revisions":       r.section("revisions", fields{"legacy_sse": into(&r.cfg.LegacySSE, r.boolean)}),

		"issuers": r.issuers,
		"clients": r.clients,
		"registration": into(&r.cfg.Registration, func(n *node) clients.Registration {
			return clients.Registration(r.choice(n, "on", "dynamic", "off"))
		}),
		"spent_tokens": into(&r.cfg.SpentTokens, bounded(
			r, r.duration, leastSpentWindow, signin.MostSpentWindow,
			fmt.Sprintf("spent refresh tokens are answered for 1m to %d hours",
				signin.MostSpentWindow/time.Hour),
		)),
		"advertise": r.advertise,
		"scopes_supported": func(n *node) {
			// An empty list says that there are none, and is not taken for a missing one.
			r.cfg.ScopesSupported = append([]string{}, r.checkedTexts("scopes_supported", checkScope)(n)...)
		},
		"servers":      r.servers,
		"redis":        r.redis,
		"link":         r.link,
		"replicas":     r.replicas,
		"key_sets_dir": r.keySetsDir,
		"data":         r.data,
		"access_keys":  r.accessKeys,
		"acknowledge":  r.acknowledge,

		"sessions": r.section("sessions", fields{
			"idle":      into(&s.Idle, r.duration),
			"max_age":   into(&s.MaxAge, r.duration),
			"keys_file": func(n *node) { s.KeysFile, s.Keys = r.path(n), r.sealKeys(n, "keys_file") },
			"events": r.section("events", fields{
				"count": into(&s.EventCount, r.between(leastEvents, 1_000_000)),
				"bytes": into(&s.EventBytes, r.sizeFrom(leastEventBytes, "bytes is 64KiB at least")),
				"age":   into(&s.EventAge, r.duration),
			}),
		}),
		"audit": r.section("audit", r.auditFields()),
		"log": r.section("log", fields{
			"level":  into(&r.cfg.LogLevel, r.logLevel),
			"format": into(&r.cfg.LogFormat, r.among("json", "text")),
		}),
		"lists": r.section("lists", fields{"page_size": into(&r.cfg.PageSize, r.between(1, 10_000))}),
		"extensions": r.section("extensions", fields{
			"pass": into(&r.cfg.PassedExtensions, r.checkedTexts("extensions.pass", checkExtension)),
		}),
		"card": r.card,
		"limits": r.section("limits", fields{
			"max_body":            into(&l.MaxBody, r.size),
			"max_requests":        into(&l.MaxRequests, r.between(1, 1_000_000)),
			"max_streams":         into(&l.MaxStreams, r.between(1, 1_000_000)),
			"max_connections":     into(&l.MaxConnections, r.between(1, 10_000_000)),
			"address_connections": into(&l.AddressConnections, r.between(1, 10_000_000)),
			"memory":              into(&l.Memory, r.sizeFrom(minMemory, tooLittleMemory)),
		}),
	}
}

// leastSpentWindow is the least of spent_tokens: below it, windows that share a token
// would end each other's sign-ins.
const leastSpentWindow = time.Minute

// The least bounds of sessions.events. What is beyond them is dropped, also where a client
// that is connected has yet to be sent it: a call may tell of much at one moment.
const (
	leastEvents     = 200
	leastEventBytes = 64 << 10
)

// cardName is the form of the name of a server card.
var cardName = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// Bounds of the texts in a server card, in characters.
const (
	maxCardName = 200
	maxCardText = 100
)

// card reads what the gateway says of itself to everybody.
// https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json
func (r *reader) card(n *node) {
	short := func(n *node) string {
		text := r.text(n)
		if utf8.RuneCountInString(text) > maxCardText {
			r.fault(n, "a server card has at most %d characters here", maxCardText)
		}
		return text
	}
	r.object(n, "card", fields{
		"name": func(n *node) {
			name := r.text(n)
			r.cfg.Card.Name = name
			if name != "" && (!cardName.MatchString(name) || len(name) > maxCardName) {
				r.fault(n, "%q: a server card has a name such as com.example/tools", n.raw)
			}
		},
		"title":       into(&r.cfg.Card.Title, short),
		"description": into(&r.cfg.Card.Description, short),
	})
	r.need(n, "card", "name", "description")
}

// checkExtension tells why an extension cannot be let through.
func checkExtension(id string) error {
	var none *mcp.ExtensionTable
	switch {
	case !mcp.ValidExtensionID(id):
		return errors.New("an identifier is a prefix, a slash and a name, such as com.example/thing")
	case none.Find(id) != nil:
		return errors.New("this extension is carried without being named here")
	}
	return nil
}

// replicas reads how many there are. Several need common keys: each would make its own at
// random, and none could open what another has sealed.
func (r *reader) replicas(n *node) {
	if r.cfg.Replicas = r.between(1, 10_000)(n); r.cfg.Replicas > 1 {
		r.later = append(r.later, func() { r.checkReplicas(n) })
	}
}

// keySetsDir reads where key sets outlive the process. They need keys that do: nobody
// could open them again.
func (r *reader) keySetsDir(n *node) {
	r.cfg.KeySetsDir = r.path(n)
	r.later = append(r.later, func() {
		if r.cfg.Sessions.KeysFile == "" && r.cfg.Data.Dir == "" {
			r.fault(n, "key sets are sealed with the keys of sessions.keys_file, which is not there; "+
				"make it with: openssl rand -base64 32 > session.keys")
		}
	})
}

// sealKeys returns the keys in a file, which the setting names. It also makes a ring of them and
// drops it, so that keys that the gateway could not start with are reported here, with
// their place.
func (r *reader) sealKeys(n *node, setting string) [][]byte {
	data := r.read(n)
	if data == nil {
		return nil
	}
	keys, err := seal.ParseKeys(data)
	if err == nil {
		_, err = seal.NewRing(keys...)
	}
	if err != nil {
		r.fault(n, "%s: %s", setting, err)
	}
	return keys
}

// auditPath reads the name of a file. A lone - means standard output: it is no name of a
// file, and is not joined to the directory of the config.
func (r *reader) auditPath(n *node) string {
	if path := r.path(n); n.text != "-" {
		return path
	}
	return "-"
}

// auditFile returns where the audit records go: the file of audit.file or, when the
// config names none, audit.jsonl in the directory of the config file.
func (r *reader) auditFile() string {
	return cmp.Or(r.cfg.Audit.File, r.path(&node{kind: scalar, file: r.file, text: "audit.jsonl"}))
}

// logLevel reads a level; after a problem it is that of info.
func (r *reader) logLevel(n *node) (level slog.Level) {
	// or choice has reported it
	_ = level.UnmarshalText([]byte(r.choice(n, "debug", "info", "warn", "error")))
	return level
}

// minMemory is the least that limits.memory may be, in bytes. With many calls at once,
// half of it is set aside for their slots, and one user may hold a quarter of the rest:
// 512 KiB, so that a request and an answer of 64 KiB each pass, which are held several
// times over on their way.
const minMemory = 4 << 20

// tooLittleMemory is the message about less. A size without a unit is bytes, so that
// whoever forgets the unit asks for far too little, and would find out only when requests
// are refused.
const tooLittleMemory = "limits.memory is at least 4MiB, so that one user has room for messages of " +
	"64 KiB; say 64MiB or more, or leave it out, and it follows from what the process may have"

func (r *reader) newIndex() index {
	x := index{tenants: map[string]bool{}, servers: map[string]*Server{}, issuers: r.issuerNames()}
	if len(r.cfg.Clients) > 0 && r.cfg.PublicURL != "" {
		x.issuers = append(x.issuers, r.cfg.PublicURL) // of clients that have tokens of their own
	}
	if r.root.member("access_keys") != nil { // on or off: to turn keys off must not take another change
		x.issuers = append(x.issuers, r.cfg.PublicAddress())
	}
	for _, m := range r.root.child("tenants").members {
		x.tenants[m.name] = true
	}
	for i := range r.cfg.Servers {
		x.servers[r.cfg.Servers[i].Name] = &r.cfg.Servers[i]
	}
	return x
}

// issuerNames returns the names of all issuers in the tree of nodes, also of those that
// were not read without a problem: a subject of theirs is no second problem.
func (r *reader) issuerNames() []string {
	var names []string
	for _, item := range r.root.child("issuers").items {
		if name := item.child("issuer").text; name != "" {
			names = append(names, name)
		}
		if item.member("github") != nil {
			names = append(names, provider.GitHubIssuer)
		}
	}
	return names
}
