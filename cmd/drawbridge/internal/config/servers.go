package config

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	defaultGrace        = 30 * time.Second // long enough for most servers to be started again
	defaultStartTimeout = time.Minute      // long enough for npx and the like to fetch the program first
)

// servers reads the mapping of servers into r.cfg.Servers, in the order of the files. A
// server with problems is added too, so that tenants which name it get no problem of
// their own.
func (r *reader) servers(n *node) {
	r.entries(n, "servers", func(m member) {
		s := Server{Name: m.name, Prefix: m.name, Grace: defaultGrace, StartTimeout: defaultStartTimeout}
		if !registry.ValidServerName(m.name) {
			r.faultHint(m.key, asName(m.name, 16),
				"%q is not a server's name: 1 to 16 of a-z, 0-9 and -", m.name)
		}
		r.server(&s, m.value)
		r.cfg.Servers = append(r.cfg.Servers, s)
		r.cfg.positions["server "+m.name] = m.key.problem("")
	})
}

// asName makes a name of any text, for a server or login, of that length at most: of a to
// z, digits and dashes. It is "" when no character of the text can stay.
func asName(text string, most int) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	return strings.TrimRight(name[:min(most, len(name))], "-")
}

// notInNames is a character that such a name does not have.
var notInNames = regexp.MustCompile(`[^a-z0-9-]`)

// keysOfKinds says which keys belong to servers of some kinds alone. why is why another
// kind has no use for them; "": it follows from the kind.
var keysOfKinds = []struct {
	names, kinds []string
	why          string
}{
	{
		names: []string{"args", "cwd", "env", "max_children", "start_timeout", "user", "limits"},
		kinds: []string{"command"},
	},
	{names: []string{"headers"}, kinds: []string{"url", "openapi"}},
	{names: []string{"base_url", "include", "output_schemas"}, kinds: []string{"openapi"}},
	{names: []string{"private_addresses"}, kinds: []string{"url", "openapi", "builtin"}},
	{[]string{"shared"}, []string{"url", "command"}, "; this server keeps nothing of a caller"},
	{[]string{"idempotent"}, []string{"url", "command"}, "; calls of this server are not lost"},
	{[]string{"grace"}, []string{"url", "command"}, "; this server is part of the gateway"},
	{[]string{"revision"}, []string{"url", "command"}, "; this server is no MCP server"},
	{[]string{"released"}, []string{"url", "command", "openapi"}, "; built-in tools hide nothing"},
	{[]string{"pinned"}, []string{"url", "command"}, "; this server offers what the config says"},
}

// server reads one server, first whether its addresses may be private. Then comes which
// kind of server it is; then every key that belongs to another kind is a problem, because
// it would have no effect; then the checks of the kind.
func (r *reader) server(s *Server, n *node) {
	if at := n.member("private_addresses"); at != nil {
		s.PrivateAddresses = r.boolean(at)
	}
	if !r.object(n, "a server", r.serverFields(s)) {
		return
	}
	kind := r.oneOf(n, "the server", "builtin", "command", "url", "openapi")
	if kind == "" {
		return
	}
	for _, keys := range keysOfKinds {
		for _, name := range keys.names {
			if value := n.member(name); value != nil && !slices.Contains(keys.kinds, kind) {
				r.fault(value, "%s goes with %s%s", name, orList(keys.kinds),
					cmp.Or(keys.why, ", and this server has "+kind))
			}
		}
	}
	r.faultEach(
		wrong{
			s.MaxChildren == 1 && !s.Shared, n.member("max_children"),
			"one child is for lists only and leaves none for calls; say 2 or more, or shared: true",
		},
		wrong{
			kind == "command" && s.Rights.Limits.Processes > 0 && n.member("user") == nil,
			n.child("limits").member("processes"),
			"processes goes with user: the system counts all processes of a user, the gateway's own too",
		},
		wrong{
			s.Pinned && s.Auth.OwnLists, n.member("pinned"),
			"pinned does not go with lists: user: nobody reads what each user is listed, so nobody could " +
				"release it",
		})
	switch kind {
	case "builtin":
		r.checkBuiltin(s, n)
	case "openapi":
		r.checkAPI(s, n)
	}
	if value := n.member("auth"); value != nil {
		r.checkAuth(s, s.Auth.Spec, value)
	}
	r.checkType(s, n, kind)
}

// serverFields returns the keys of a server, each with the function that reads it into s.
func (r *reader) serverFields(s *Server) fields {
	return fields{
		"builtin":           func(n *node) { r.builtin(s, n) },
		"command":           into(&s.Command, r.text),
		"args":              into(&s.Args, r.arguments),
		"cwd":               into(&s.Dir, r.existing("%q is not a directory", os.FileMode.IsDir)),
		"env":               into(&s.Env, r.pairs("env", checkVariable)),
		"user":              into(&s.Rights.User, r.user),
		"limits":            r.processLimits(&s.Rights.Limits),
		"max_children":      into(&s.MaxChildren, r.between(1, 1000)),
		"start_timeout":     into(&s.StartTimeout, r.duration),
		"url":               into(&s.URL, r.serverURL(s)),
		"headers":           into(&s.Headers, r.pairs("headers", checkHeaderOnce())),
		"auth":              r.serverAuth(s),
		"grace":             into(&s.Grace, r.duration),
		"timeout":           into(&s.Timeout, r.duration),
		"private_addresses": func(*node) {}, // read first, see server
		"type":              func(n *node) { r.choice(n, "http", "streamable-http", "stdio", "sse") },
		"revision":          into(&s.Revision, r.revision),
		"prefix":            into(&s.Prefix, r.prefix),
		"acknowledge":       r.acknowledge,
		"shared":            into(&s.Shared, r.boolean),
		"idempotent":        into(&s.Idempotent, r.checkedTexts("idempotent", checkOwnPattern)),
		"released":          into(&s.Released, r.digests),
		"pinned":            into(&s.Pinned, r.boolean),
		"tool_timeouts":     into(&s.ToolTimeouts, named(r, "tool_timeouts", r.duration)),
		"openapi": func(n *node) {
			if strings.Contains(n.text, "://") {
				r.fault(n, "openapi is a file, and this is an address: fetch the document, and name its file")
				return
			}
			s.API.Document, s.API.folder = r.read(n),
				filepath.Dir(r.path(n))
		},
		"base_url":       into(&s.API.BaseURL, r.serverURL(s)),
		"include":        into(&s.API.Include, r.textsOf("include")),
		"output_schemas": into(&s.API.OutputSchemas, r.boolean),
	}
}

// checkType reports a type that contradicts what the server is, and takes the transport
// of one at an address from it.
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

// revision returns the protocol revision in which the gateway speaks to a server, "" for
// auto: the gateway then finds out.
func (r *reader) revision(n *node) string {
	const found = "auto"
	named := r.among(append([]string{found}, mcp.Revisions()...)...)(n)
	if named == found {
		return ""
	}
	return named
}

// prefix returns what the exposed names of a server's items begin with. It may be "",
// unlike most texts: then the names are exposed unchanged.
func (r *reader) prefix(n *node) string {
	switch {
	case r.faultBroken(n):
	case n.kind == scalar && (n.text == "" || registry.ValidServerName(n.text)):
		return n.text
	default:
		r.fault(n, "a prefix is \"\" or 1 to 16 of a-z, 0-9 and -")
	}
	return ""
}

// checkOwnPattern tells why a text is no pattern of the names that a server itself gives
// to its tools, without the prefix.
func checkOwnPattern(pattern string) error {
	switch {
	case patternShape.MatchString(pattern):
		return nil
	case strings.ContainsAny(pattern, `?[]\`):
		return errors.New("in a pattern only * stands for other characters; ?, [ ] and \\ do not")
	default:
		return errors.New("a pattern is a tool's own name of letters, digits, _ - . / : and single spaces, " +
			"with * for any run of characters")
	}
}

// digests reads digests of definitions, as /readyz and validate -online print them.
func (r *reader) digests(n *node) []string {
	var out []string
	r.eachText(n, "released", func(at *node, text string) {
		digest, err := registry.ParseDigest(text)
		if err != nil {
			r.fault(at,
				"%q is no digest: sha256: and 64 of 0-9 and a-f, as /readyz and validate -online print it",
				at.raw)
		}
		out = append(out, digest)
	})
	return out
}

// arguments returns the arguments of a program. Unlike other lists of texts, they may be
// empty and may repeat.
func (r *reader) arguments(n *node) []string {
	var out []string
	r.sequence(n, "args", func(item *node) {
		if !r.faultBroken(item) {
			r.faultFirst(
				wrong{item.kind != scalar, item, "an argument is a text"},
				wrong{strings.ContainsRune(item.text, 0), item, "a text with a NUL character"})
		}
		out = append(out, item.text)
	})
	return out
}
