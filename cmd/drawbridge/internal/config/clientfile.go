package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Imported is what the file says in which a client, an editor for example, lists its servers.
type Imported struct {
	Servers []Server
	Skipped []Problem // for each server that cannot run here the reasons, in the order of the file
	Ignored []Problem // what else in the file has no effect
}

// clientFile reads the file in which a client lists its servers.
type clientFile struct {
	Imported

	file string // as the operator wrote it
	env  Environment
}

// Import reads the servers of a client's JSON file: an object named mcpServers, or servers as VS Code has it. A server
// that cannot run here is skipped, and members that mean nothing here are ignored, each with its place and reason. Names
// are made valid, and kept apart from each other and from taken. A RefusedError says why the file has no servers; any
// other error says that it cannot be read.
func Import(file string, taken []string, env Environment) (Imported, error) {
	data, err := readFile(file)
	if err != nil {
		return Imported{}, err
	}
	return importServers(file, data, taken, env)
}

// importServers is Import of a file whose content is data.
func importServers(file string, data []byte, taken []string, env Environment) (Imported, error) {
	root, err := parseJSONC(file, data)
	if err != nil {
		return Imported{}, err
	}
	f := &clientFile{file: file, env: env}
	listed, err := f.listed(root)
	if err != nil {
		return Imported{}, err
	}
	for _, m := range listed {
		s, faults := f.server(m.value)
		for _, p := range faults {
			p.Text = strconv.Quote(m.name) + ": " + p.Text
			f.Skipped = append(f.Skipped, p)
		}
		if len(faults) > 0 {
			continue
		}
		s.Name = freeName(m.name, taken)
		s.Prefix = s.Name
		taken = append(taken, s.Name)
		f.Servers = append(f.Servers, s)
	}
	return f.Imported, nil
}

// listed returns the servers of the file. What a client keeps beside them is ignored.
func (f *clientFile) listed(root *node) ([]member, error) {
	refuse := func(at *node, text string) error {
		return RefusedError{{f.file, at.line, at.col, text + `; wanted is {"mcpServers": {"name": {"command": …} or {"url": …}}}, or servers instead of mcpServers`, ""}}
	}
	if root.kind != mapping {
		return nil, refuse(root, "this is no object")
	}
	var servers, others []member
	for _, m := range root.members {
		switch m.name {
		case "mcpServers", "servers":
			if m.value.kind != mapping {
				return nil, refuse(m.value, m.name+" is no object")
			}
			servers = append(servers, m.value.members...)
		case "inputs", "$schema": // an input is said where it is used
		default:
			others = append(others, m)
		}
	}
	if len(servers) == 0 {
		return nil, refuse(root, "there are no servers in it")
	}
	f.ignoreOthers(others)
	return servers, nil
}

// ignoreOthers says in one line which members beside the servers are ignored: some clients keep all their settings
// there.
func (f *clientFile) ignoreOthers(others []member) {
	if len(others) == 0 {
		return
	}
	const shown = 5
	var names []string
	for _, m := range others[:min(shown, len(others))] {
		names = append(names, fmt.Sprintf("%.40q", m.name))
	}
	text := strings.Join(names, ", ")
	if more := len(others) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	f.ignore(others[0].key, "%s: servers are read from mcpServers and servers only", text)
}

// ignore records that something in the file has no effect.
func (f *clientFile) ignore(at *node, format string, args ...any) {
	if len(f.Ignored) < maxProblems {
		f.Ignored = append(f.Ignored, Problem{f.file, at.line, at.col, fmt.Sprintf(format, args...), ""})
	}
}

// freeName makes a valid server's name of name that is not taken yet.
func freeName(name string, taken []string) string {
	base := validServerName(name)
	if base == "" {
		base = "server"
	}
	free := base
	for i := 2; slices.Contains(taken, free); i++ {
		suffix := "-" + strconv.Itoa(i)
		free = strings.TrimRight(base[:min(len(base), 16-len(suffix))], "-") + suffix
	}
	return free
}

// server reads one server. It cannot run here when there are problems.
func (f *clientFile) server(n *node) (Server, []Problem) {
	s := Server{PrivateAddresses: true, Grace: defaultGrace, StartTimeout: defaultStartTimeout, Env: map[string]string{}, Headers: map[string]string{}}
	r := &reader{}
	switch {
	case n.kind != mapping:
		r.fault(n, "a server is an object with a command or a url")
		return s, r.problems
	case n.child("disabled").text == "true":
		r.fault(n.member("disabled"), "disabled in the file")
		return s, r.problems
	case n.child("enabled").text == "false":
		r.fault(n.member("enabled"), "disabled in the file")
		return s, r.problems
	}
	address := func(at *node) {
		if s.URL != "" {
			r.fault(at, "it has two addresses; keep one")
		}
		s.URL = f.text(r, at)
		r.checkServerURL(&node{kind: scalar, text: s.URL, file: at.file, line: at.line, col: at.col})
	}
	read := fields{
		"command": func(at *node) { s.Command = f.text(r, at) },
		"args":    func(at *node) { r.sequence(at, "args", func(item *node) { s.Args = append(s.Args, f.text(r, item)) }) },
		"cwd":     func(at *node) { s.Dir = f.directory(r, at) },
		"env":     func(at *node) { f.pairs(r, at, s.Env, checkVariable) },
		"headers": func(at *node) { f.pairs(r, at, s.Headers, checkHeader) },
		"url":     address, "httpUrl": address, "serverUrl": address,
		"type": func(*node) {}, "transport": func(*node) {}, "disabled": func(*node) {}, "enabled": func(*node) {}, // read on their own
	}
	for _, m := range n.members {
		if known := read[m.name]; known != nil {
			known(m.value)
		} else {
			f.ignore(m.key, "%.40q has no effect here%s", m.name, cures()[m.name])
		}
	}
	f.checkKind(r, &s, n)
	return s, r.problems
}

// cures say what to write instead of a member that has no effect.
func cures() map[string]string {
	return map[string]string{"envFile": "; put its values into env"}
}

// checkKind says what a server is, a command or an address, and ignores what goes with the other.
func (f *clientFile) checkKind(r *reader, s *Server, n *node) {
	kind, idle := "command", []string{"headers"}
	switch {
	case len(r.problems) > 0:
		return
	case s.Command != "" && s.URL != "":
		r.fault(n, "it has both a command and an address; keep one")
		return
	case s.Command == "" && s.URL == "":
		r.fault(n, "it has neither a command nor an address; add command or url")
		return
	case s.URL != "":
		kind, idle = "url", []string{"args", "cwd", "env"}
	}
	for _, m := range n.members {
		switch {
		case slices.Contains(idle, m.name):
			f.ignore(m.key, "%s has no effect: this server has %s", m.name, kind)
		case m.name == "type" || m.name == "transport":
			f.transport(s, m.value, kind)
		}
	}
}

// transport takes the word of the file for HTTP+SSE only: other words mean different things to different clients, and
// what they name is found out.
func (f *clientFile) transport(s *Server, at *node, kind string) {
	word := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(at.text))
	wanted := map[string]string{"stdio": "command", "http": "url", "streamablehttp": "url", "sse": "url"}[word]
	switch {
	case wanted != kind:
		f.ignore(at, "%.40q has no effect: this server has %s, and what it speaks is found out", at.text, kind)
	case word == "sse":
		s.Transport = word
	}
}

// text returns a text, or a number or truth value as its text, with its variables in place.
func (f *clientFile) text(r *reader, n *node) string {
	if n.kind != scalar {
		r.fault(n, "a text is wanted here")
		return ""
	}
	out, err := f.expand(n.text)
	switch {
	case err != nil:
		r.fault(n, "%s", err)
	case strings.ContainsRune(out, 0):
		r.fault(n, "a text with a NUL character")
	}
	return out
}

// directory returns a directory, which may be relative to that of the file.
func (f *clientFile) directory(r *reader, n *node) string {
	dir := f.text(r, n)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(f.file), dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		r.fault(n, "%q is not a directory", n.raw)
	}
	return dir
}

// pairs reads names with values that may be secrets: no value is ever quoted.
func (f *clientFile) pairs(r *reader, n *node, into map[string]string, check func(name, value string) string) {
	r.entries(n, "this", func(m member) {
		if m.value.kind == null {
			f.ignore(m.key, "%.40q is null and has no effect", m.name)
			return
		}
		into[m.name] = f.text(r, m.value)
		if reason := check(m.name, into[m.name]); reason != "" {
			r.fault(m.key, "%s", reason)
		}
	})
}
