package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// API is what only a server that is an HTTP API has.
type API struct {
	Document      []byte   // the content of the file openapi; nil: the server is no HTTP API
	BaseURL       string   // base_url: what the paths of the document begin at
	Include       []string // include: operations by name or pattern; empty: those that only read
	OutputSchemas bool     // output_schemas: what the document says of answers is declared and checked

	// Notes tell the operator what is left out: operations that a pattern includes and that cannot be offered, and
	// parts of operations that are offered without them.
	Notes []string
}

// apiFields adds the keys of a server that is an HTTP API to known, and returns known.
func (r *reader) apiFields(s *Server, known fields) fields {
	known["openapi"] = func(n *node) { s.API.Document = r.read(n) }
	known["base_url"] = func(n *node) { s.API.BaseURL = r.text(n); r.checkServerURL(n) }
	known["include"] = func(n *node) { s.API.Include = r.texts(n, "include") }
	known["output_schemas"] = func(n *node) { s.API.OutputSchemas = r.boolean(n) }
	return known
}

// checkAPI loads the document of an HTTP API and reports what keeps its operations from becoming tools. An operation
// that include names must become a tool; if it cannot, that is a problem. An operation that only fits a pattern of
// include is left out with a note: a pattern stands for those operations that can be tools.
func (r *reader) checkAPI(s *Server, n *node) {
	if !r.need(n, "a server with openapi", "base_url") || s.API.Document == nil || len(r.problems) > 0 {
		return
	}
	loaded, err := openapi.Load(s.OpenAPIConfig())
	if unmatched, ok := errors.AsType[*openapi.IncludeError](err); ok {
		r.faultHint(itemOf(n.member("include"), unmatched.Pattern), nearest(unmatched.Pattern, unmatched.Known), "%s", err)
		return
	}
	if err != nil {
		r.fault(n.member("openapi"), "%s", err)
		return
	}
	// The catalogue refuses definitions too. An empty one is asked here, so that what it refuses is known before the
	// gateway runs.
	offers := loaded.Offers
	empty := registry.New()
	refused := slices.Concat(loaded.Refusals, empty.Replace(registry.Source{Name: s.Name, Prefix: s.Prefix, Tools: offers}))
	for _, part := range empty.Catalogue().Unenforced(s.Name) {
		s.API.Notes = append(s.API.Notes, "server "+s.Name+": not enforced: "+part)
	}
	for _, note := range loaded.Notes {
		s.API.Notes = append(s.API.Notes, "server "+s.Name+": "+note)
	}
	for _, one := range refused {
		if held, ok := errors.AsType[*registry.QuarantineError](one.Err); ok {
			s.API.Notes = append(s.API.Notes, fmt.Sprintf("server %s: operation '%s' is quarantined: %v; %s", s.Name, one.Item, held, held.Cure()))
			continue
		}
		text := fmt.Sprintf("operation %q cannot be a tool: %v", one.Item, one.Err)
		if slices.Contains(s.API.Include, one.Item) {
			r.fault(itemOf(n.member("include"), one.Item), "%s", text)
			continue
		}
		s.API.Notes = append(s.API.Notes, "server "+s.Name+": "+text)
	}
	switch {
	case len(refused) == 0 && len(offers) == 0:
		r.fault(n.member("openapi"), "no operation is included; without include those are the GETs")
	case len(r.problems) == 0 && len(refused) == len(offers)+len(loaded.Refusals) && !slices.ContainsFunc(refused, isQuarantined):
		r.fault(n.member("openapi"), "none of the %d included operations can be a tool; operation %q: %v", len(refused), refused[0].Item, refused[0].Err)
	}
}

// isQuarantined tells whether the operator could release what is refused. So it is no fault of the config.
func isQuarantined(r registry.Refusal) bool { return r.Reason == registry.ReasonQuarantined }

// itemOf returns the item of a list with that text, or the list itself when it has no such item.
func itemOf(list *node, text string) *node {
	for _, item := range list.items {
		if item.text == text {
			return item
		}
	}
	return list
}

// OpenAPIConfig returns the config from which package openapi makes the tools of an HTTP API. Validation and the
// running gateway use the same, so that what was checked is what runs.
func (s Server) OpenAPIConfig() openapi.Config {
	return openapi.Config{
		Name:          s.Name,
		Document:      s.API.Document,
		BaseURL:       s.API.BaseURL,
		Include:       s.API.Include,
		Headers:       s.Headers,
		OutputSchemas: s.API.OutputSchemas,
		Client:        dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}),
		Timeout:       s.Timeout,
		Released:      s.Released,
	}
}
