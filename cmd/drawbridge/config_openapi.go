package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// apiConfig is what only a server with openapi has.
type apiConfig struct {
	document      []byte // nil: the server has no openapi
	baseURL       string
	include       []string
	outputSchemas bool
	notes         []string // for the operator: operations that a pattern includes and that cannot be offered, and parts of others
}

func (r *reader) apiFields(s *serverConfig, known fields) fields {
	known["openapi"] = func(n *node) { s.api.document = r.read(n) }
	known["base_url"] = func(n *node) { s.api.baseURL = r.text(n); r.checkServerURL(n) }
	known["include"] = func(n *node) { s.api.include = r.texts(n, "include") }
	known["output_schemas"] = func(n *node) { s.api.outputSchemas = r.boolean(n) }
	return known
}

// checkAPI loads the document. That an operation cannot be offered is a problem only where include asks for it by its
// name: a pattern means those that can be.
func (r *reader) checkAPI(s *serverConfig, n *node) {
	if !r.need(n, "a server with openapi", "base_url") || s.api.document == nil || len(r.problems) > 0 {
		return
	}
	loaded, err := openapi.Load(openAPIConfig(*s))
	if unmatched, ok := errors.AsType[*openapi.IncludeError](err); ok {
		r.faultHint(itemOf(n.member("include"), unmatched.Pattern), nearest(unmatched.Pattern, unmatched.Known), "%s", err)
		return
	}
	if err != nil {
		r.fault(n.member("openapi"), "%s", err)
		return
	}
	offers := loaded.Offers
	refused := slices.Concat(loaded.Refusals, registry.New().Replace(registry.Source{Name: s.name, Prefix: s.prefix, Tools: offers}))
	for _, note := range loaded.Notes {
		s.api.notes = append(s.api.notes, "server "+s.name+": "+note)
	}
	for _, one := range refused {
		text := fmt.Sprintf("operation %q cannot be a tool: %v", one.Item, one.Err)
		if slices.Contains(s.api.include, one.Item) {
			r.fault(itemOf(n.member("include"), one.Item), "%s", text)
			continue
		}
		s.api.notes = append(s.api.notes, "server "+s.name+": "+text)
	}
	switch {
	case len(refused) == 0 && len(offers) == 0:
		r.fault(n.member("openapi"), "no operation is included; without include those are the GETs")
	case len(r.problems) == 0 && len(refused) == len(offers)+len(loaded.Refusals):
		r.fault(n.member("openapi"), "none of the %d included operations can be a tool; operation %q: %v", len(refused), refused[0].Item, refused[0].Err)
	}
}

// itemOf returns the item of a list with that text, the list itself when there is none.
func itemOf(list *node, text string) *node {
	for _, item := range list.items {
		if item.text == text {
			return item
		}
	}
	return list
}

func openAPIConfig(s serverConfig) openapi.Config {
	return openapi.Config{
		Name:          s.name,
		Document:      s.api.document,
		BaseURL:       s.api.baseURL,
		Include:       s.api.include,
		Headers:       s.headers,
		OutputSchemas: s.api.outputSchemas,
		Client:        dial.Client(dial.Config{PrivateAddresses: s.private}),
		Timeout:       s.timeout,
	}
}
