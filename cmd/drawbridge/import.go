package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// skippedServer is a server of a client's file that cannot run here.
type skippedServer struct {
	name, reason string
}

// importServers reads the servers of a client's JSON file: an object named mcpServers, or servers as VS Code has it. Members that only matter
// to a client are passed over. A server that cannot run here is skipped with the reason; names are made valid and kept apart from taken.
func importServers(data []byte, taken []string, env environment) ([]serverConfig, []skippedServer, error) {
	root, err := mcp.ParseObject(data)
	if err != nil {
		return nil, nil, fmt.Errorf("not JSON that can be read: %w", err)
	}
	listed := root.Object("mcpServers")
	if !root.Has("mcpServers") {
		listed = root.Object("servers")
	}
	if listed.Len() == 0 {
		return nil, nil, errors.New(`there are no servers in it; wanted is {"mcpServers": {"name": {"command": …} or {"url": …}}}`)
	}
	var servers []serverConfig
	var skipped []skippedServer
	for name, raw := range listed.Members {
		entry, _ := mcp.ObjectOf(raw)
		s, err := importServer(entry, env)
		if err != nil {
			skipped = append(skipped, skippedServer{strconv.Quote(name), err.Error()})
			continue
		}
		s.name = freeName(name, taken)
		s.prefix = s.name
		taken = append(taken, s.name)
		servers = append(servers, s)
	}
	return servers, skipped, nil
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

func importServer(entry mcp.Object, env environment) (serverConfig, error) {
	s := serverConfig{private: true, grace: defaultGrace, env: map[string]string{}, headers: map[string]string{}}
	if string(entry.Value("disabled")) == "true" {
		return s, errors.New("disabled in the file")
	}
	in := &importer{env: env}
	s.command = in.expand(entry.Text("command"))
	for _, name := range []string{"url", "httpUrl", "serverUrl"} {
		if s.url == "" {
			s.url = in.expand(entry.Text(name))
		}
	}
	if s.url != "" && (entry.Text("type") == "sse" || entry.Text("transport") == "sse") {
		s.transport = "sse" // other names of transports mean different things to different clients, and are found out
	}
	arguments, _ := entry.Value("args").Elements()
	for _, raw := range arguments {
		text, _ := raw.Text()
		s.args = append(s.args, in.expand(text))
	}
	for name, raw := range entry.Object("env").Members {
		s.env[name] = in.expandRaw(raw)
		in.note(checkVariable(name, s.env[name]))
	}
	for name, raw := range entry.Object("headers").Members {
		s.headers[name] = in.expandRaw(raw)
		in.note(checkHeader(name, s.headers[name]))
	}
	if in.err != nil {
		return s, in.err
	}
	return s, checkImported(s)
}

func checkImported(s serverConfig) error {
	switch {
	case s.command != "" && s.url != "":
		return errors.New("it has both a command and an address")
	case s.command != "":
		return nil
	case s.url == "":
		return errors.New("it has neither a command nor an address")
	}
	u, err := url.Parse(s.url)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("its address is not plain http or https")
	}
	return nil
}

// importer keeps the first thing that is wrong with one server.
type importer struct {
	env environment
	err error
}

func (in *importer) expand(text string) string {
	if strings.Contains(text, "${input:") {
		in.note("it asks for ${input:…}, which only VS Code has")
		return ""
	}
	text = strings.ReplaceAll(text, "${env:", "${") // VS Code's spelling
	out, _, err := expand(text, in.env)
	if err != nil {
		in.note(err.Error())
	}
	return out
}

// expandRaw reads texts, and numbers and truth values as their text.
func (in *importer) expandRaw(raw mcp.RawJSON) string {
	if text, ok := raw.Text(); ok {
		return in.expand(text)
	}
	return string(raw)
}

func (in *importer) note(reason string) {
	if in.err == nil && reason != "" {
		in.err = errors.New(reason)
	}
}
