package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// readFiles returns what reads files below the document's folder into a.Files, and
// release. A link that leads out of the folder is not followed.
func (r *reader) readFiles(a *API) (read func(name string) ([]byte, error), release func()) {
	a.Files = map[string]File{}
	root, err := os.OpenRoot(a.folder)
	if err != nil {
		return func(string) ([]byte, error) { return nil, err }, func() {}
	}
	return func(name string) ([]byte, error) {
		name = filepath.FromSlash(name)
		path := filepath.Join(a.folder, name)
		data, _, err := readRegular(path, name, root.Stat, root.Open)
		if err == nil || errors.Is(err, fs.ErrNotExist) { // what else there is may lie elsewhere
			r.cfg.Sources.files = append(r.cfg.Sources.files, path)
			r.cfg.Sources.sum = chain(r.cfg.Sources.sum, data, err)
		}
		if err != nil {
			a.Files[filepath.ToSlash(name)] = File{Problem: err.Error()}
			return nil, err
		}
		a.Files[filepath.ToSlash(name)] = File{Content: data}
		return data, nil
	}, func() { _ = root.Close() } // it was only read
}

// checkAPI loads the document of an HTTP API and reports what keeps its operations from
// becoming tools. An operation that include names must become a tool; if it cannot, that
// is a problem. An operation that only fits a pattern of include is left out with a note:
// a pattern stands for those operations that can be tools.
func (r *reader) checkAPI(s *Server, n *node) {
	if !r.need(n, "a server with openapi", "base_url") || s.API.Document == nil || len(r.problems) > 0 {
		return
	}
	cfg := s.OpenAPIConfig()
	read, release := r.readFiles(&s.API)
	defer release()
	cfg.Files = read
	loaded, err := openapi.Load(cfg)
	if unmatched, ok := errors.AsType[*openapi.IncludeError](err); ok {
		r.faultHint(itemOf(n.member("include"), unmatched.Pattern),
			nearest(unmatched.Pattern, unmatched.Known), "%s", err)
		return
	}
	if err != nil {
		r.fault(n.member("openapi"), "%s", err)
		return
	}
	// The catalogue refuses definitions too. An empty one is asked here, so that what it
	// refuses is known before the gateway runs.
	offers := loaded.Offers
	refused := slices.Concat(loaded.Refusals,
		registry.New().Replace(registry.Source{Name: s.Name, Prefix: s.Prefix, Own: true, Tools: offers}))
	for _, note := range loaded.Notes {
		s.API.Notes = append(s.API.Notes, "server "+s.Name+": "+note)
	}
	for _, one := range refused {
		if isQuarantined(one) {
			continue // its status has that, too
		}
		text := fmt.Sprintf("operation %q cannot be a tool: %v", one.Item, one.Err)
		if slices.Contains(s.API.Include, one.Item) {
			r.fault(itemOf(n.member("include"), one.Item), "%s", text)
			continue
		}
		s.API.Notes = append(s.API.Notes, "server "+s.Name+": "+text)
	}
	var tools []string
	for i := range offers {
		tools = append(tools, offers[i].Definition.Text("name"))
	}
	r.checkTimed(n, tools)
	switch {
	case len(refused) == 0 && len(offers) == 0:
		r.fault(n.member("openapi"), "no operation is included; without include those are the GETs")
	case len(r.problems) == 0 && len(refused) == len(offers)+len(loaded.Refusals) &&
		!slices.ContainsFunc(refused, isQuarantined):
		r.fault(n.member("openapi"), "none of the %d included operations can be a tool; operation %q: %v",
			len(refused), refused[0].Item, refused[0].Err)
	}
}

// checkTimed reports names in tool_timeouts of a server that is known to have these tools
// alone.
func (r *reader) checkTimed(n *node, tools []string) {
	for _, m := range n.child("tool_timeouts").members {
		if !slices.Contains(tools, m.name) {
			r.faultHint(m.key, nearest(m.name, tools), "the server has no tool %q", m.name)
		}
	}
}

// isQuarantined tells whether the operator could release what is refused. So it is no
// fault of the config.
func isQuarantined(r registry.Refusal) bool { return r.Reason == registry.ReasonQuarantined }

// itemOf returns the item of a list with that text, or the list itself when it has no
// such item.
func itemOf(list *node, text string) *node {
	for _, item := range list.items {
		if item.text == text {
			return item
		}
	}
	return list
}

// OpenAPIConfig returns the config from which package openapi makes the tools of an HTTP
// API. Validation and the running gateway use the same, so that what was checked is what
// runs.
func (s Server) OpenAPIConfig() openapi.Config {
	return openapi.Config{
		Name:          s.Name,
		Document:      s.API.Document,
		Files:         s.API.file,
		BaseURL:       s.API.BaseURL,
		Include:       s.API.Include,
		Headers:       s.Headers,
		OutputSchemas: s.API.OutputSchemas,
		Client:        dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}).Transport,
		Timeout:       s.Timeout,
		Released:      s.Released,
	}
}
