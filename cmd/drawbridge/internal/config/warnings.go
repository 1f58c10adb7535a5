package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// Judge returns the warnings of the config, sorted by place, together with one for each
// pattern that matches nothing in the catalogue and one for each release that lets
// nothing in. It also returns each place that acknowledges a warning which would not be
// given anyway, so that a stale acknowledgement does not silence a real warning one day.
//
// The caller has filled the catalogue with what the config's servers offer, as far as
// that is known: built-in tools and HTTP APIs are, without a connection; for programs and
// addresses, asked says that all of them were connected to. idle are digests in released,
// by server, that let nothing in.
func (c *Config) Judge(
	catalogue *registry.Registry, asked bool, idle map[string][]string,
) (warnings []Warning, needless []Problem) {
	warnings, needed := slices.Clone(c.Warnings), make(map[*node]bool)
	for _, u := range gateway.UnmatchedIn(catalogue, c.Tenants) {
		at := c.patterns[u.PatternPosition]
		for _, item := range at.acknowledged {
			needed[item] = true
		}
		if len(at.acknowledged) == 0 {
			at.Text, at.Hint = fmt.Sprintf("%q matches nothing that the tenant's servers offer", at.Text),
				u.Nearest
			warnings = append(warnings, Warning{at.Problem, codeNoMatch})
		}
	}
	for server, digests := range idle {
		for _, digest := range digests {
			at := c.releases[release{server, digest}]
			at.Text = fmt.Sprintf("%q lets nothing in: the server offers no such definition, or nothing is "+
				"hidden in it; it may go", at.Text)
			warnings = append(warnings, Warning{at, CodeUnusedRelease})
		}
	}
	sortWarnings(warnings)
	return warnings, c.needless(needed, asked)
}

// warnAll looks for settings that work and may not be meant, and sorts the warnings, with
// those of tenants, which were found as each was read. It runs only for a config without
// problems, so that the nodes of servers are there and in the same order as in r.cfg.
func (r *reader) warnAll() {
	r.warnOperator()
	r.warnAudit()
	r.warnWritable()
	r.warnRedis()
	r.warnRecorded()
	r.watchMemory()
	reached := r.cfg.reached()
	for i, m := range r.root.member("servers").members {
		r.warnServer(&r.cfg.Servers[i], reached[m.name], m)
		r.warnOwnNames(&r.cfg.Servers[i], m.value)
		r.watchReleases(&r.cfg.Servers[i], m.value)
	}
	for _, item := range r.acknowledged {
		if !r.needed[item] || item.text == codeNoMatch {
			r.cfg.idle = append(r.cfg.idle, item)
		}
	}
	sortWarnings(r.cfg.Warnings)
}

// warnOperator warns of an operator's page on all addresses of the machine: it asks for
// no login, and shows which servers there are.
func (r *reader) warnOperator() {
	address, _ := netip.ParseAddrPort(withoutName(r.cfg.Operator)) // it was checked
	if address.Addr().Unmap().IsUnspecified() {
		r.warn(codeOpenOperator, r.at("operator"), nil,
			"the operator's page is on all addresses of this machine, and asks nobody who they are; give "+
				"it one that clients cannot reach")
	}
}

// warnAudit warns of an audit file that is a directory, or whose directory does not exist
// here. It is no problem, because a config is often checked on another machine. A file
// that is taken by default lies beside the config, so its directory exists.
func (r *reader) warnAudit() {
	file := r.root.child("audit").member("file")
	if file == nil || r.cfg.Audit.File == "-" {
		return
	}
	if info, err := os.Stat(r.cfg.Audit.File); err == nil && info.IsDir() {
		r.warn(codeNoAudit, file, nil, "%q is a directory: name the file in it", file.raw)
	}
	if info, err := os.Stat(filepath.Dir(r.cfg.Audit.File)); err != nil || !info.IsDir() {
		r.warn(codeNoAudit, file, nil, "%q cannot be written here: its directory is not there", file.raw)
	}
}

// warnWritable warns of files that anybody on this machine may write, of all that the
// config was read from: the config, what it includes, and what it names, such as secrets,
// also those that are read again when they change.
func (r *reader) warnWritable() {
	if runtime.GOOS == "windows" {
		return // its files have access lists, and Go makes up the mode
	}
	for _, file := range r.files() {
		info, err := os.Stat(file)
		if err == nil && info.Mode().Perm()&0o002 != 0 {
			r.warn(codeWritable, &node{file: file, line: 1, col: 1}, nil,
				"anybody on this machine may write this file; chmod o-w %s", file)
		}
	}
}

// files returns all files that the config was read from, sorted.
func (r *reader) files() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.secrets, r.cfg.Sources.files))))
}

// warnServer warns of a server that no tenant reaches, of a command that is no program
// here or cannot be started as the config wants, of credentials over plain HTTP, and of
// files of the config among those that callers read. The argument reached tells whether a
// tenant reaches the server.
func (r *reader) warnServer(s *Server, reached bool, m member) {
	within := []*node{m.value}
	if !reached {
		r.warn(codeUnused, m.key, within, "no tenant reaches the server %q", s.Name)
	}
	if at := m.value.member("command"); at != nil {
		r.warnCommand(s, at, within)
	}
	if why := withheld(s.Rights, runtime.GOOS, os.Geteuid()); why != "" {
		at := cmp.Or(m.value.member("user"), m.value.member("limits"))
		r.warn(codeNoRights, at, within, "%s; as it is, the server will not start", why)
	}
	if at := m.value.child("builtin").child("analyze_csv").member("csv_root"); at != nil {
		files := r.files()
		if i := slices.IndexFunc(files, func(file string) bool {
			below, err := filepath.Rel(s.CSVRoot, file)
			return err == nil && filepath.IsLocal(below)
		}); i >= 0 {
			r.warn(codeExposed, at, within,
				"callers of analyze_csv can read parts of %s, which is below this directory; give them one "+
					"that has nothing but data", files[i])
		}
	}
	for _, name := range []string{"url", "base_url"} {
		if at := m.value.member(name); at != nil && s.exposesCredentials(at.text) {
			r.warn(codePlainHTTP, at, within,
				"credentials go to a public address over plain http, where others can read them; use https")
		}
	}
}

// warnOwnNames warns of names and patterns of a server's own tools that begin as clients
// see its tools. Hardly any server has tools of such names.
func (r *reader) warnOwnNames(s *Server, n *node) {
	named := slices.Clone(n.child("idempotent").items)
	for _, m := range n.child("tool_timeouts").members {
		named = append(named, m.asText())
	}
	for _, at := range named {
		if s.Prefix != "" && strings.HasPrefix(at.text, registry.Beginning(s.Prefix)) {
			r.warn(codeWrongPrefix, at, []*node{n},
				"%q begins with the prefix that clients see; here stand the server's own names, without it",
				at.raw)
		}
	}
}

// warnRecorded warns of patterns in audit.arguments that fit the tools and prompts of no
// server: nothing would be on record.
func (r *reader) warnRecorded() {
	for _, m := range r.root.child("audit").child("arguments").members {
		_, pattern := gateway.PatternKind(m.name)
		fits := func(s Server) bool { return registry.MayMatch(pattern, registry.Beginning(s.Prefix)) }
		if !slices.ContainsFunc(r.cfg.Servers, fits) {
			r.warn(codeWrongPrefix, m.key, nil,
				"%q matches nothing: names begin with a server's prefix and __, and no server has this one",
				m.name)
		}
	}
}

// warnCommand warns of a command that is no program here.
func (r *reader) warnCommand(s *Server, at *node, within []*node) {
	err, why := process.Check(s.Command, s.Dir), "it is not in PATH"
	switch {
	case err == nil:
		return
	case strings.Contains(s.Command, " "):
		why = "no shell splits it, so all but the program belongs in args"
	case errors.Is(err, fs.ErrPermission):
		why = "the file may not be executed; chmod +x allows it"
	case strings.Contains(s.Command, "/"):
		why = "no program is there"
	}
	r.warn(codeNoCommand, at, within, "%q is no program that can be started here: %s", at.raw, why)
}

// watchMemory notes where the warnings about memory belong, and whether they are
// acknowledged. Nobody knows here whether they are given, so the acknowledgements count
// as needed.
func (r *reader) watchMemory() {
	limits := r.root.child("limits")
	await := func(code string, at *node) awaited {
		return awaited{at.problem(""), r.acknowledgements(code, r.root)}
	}
	r.cfg.largeBody = await(codeLargeBody, cmp.Or(limits.member("max_body"), limits.member("memory"), r.root))
	r.cfg.muchMemory = await(codeMuchMemory, cmp.Or(limits.member("memory"), r.root))
}

// WarnOfMemory adds a warning if limits.memory is more than most, which is what requests
// may hold of the memory that the process has; zero means that nothing bounds that, and
// source says what does. It adds one if the largest body is larger than share, which is
// what one user can ever hold. All sizes are in bytes. The caller knows how much memory
// there is. It asks once, before anybody else sees the config.
func (c *Config) WarnOfMemory(most int64, source string, largest, share int64) {
	if most > 0 && c.Limits.Memory > most {
		c.warnOf(c.muchMemory, codeMuchMemory,
			fmt.Sprintf("limits.memory of %s is more than requests may hold here by %s, %s: the gateway may "+
				"be killed for want of memory; leave it out, set %[3]s at most, or give the process more",
				roundSize(c.Limits.Memory), source, roundSize(most)))
	}
	if largest > share {
		c.warnOf(c.largeBody, codeLargeBody,
			fmt.Sprintf("a body of %s, the largest that limits.max_body allows, never fits into what one "+
				"user may hold, %s; lower limits.max_body, raise limits.memory, or give the process more",
				roundSize(largest), roundSize(share)))
	}
}

// warnOf adds a warning unless it is acknowledged.
func (c *Config) warnOf(at awaited, code, text string) {
	if len(at.acknowledged) > 0 {
		return
	}
	at.Text = text
	c.Warnings = append(c.Warnings, Warning{at.Problem, code})
	sortWarnings(c.Warnings)
}

// roundSize writes a count of bytes in whole MiB or, where that would say little, in
// whole KiB.
func roundSize(n int64) string {
	if n < 10<<20 && n%(1<<20) != 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// watchReleases notes where each release of a server stands, so that a later warning can
// name its place, and whether that warning is acknowledged. Nobody knows here whether it
// is needed, so the acknowledgement counts as such.
func (r *reader) watchReleases(s *Server, n *node) {
	for _, at := range n.child("released").items {
		r.cfg.releases[release{s.Name, at.text}] = at.problem(at.raw)
	}
	s.IdleReleases = len(r.acknowledgements(CodeUnusedRelease, n, r.root)) > 0 &&
		len(s.Released) > 0 // any difference would restart the others, too
}

// exposesCredentials tells whether requests to the address carry credentials over the
// internet unencrypted. A name counts as a public address unless the server has
// private_addresses: without that key, the gateway connects to public addresses only.
func (s Server) exposesCredentials(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	if ip, ok := addressOf(address); !ok && s.PrivateAddresses || ok && (dial.Config{}).Check(ip) != nil {
		return false
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.Headers)), maps.Keys(u.Query()))
	return !s.Auth.IsZero() || slices.ContainsFunc(names, sanitize.NamesSecret)
}

// warnRedis warns of replicas that share limits and do not know how many they are: while
// Redis does not answer, each of them would allow all of every limit. It warns also of
// replicas that share nothing.
func (r *reader) warnRedis() {
	redis, replicas := r.root.member("redis"), r.root.member("replicas")
	switch {
	case redis != nil && replicas == nil:
		r.warn(codeNoReplicas, redis, nil, "replicas is not set: each replica keeps in Redis as much as "+
			"redis.memory is for all and, while Redis does not answer, allows all of every limit, as if it "+
			"were alone; write how many there are at most")
	case redis == nil && r.cfg.Replicas > 1:
		r.warn(codeNoRedis, replicas, nil, "redis is not set: replicas share nothing, so each allows all of "+
			"every limit, and a session of an older client is known only to the one that opened it")
	}
}
