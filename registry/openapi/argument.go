package openapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// argument is one parameter of an operation, as an argument of the tool. Properties of a
// form are arguments as well, which are written as parameters of the query are.
type argument struct {
	name      string // name among the arguments of the tool
	parameter string // name in the request
	location  string // path, query or header
	style     string // how lists and objects are written: form, simple, deepObject, …
	explode   bool   // each element or property is written on its own, where the style distinguishes that
	asJSON    bool   // the whole value is written as JSON
	objects   bool   // an object is written as JSON
	elements  bool   // elements of a list that are objects or lists are written as JSON
	slashes   bool   // the value may have slashes although it is in the path
	reserved  bool   // some reserved characters are not encoded, see escapeReserved
	required  bool
	schema    mcp.RawJSON
}

// newArgument returns the argument for a parameter, nil for a parameter that the caller
// is not to set. own are the names of the headers that the gateway sets, which no
// argument may set. The error is for a required parameter that cannot be served.
func newArgument(p *parameter, own []string, s *schemas) (*argument, error) {
	schema := p.at.child("schema")
	a := &argument{
		parameter: p.Name, location: p.In, required: p.Required || p.In == "path",
		slashes: p.AllowReserved, reserved: p.AllowReserved && p.In == "query",
	}
	switch p.In {
	case "path", "query":
	case "header":
		if slices.Contains(ignoredHeaders, strings.ToLower(p.Name)) || sets(own, p.Name) {
			return nil, nil
		}
		if !mayBeArgument(p.Name) {
			return nil, a.leftOut(s, "no argument may set this header")
		}
	case "cookie":
		return nil, a.leftOut(s, "no argument may set a cookie")
	default:
		return nil, a.leftOut(s, "it is in no place that is known")
	}
	if problem := a.readStyle(p.style, schema, s, "parameters"); problem != "" {
		return nil, a.leftOut(s, problem)
	}
	content := p.at.child("content")
	if kinds := content.names(); len(kinds) > 0 {
		if kind := rank(kinds[0]); len(kinds) > 1 || kind == rankNone || kind == rankForm {
			return nil, a.leftOut(s, "its content is not JSON")
		}
		schema, a.asJSON = content.child(kinds[0]).child("schema"), true
	}
	var err error
	if a.schema, err = s.of(schema, p.Description); err != nil {
		return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return a, nil
}

// leftOut returns the error for a parameter that cannot be served. For an optional
// parameter that is nil: it is then never sent, which is noted for the operator.
func (a *argument) leftOut(s *schemas, reason string) error {
	if !a.required {
		s.note("%s parameter %q is left out: %s", a.location, a.parameter, reason)
		return nil
	}
	return fmt.Errorf("%s parameter %q is required, but %s", a.location, a.parameter, reason)
}

// style is how the document has a value written; "" and nil: it does not say.
type style struct {
	Style         string
	Explode       *bool
	AllowReserved bool
}

// readStyle sets style and explode, as the document has them or as the place of the
// argument gives them by default. what is what the value is written as. problem says why
// the style cannot be served, "" when it can.
// https://spec.openapis.org/oas/v3.1.1.html#style-values
func (a *argument) readStyle(said style, schema *place, s *schemas, what string) (problem string) {
	styles := map[string][]string{
		"path":   {"simple", "label", "matrix"},
		"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
		"header": {"simple"},
	}[a.location]
	a.style = cmp.Or(said.Style, styles[0])
	a.explode = a.style == "form"
	if said.Explode != nil {
		a.explode = *said.Explode
	}
	switch {
	case !slices.Contains(styles, a.style):
		return fmt.Sprintf("it has the style %q, which is not served", a.style)
	case a.explode && a.location == "query" && a.style != "deepObject" && s.isObject(schema):
		return "it is an object whose properties would become " + what + " of their own"
	case a.style != "deepObject" && !a.elements && s.listsObjects(schema):
		return "it is a list of objects, for which there is no style"
	case a.style != "deepObject" && !a.elements && s.listsLists(schema):
		return "it is a list of lists, for which there is no style"
	}
	return ""
}

// ignoredHeaders are those of which the specification says that a parameter of that name
// has no effect.
// https://spec.openapis.org/oas/v3.1.1.html#parameter-object
var ignoredHeaders = []string{"accept", "content-type", "authorization"}

// folded returns the form in which the name of a header is compared: without case, and
// with _ as -, because some servers take the two for the same.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// sets tells whether own, the headers of the gateway, has one of that name.
func sets(own []string, name string) bool {
	return slices.ContainsFunc(own, func(other string) bool { return folded(other) == folded(name) })
}

// mayBeArgument tells whether a model may set a header of that name. It must not set one
// that carries credentials, that says where a request goes or who sends it, or that
// frames the message: proxies and APIs trust those.
func mayBeArgument(name string) bool {
	folded := folded(name)
	begins := func(beginning string) bool { return strings.HasPrefix(folded, beginning) }
	return folded != "" && strings.Trim(folded, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		!slices.ContainsFunc(trustedBeginnings, begins) && !slices.Contains(trustedHeaders, folded)
}

// The headers that no model may set, folded, and those by how their names begin.
var (
	trustedBeginnings = []string{
		"accept", "content-", "proxy-", "sec-", "x-forwarded", "x-original", "x-rewrite", "x-http-method",
		"x-method", "mcp-", "access-control-",
	}
	trustedHeaders = []string{
		"authorization", "cookie", "cookie2", "set-cookie", "host", "connection", "keep-alive", "te",
		"trailer", "transfer-encoding", "upgrade", "expect", "forwarded", "via", "origin", "referer",
		"user-agent", "x-real-ip", "range", "date", "http2-settings",
	}
)
