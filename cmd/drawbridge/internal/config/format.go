package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
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
	r.bytes = len(data)
	if r.root = r.parseYAML(r.cfg.File, data); r.root != nil {
		read()
	}
	if len(r.problems) > 0 {
		return nil, RefusedError(sorted(r.problems))
	}
	return r.cfg, nil
}

// config reads the top level of the file. The order of the keys means nothing: issuers
// and tenants, which are checked against all other keys, are read after these, and
// whatever else depends on several keys is looked at then. The tenants come last: each is
// read, checked and forgotten before the next.
func (r *reader) config() {
	known := r.topFields()
	if !r.includes(r.root, known) {
		return
	}
	r.index = r.newIndex()
	complete := r.object(r.root, "the config", known) &&
		r.need(r.root, "the config", "issuers", "tenants", "servers")
	if n := r.root.member("issuers"); n != nil {
		r.issuers(n)
	}
	if complete {
		r.finishIndex()
		r.cfg.Audit.File = r.auditFile()
		r.checkTogether()
	}
	if n := r.root.member("tenants"); n != nil {
		r.tenants(n)
	}
	r.finishAuth()
}

// checkTogether reports keys of the top level that do not go together. It runs after all
// of them were read, but for the tenants.
func (r *reader) checkTogether() {
	c, at := r.cfg, r.root.member
	public, signsIn, u := at("public_url"), c.SignsIn(), parsedURL(c.PublicAddress())
	const (
		makeKeys   = "make it with: openssl rand -base64 32 > session.keys"
		commonKeys = "several replicas need a common sessions.keys_file, the same file at each; " + makeKeys
		nobody     = " goes with sign_in of an issuer: nobody could sign in"
	)
	keyless := c.Sessions.KeysFile == ""
	r.faultEach(
		wrong{
			overlap(c.Listen, c.Operator), r.at("operator"),
			"operator and listen are the same address; the operator's page is not for clients",
		},
		wrong{
			public == nil && c.Listen != "" && (!IsLoopback(c.Listen) || strings.HasSuffix(c.Listen, ":0")),
			r.at("listen"),
			"clients elsewhere cannot type this address: set public_url to what they type, like " +
				"https://mcp.example.com",
		},
		// each process would make its own, and none could open what another has sealed
		wrong{at("redis") != nil && keyless, at("redis"), commonKeys},
		wrong{c.Replicas > 1 && keyless, at("replicas"), commonKeys},
		wrong{
			at("link") != nil && len(c.Redis.Addresses) == 0, at("link"),
			"link: there are no other replicas without redis",
		},
		// what one replica has written into a folder another would not know of
		wrong{
			c.Data.Dir != "" && (len(c.Redis.Addresses) > 0 || c.Replicas > 1),
			r.root.child("data").member("dir"),
			"several replicas share what they keep; write postgres_file, with the address of a PostgreSQL " +
				"server in the file, in the place of dir",
		},
		wrong{
			c.Data.PostgresFile != "" && keyless, at("data"),
			"what is kept at a server is sealed with the keys of sessions.keys_file, which is not there; " +
				makeKeys,
		},
		// nobody could open them again
		wrong{
			at("key_sets_dir") != nil && keyless && c.Data.Dir == "", at("key_sets_dir"),
			"key sets are sealed with the keys of sessions.keys_file, which is not there; " + makeKeys,
		},
		wrong{
			c.AccessKeys && !c.Data.Exists(), at("access_keys"),
			"access keys are kept where data says, which is not there; write data: {dir: " +
				"/var/lib/drawbridge}",
		},
		wrong{at("registration") != nil && !r.hasLogins(), at("registration"), "registration" + nobody},
		wrong{at("spent_tokens") != nil && !r.hasLogins(), at("spent_tokens"), "spent_tokens" + nobody},
		wrong{
			signsIn && at("data") == nil, r.root,
			"sign_in and clients need data, which has the clients and who is signed in; write data: {dir: " +
				"/var/lib/drawbridge}",
		},
		wrong{
			signsIn && public == nil, r.root,
			"sign_in and clients need public_url: it is the name of the gateway in tokens, and the " +
				"beginning of the callback's address",
		},
		wrong{
			signsIn && public != nil && u.Scheme == "http" && !isLoopbackHost(u.Hostname()), public,
			"clients sign in over https; let a load balancer speak it and set public_url to what clients " +
				"type",
		})
	r.checkAdvertised()
	if signsIn {
		r.checkOwnName()
	}
}

// checkOwnName reports issuers that are named as the gateway, or as one of its addresses:
// those are the names under which it gives out tokens itself.
func (r *reader) checkOwnName() {
	own := r.cfg.PublicAddress()
	for _, item := range r.root.child("issuers").items {
		if name := item.child("issuer"); name.text == own || strings.HasPrefix(name.text, own+"/t/") {
			r.fault(name, "with sign_in or clients the gateway gives out tokens under this name itself; "+
				"call the issuer otherwise")
		}
	}
}

// topFields returns the keys of the top level, each with the function that reads its
// value into r.cfg. Which keys exist is said here alone; an included file and LoadSigners
// accept a part of them.
func (r *reader) topFields() fields {
	s, l := &r.cfg.Sessions, &r.cfg.Limits
	return fields{
		"include": func(*node) {}, // the files were joined before any key is read, see includes
		"issuers": func(*node) {}, // read when all else is known, see config
		"tenants": func(*node) {}, // read last

		"listen":          into(&r.cfg.Listen, r.address),
		"operator":        into(&r.cfg.Operator, r.address),
		"public_url":      into(&r.cfg.PublicURL, r.publicURL),
		"allowed_origins": into(&r.cfg.AllowedOrigins, r.checkedTexts("allowed_origins", checkOrigin)),
		"allowed_hosts":   into(&r.cfg.AllowedHosts, r.checkedTexts("allowed_hosts", checkHost)),
		"trusted_proxies": into(&r.cfg.TrustedProxies, r.prefixes),
		"revisions":       r.section("revisions", fields{"legacy_sse": into(&r.cfg.LegacySSE, r.boolean)}),

		"clients": r.clients,
		"registration": into(&r.cfg.Registration, func(n *node) clients.Registration {
			return clients.Registration(r.choice(n, "on", "dynamic", "off"))
		}),
		"spent_tokens": into(&r.cfg.SpentTokens, bounded(
			r, r.duration, leastSpentWindow, signin.MostSpentWindow,
			fmt.Sprintf("spent refresh tokens are answered for 1m to %d hours",
				signin.MostSpentWindow/time.Hour),
		)),
		// An empty list says that there are none, and is not taken for a missing one.
		"advertise": func(n *node) { r.cfg.Advertise = append([]string{}, r.textsOf("advertise")(n)...) },
		"scopes_supported": func(n *node) {
			r.cfg.ScopesSupported = append([]string{}, r.checkedTexts("scopes_supported", checkScope)(n)...)
		},
		"servers":      r.servers,
		"redis":        r.redis,
		"link":         r.link,
		"replicas":     into(&r.cfg.Replicas, r.between(1, 10_000)),
		"key_sets_dir": into(&r.cfg.KeySetsDir, r.path),
		"data":         r.data,
		"access_keys":  into(&r.cfg.AccessKeys, r.is("on", "on", "off")),
		"acknowledge":  r.acknowledge,

		"sessions": r.section("sessions", fields{
			"idle":      into(&s.Idle, r.duration),
			"max_age":   into(&s.MaxAge, r.duration),
			"keys_file": func(n *node) { s.KeysFile, s.Keys = r.path(n), r.sealKeys(n, "keys_file") },
			"events": r.section("events", fields{
				"age": into(&s.EventAge, r.duration),
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

// sealKeys returns the keys in a file, which the setting names. It also makes a ring of
// them and drops it, so that keys that the gateway could not start with are reported
// here, with their place.
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
	return cmp.Or(r.cfg.Audit.File, r.path(&node{kind: scalar, file: r.cfg.File, text: "audit.jsonl"}))
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

// newIndex returns an index with what the tree of nodes says alone.
func (r *reader) newIndex() index {
	x := index{issuers: r.issuerNames()}
	if tenants := r.root.child("tenants"); tenants.kind == mapping {
		x.tenants = make(map[string]bool, len(tenants.members))
		for _, m := range tenants.members {
			x.tenants[m.name] = true
		}
	}
	return x
}

// finishIndex adds what the config says when all but the tenants has been read.
func (r *reader) finishIndex() {
	x := &r.index
	if len(r.cfg.Clients) > 0 && r.cfg.PublicURL != "" {
		x.issuers = append(x.issuers, r.cfg.PublicURL) // of clients that have tokens of their own
	}
	if r.root.member("access_keys") != nil { // on or off: to turn keys off must not take another change
		x.issuers = append(x.issuers, r.cfg.PublicAddress())
	}
	if r.root.child("servers").kind == mapping {
		x.servers = make(map[string]*Server, len(r.cfg.Servers))
	}
	for i := range r.cfg.Servers {
		x.servers[r.cfg.Servers[i].Name] = &r.cfg.Servers[i]
	}
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
