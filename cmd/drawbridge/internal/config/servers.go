package config

import (
	"os"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// Server is one server of the config. Exactly one of Builtin, Command, URL and API.Document is set, and says what the
// server is: built-in tools, a program, an MCP server at an address, or the document of an HTTP API. The keys of the
// file have the names of the fields unless a comment says otherwise. A Server is plain data, without functions or
// connections, so that a reload can compare it with the one that runs.
type Server struct {
	Name   string // the key of the server
	Prefix string // before the names of what it offers; the name unless the file says otherwise, "": the names are unchanged

	Builtin      []string // names of built-in tools
	CSVRoot      string   // the directory below which analyze_csv reads
	WeatherURL   string   // where get_weather asks for forecasts
	GeocodingURL string   // where get_weather asks for places

	Command      string            // the program, as a name in PATH or with a path
	Args         []string          // of the program
	Dir          string            // cwd: where the program runs; "": where the gateway runs
	Env          map[string]string // of the program, beside the few variables that every program gets
	Rights       process.Rights    // user and limits: which of the gateway's the program has
	MaxChildren  int               // processes at once; zero: the default of package upstream
	StartTimeout time.Duration     // how long the program may take until it answers; a minute unless the file says otherwise

	URL       string            // the address
	Transport string            // type: "http", "streamable-http" or "sse", as in upstream.Config.Type; "": what is found
	Headers   map[string]string // sent with every request, to an address or an API

	Revision string // that the server is spoken to in, as in upstream.Config.Revision; "": what is found
	Shared   bool   // one session may serve every tenant and user
	OneUser  bool   // one user is behind all calls; dev says so, and no key does

	API API

	Grace            time.Duration            // how long lists keep what a lost server offered; 30 s unless the file says otherwise
	Timeout          time.Duration            // of one call; zero: the default of the package that makes the call
	Idempotent       []string                 // patterns of its own tool names that do no harm when they are called twice
	ToolTimeouts     map[string]time.Duration // of one call, by its own tool names
	PrivateAddresses bool                     // it may be on a loopback or private address

	Released     []string // digests of definitions that are let in although they hold hidden text, as of registry.Admit
	IdleReleases bool     // acknowledge unused-release: what Released names need not be there
}

const (
	defaultGrace        = 30 * time.Second // long enough for most servers to be started again
	defaultStartTimeout = time.Minute      // long enough for npx and the like to fetch the program first
)

// servers reads the mapping of servers into cfg.Servers, in the order of the files. A server with problems is added
// too, so that tenants which name it get no problem of their own.
func (r *reader) servers(cfg *Config, n *node) {
	r.entries(n, "servers", func(m member) {
		s := Server{Name: m.name, Prefix: m.name, Grace: defaultGrace, StartTimeout: defaultStartTimeout}
		if !registry.ValidServerName(m.name) {
			r.faultHint(m.key, validServerName(m.name), "%q is not a server's name: 1 to 16 of a-z, 0-9 and -", m.name)
		}
		r.server(&s, m.value)
		cfg.Servers = append(cfg.Servers, s)
		cfg.places["server "+m.name] = Problem{File: m.key.file, Line: m.key.line, Column: m.key.col}
	})
}

// validServerName makes a valid server's name of any text, "" when no character of the text can stay.
func validServerName(text string) string {
	name := strings.Map(func(c rune) rune {
		if c < 0x80 && registry.ValidServerName(string(c)) {
			return c
		}
		return '-'
	}, strings.ToLower(text))
	name = strings.Trim(name, "-")
	return strings.TrimRight(name[:min(16, len(name))], "-")
}

// server reads one server. First comes which kind of server it is; then every key that belongs to another kind is a
// problem, because it would have no effect; then the checks of the kind.
func (r *reader) server(s *Server, n *node) {
	if !r.object(n, "a server", r.apiFields(s, r.serverFields(s))) {
		return
	}
	kind := r.oneOf(n, "the server", "builtin", "command", "url", "openapi")
	if kind == "" {
		return
	}
	belongs := map[string][]string{
		"builtin": {"csv_root", "weather_url", "geocoding_url"},
		"command": {"args", "cwd", "env", "max_children", "start_timeout", "user", "limits"},
		"url":     {"headers"},
		"openapi": {"base_url", "include", "output_schemas"},
	}
	for owner, names := range belongs {
		for _, name := range names {
			if value := n.member(name); value != nil && owner != kind && (name != "headers" || kind != "openapi") {
				r.fault(value, "%s goes with %s, and this server has %s", name, owner, kind)
			}
		}
	}
	if value := n.member("private_addresses"); value != nil && kind == "command" {
		r.fault(value, "private_addresses goes with url, openapi or builtin, and this server has command")
	}
	if kind != "url" && kind != "command" {
		for name, why := range map[string]string{
			"shared": "this server keeps nothing of a caller", "idempotent": "calls of this server are not lost",
			"grace":    "this server is part of the gateway",
			"revision": "this server is no MCP server",
		} {
			if value := n.member(name); value != nil {
				r.fault(value, "%s goes with url or command; %s", name, why)
			}
		}
	}
	if value := n.member("released"); value != nil && kind == "builtin" {
		r.fault(value, "released goes with url, command or openapi; built-in tools hide nothing")
	}
	if s.MaxChildren == 1 && !s.Shared {
		r.fault(n.member("max_children"), "one child is for lists only and leaves none for calls; say 2 or more, or shared: true")
	}
	for _, name := range []string{"url", "base_url", "weather_url", "geocoding_url"} {
		if value := n.member(name); value != nil {
			r.checkReachable(value, s.PrivateAddresses)
		}
	}
	switch kind {
	case "command":
		r.checkRights(s, n)
	case "builtin":
		r.checkBuiltin(s, n)
	case "url":
		r.checkServerURL(n.member("url"))
	case "openapi":
		r.checkAPI(s, n)
	}
	r.checkType(s, n, kind)
}

// serverFields returns the keys of a server, each with the function that reads it into s; apiFields has those of an
// HTTP API.
func (r *reader) serverFields(s *Server) fields {
	return fields{
		"builtin":           func(n *node) { s.Builtin = r.nonEmptyBuiltin(n) },
		"csv_root":          func(n *node) { s.CSVRoot = r.directory(n) },
		"weather_url":       func(n *node) { s.WeatherURL = r.text(n); r.checkServerURL(n) },
		"geocoding_url":     func(n *node) { s.GeocodingURL = r.text(n); r.checkServerURL(n) },
		"command":           func(n *node) { s.Command = r.text(n) },
		"args":              func(n *node) { s.Args = r.arguments(n) },
		"cwd":               func(n *node) { s.Dir = r.directory(n) },
		"env":               func(n *node) { s.Env = r.pairs(n, "env", checkVariable) },
		"user":              func(n *node) { s.Rights.User = r.user(n) },
		"limits":            func(n *node) { r.processLimits(&s.Rights.Limits, n) },
		"max_children":      func(n *node) { s.MaxChildren = r.integer(n, 1, 1000) },
		"start_timeout":     func(n *node) { s.StartTimeout = r.duration(n) },
		"url":               func(n *node) { s.URL = r.text(n) },
		"headers":           func(n *node) { s.Headers = r.pairs(n, "headers", checkHeader) },
		"grace":             func(n *node) { s.Grace = r.duration(n) },
		"timeout":           func(n *node) { s.Timeout = r.duration(n) },
		"private_addresses": func(n *node) { s.PrivateAddresses = r.boolean(n) },
		"type":              func(n *node) { r.choice(n, "http", "streamable-http", "stdio", "sse") },
		"revision":          func(n *node) { s.Revision = r.revision(n) },
		"prefix":            func(n *node) { s.Prefix = r.prefix(n) },
		"acknowledge":       r.acknowledge,
		"shared":            func(n *node) { s.Shared = r.boolean(n) },
		"idempotent":        func(n *node) { s.Idempotent = r.toolPatterns(n) },
		"released":          func(n *node) { s.Released = r.digests(n) },
		"tool_timeouts": func(n *node) {
			s.ToolTimeouts = map[string]time.Duration{}
			r.entries(n, "tool_timeouts", func(m member) { s.ToolTimeouts[m.name] = r.duration(m.value) })
		},
	}
}

// checkType reports a type that contradicts what the server is, and takes the transport of one at an address from it.
func (r *reader) checkType(s *Server, n *node, kind string) {
	at := n.member("type")
	if at == nil {
		return
	}
	wanted := map[string]string{"http": "url", "streamable-http": "url", "sse": "url", "stdio": "command"}
	switch {
	case wanted[at.text] != "" && wanted[at.text] != kind:
		r.fault(at, "type %s goes with %s, and this server has %s", at.text, wanted[at.text], kind)
	case kind == "url":
		s.Transport = at.text
	}
	if s.Transport == "sse" && mcp.EraOf(s.Revision) == mcp.Modern {
		r.fault(n.member("revision"), "%s is not spoken over HTTP+SSE, which type: sse says", s.Revision)
	}
}

// revision returns the protocol revision in which the gateway speaks to a server, "" for auto: the gateway then finds
// out.
func (r *reader) revision(n *node) string {
	const found = "auto"
	named := r.choice(n, append([]string{found}, mcp.Revisions()...)...)
	if named == found {
		return ""
	}
	return named
}

// prefix returns what the exposed names of a server's items begin with. It may be "", unlike most texts: then the names
// are exposed unchanged.
func (r *reader) prefix(n *node) string {
	if n.kind == scalar && n.broken == "" && (n.text == "" || registry.ValidServerName(n.text)) {
		return n.text
	}
	r.fault(n, "a prefix is \"\" or 1 to 16 of a-z, 0-9 and -")
	return ""
}

// toolPatterns reads patterns of the names that a server itself gives to its tools, without the prefix.
func (r *reader) toolPatterns(n *node) []string {
	var out []string
	r.eachText(n, "idempotent", func(at *node, pattern string) {
		switch {
		case patternShape.MatchString(pattern):
		case strings.ContainsAny(pattern, `?[]\`):
			r.fault(at, "%q is not a pattern: only * stands for other characters; ?, [ ] and \\ do not", at.raw)
		default:
			r.fault(at, "%q is not a pattern: a tool's own name of letters, digits, _ - . / : and single spaces, with * for any run of characters", at.raw)
		}
		out = append(out, pattern)
	})
	return out
}

// digests reads digests of definitions, as /readyz and validate -online print them.
func (r *reader) digests(n *node) []string {
	var out []string
	r.eachText(n, "released", func(at *node, text string) {
		digest, err := registry.ParseDigest(text)
		if err != nil {
			r.fault(at, "%q is no digest: sha256: and 64 of 0-9 and a-f, as /readyz and validate -online print it", at.raw)
		}
		out = append(out, digest)
	})
	return out
}

// directory returns the path of a directory that must exist. A relative one begins at the directory of the file.
func (r *reader) directory(n *node) string {
	path := r.path(n)
	if path == "" {
		return ""
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() { //nolint:gosec // the operator names the directory
		r.fault(n, "%s is not a directory", n.raw)
	}
	return path
}

// arguments returns the arguments of a program. Unlike other lists of texts, they may be empty and may repeat.
func (r *reader) arguments(n *node) []string {
	var out []string
	r.sequence(n, "args", func(item *node) {
		if item.kind != scalar || strings.ContainsRune(item.text, 0) {
			r.fault(item, "an argument is a text")
		}
		out = append(out, item.text)
	})
	return out
}

// IsElsewhere tells whether the server is a program or an address. What such a server offers shows only when it is
// connected to, whereas built-in tools and HTTP APIs are known from the config.
func (s Server) IsElsewhere() bool { return s.Command != "" || s.URL != "" }
