package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// Imported is what the JSON file says in which a client, an editor for example, lists its
// MCP servers. The servers are complete and valid: they may go into a Config as they are.
type Imported struct {
	Servers []Server
	Skipped []Problem // why servers cannot run here, at least one reason for each, in the order of the file
	Missing []Problem // commands of Servers that are not there now; each may come while the gateway runs
	Ignored []Problem // what else in the file has no effect
}

// clientFile reads one such file, and collects in Imported what it finds.
type clientFile struct {
	Imported

	file string // as the operator wrote it
	env  Environment
}

// Import reads the servers of a client's JSON file: an object named mcpServers, or
// servers as VS Code has it. The file was written for another program, so most of what is
// unknown here is no problem: a server that cannot run here is skipped, and members
// without a meaning here are ignored, each with its place and reason.
//
// Names are made valid, and different from each other and from those in taken. A
// RefusedError says why the file has no servers at all; any other error says that the
// file cannot be read.
func Import(file string, taken []string, env Environment) (Imported, error) {
	data, _, err := readFile(file)
	if err != nil {
		return Imported{}, err
	}
	return importServers(file, data, taken, env)
}

// importServers is Import for a file whose content is given as data.
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
		f.checkCommand(s, m)
		f.Servers = append(f.Servers, s)
	}
	return f.Imported, nil
}

// checkCommand reports a command that is no program here, at its place.
func (f *clientFile) checkCommand(s Server, m member) {
	at := m.value.member("command")
	if at == nil || process.Check(s.Command, s.Dir) == nil {
		return
	}
	f.Missing = append(f.Missing, at.problem(fmt.Sprintf(
		"%q: %q is no program that can be started here: install it, or correct the name or PATH",
		m.name, at.raw)))
}

// listed returns the servers of the file with their names. Other members at the top of
// the file are settings of the client and are ignored.
func (f *clientFile) listed(root *node) ([]member, error) {
	refuse := func(at *node, text string) error {
		return RefusedError{{f.file, at.line, at.col, text +
			`; wanted is {"mcpServers": {"name": {"command": …} or {"url": …}}}, or servers instead of mcpServers`, ""}}
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

// ignoreOthers reports in a single line that members beside the servers are ignored. Some
// clients keep all their settings in this file, and a line for each would hide the lines
// about servers.
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

// ignore records that something in the file has no effect, up to maxProblems times.
func (f *clientFile) ignore(at *node, format string, args ...any) {
	if len(f.Ignored) < maxProblems {
		f.Ignored = append(f.Ignored, at.problem(fmt.Sprintf(format, args...)))
	}
}

// freeName makes a valid server's name of name that is not in taken. Where two names
// become the same, the second gets the suffix -2 and so on, and is cut so that it stays
// within the 16 characters that a name may have.
func freeName(name string, taken []string) string {
	base := cmp.Or(asName(name, 16), "server")
	free := base
	for i := 2; slices.Contains(taken, free); i++ {
		suffix := "-" + strconv.Itoa(i)
		free = strings.TrimRight(base[:min(len(base), 16-len(suffix))], "-") + suffix
	}
	return free
}

// server reads one server of the file. If it returns problems, the server cannot run here
// and is not to be used.
func (f *clientFile) server(n *node) (Server, []Problem) {
	s := Server{
		PrivateAddresses: true, Grace: defaultGrace, StartTimeout: defaultStartTimeout,
		Env: map[string]string{}, Headers: map[string]string{},
	}
	r := newReader(f.file, nil, nil, f.env)
	if r.faultFirst(
		wrong{n.kind != mapping, n, "a server is an object with a command or a url"},
		wrong{n.child("disabled").text == "true", n.member("disabled"), "disabled in the file"},
		wrong{n.child("enabled").text == "false", n.member("enabled"), "disabled in the file"}) {
		return s, r.problems
	}
	address := func(at *node) {
		if s.URL != "" {
			r.fault(at, "it has two addresses; keep one")
		}
		s.URL = r.serverURL(&s)(at)
	}
	read := fields{
		"command": into(&s.Command, r.text),
		"args":    into(&s.Args, r.arguments),
		"cwd":     into(&s.Dir, r.existing("%q is not a directory", os.FileMode.IsDir)),
		"env":     into(&s.Env, r.pairs("env", checkVariable)),
		"headers": into(&s.Headers, r.pairs("headers", checkHeaderOnce())),
		"url":     address, "httpUrl": address, "serverUrl": address,
		// These members are known and read elsewhere: type and transport by checkKind,
		// disabled and enabled above.
		"type": func(*node) {}, "transport": func(*node) {}, "disabled": func(*node) {},
		"enabled": func(*node) {},
	}
	for _, m := range n.members {
		switch known := read[m.name]; {
		case known == nil:
			f.ignore(m.key, "%.40q has no effect here%s", m.name, cures()[m.name])
		case m.value.kind == null, m.value.kind == scalar && m.value.text == "":
			// some clients write what a server has not
		default:
			f.expand(m.value)
			known(m.value)
		}
	}
	f.checkKind(r, &s, n)
	return s, r.problems
}

// cures returns, for members that are often seen and have no effect here, what to write
// instead.
func cures() map[string]string {
	return map[string]string{"envFile": "; put its values into env"}
}

// checkKind decides whether a server is a command or an address; both or neither is a
// problem. Members that belong to the other kind are ignored, with their place.
func (f *clientFile) checkKind(r *reader, s *Server, n *node) {
	if len(r.problems) > 0 || r.faultFirst(
		wrong{s.Command != "" && s.URL != "", n, "it has both a command and an address; keep one"},
		wrong{
			s.Command == "" && s.URL == "", n,
			"it has neither a command nor an address; add command or url",
		}) {
		return
	}
	kind, idle := "command", []string{"headers"}
	if s.URL != "" {
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

// transport reads the text with which the file names the transport of a server. Only sse
// is taken from it. Other texts mean different things to different clients, so for
// them the gateway finds out itself what the server speaks.
func (f *clientFile) transport(s *Server, at *node, kind string) {
	name := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(at.text))
	wanted := map[string]string{
		"stdio": "command", "http": "url", "streamablehttp": "url",
		"sse": "url",
	}[name]
	switch {
	case wanted != kind:
		f.ignore(at, "%.40q has no effect: this server has %s, and what it speaks is found out", at.text,
			kind)
	case name == "sse":
		s.Transport = name
	}
}

// expand replaces each ${…} in the texts of a value, and leaves out members that are
// null, which have no effect. It knows the variables of a drawbridge config, which Claude
// Code writes in the same way, and those that VS Code and Cursor have beyond them. A
// variable without a value is a problem where its text is read: the server would
// otherwise start with a literal ${…} in place of its token.
func (f *clientFile) expand(n *node) {
	text, err := replaceVariables(n.text, f.variable)
	if n.text = text; err != nil {
		n.broken = err.Error()
	}
	for _, item := range n.items {
		f.expand(item)
	}
	n.members = slices.DeleteFunc(n.members, func(m member) bool {
		f.expand(m.value)
		if m.value.kind == null {
			f.ignore(m.key, "%.40q is null and has no effect", m.name)
		}
		return m.value.kind == null
	})
}

// variable returns the value of ${inner}.
// https://code.visualstudio.com/docs/reference/variables-reference
func (f *clientFile) variable(inner string) (string, error) {
	kind, name, _ := strings.Cut(inner, ":")
	if strings.HasPrefix(name, "-") {
		kind = "" // ${NAME:-default}
	}
	switch {
	case kind == "env":
		inner = name
	case kind == "input":
		if value, set := f.env(inputVariable(name)); set {
			return value, nil
		}
		return "", fmt.Errorf("the input %q cannot be asked for here; set the environment variable %s to "+
			"its value", name, inputVariable(name))
	case kind == "config" || kind == "command":
		return "", fmt.Errorf("%q is known to the editor alone; write its value instead", "${"+inner+"}")
	case inner == "workspaceFolder":
		return f.workspace()
	case inner == "workspaceFolderBasename":
		folder, err := f.workspace()
		return filepath.Base(folder), err
	case inner == "userHome":
		inner = "HOME"
	case inner == "pathSeparator" || inner == "/":
		return string(filepath.Separator), nil
	}
	value, _, err := expand("${"+inner+"}", f.env)
	return value, err
}

// inputVariable returns the name of the environment variable that takes the place of an
// input of VS Code, such as INPUT_API_KEY for the input api-key. VS Code asks its user
// for inputs; here nobody is there to be asked.
func inputVariable(id string) string {
	return "INPUT_" + notInVariables.ReplaceAllString(strings.ToUpper(id), "_")
}

// notInVariables is a character that the name of a variable does not have.
var notInVariables = regexp.MustCompile(`[^A-Z0-9_]`)

// workspace returns the folder of the project that the file belongs to: the directory of
// the file or, if that is .vscode or .cursor, the directory above it.
func (f *clientFile) workspace() (string, error) {
	folder, err := filepath.Abs(filepath.Dir(f.file))
	if slices.Contains([]string{".vscode", ".cursor"}, filepath.Base(folder)) {
		folder = filepath.Dir(folder)
	}
	return folder, err
}
