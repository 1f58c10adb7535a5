package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// argument is one parameter of an operation, as the tool has it.
type argument struct {
	name      string // among the arguments of the tool
	parameter string // in the request
	place     string // path, query or header
	style     string
	explode   bool
	asJSON    bool // its text is the value as JSON
	objects   bool // an object is written as JSON
	elements  bool // those of a list that are no scalars are written as JSON
	slashes   bool // it may hold them although it is in the path
	reserved  bool // some characters stay as they are, see escapeReserved
	required  bool
	schema    mcp.RawJSON
}

// newArgument returns the argument for a parameter, nil for one that the caller is not to set.
func newArgument(p *openapi3.Parameter, own http.Header, s *schemas) (*argument, error) {
	a := &argument{
		parameter: p.Name, place: p.In, required: p.Required || p.In == openapi3.ParameterInPath,
		slashes: p.AllowReserved, reserved: p.AllowReserved && p.In == openapi3.ParameterInQuery,
	}
	switch p.In {
	case openapi3.ParameterInPath, openapi3.ParameterInQuery:
	case openapi3.ParameterInHeader:
		if ignoredHeader(p.Name) || sets(own, p.Name) {
			return nil, nil
		}
		if !mayBeArgument(p.Name) {
			return nil, a.leftOut(s, "no argument may set this header")
		}
	case openapi3.ParameterInCookie:
		return nil, a.leftOut(s, "no argument may set a cookie")
	default:
		return nil, a.leftOut(s, "it is in no place that is known")
	}
	if problem := a.readStyle(p); problem != "" {
		return nil, a.leftOut(s, problem)
	}
	ref := p.Schema
	if len(p.Content) > 0 {
		media := p.Content.Get(typeJSON)
		if media == nil || len(p.Content) > 1 {
			return nil, a.leftOut(s, "its content is not JSON")
		}
		ref, a.asJSON = media.Schema, true
	}
	var err error
	if a.schema, err = s.of(ref, p.Description); err != nil {
		return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return a, nil
}

// leftOut returns nil for a parameter that may be missing, since then it is only never sent, which is noted.
func (a *argument) leftOut(s *schemas, reason string) error {
	if !a.required {
		s.note("%s parameter %q is left out: %s", a.place, a.parameter, reason)
		return nil
	}
	return fmt.Errorf("%s parameter %q is required, but %s", a.place, a.parameter, reason)
}

// readStyle takes the style that a parameter has by its own word or by its place. It returns what is not served of it.
// https://spec.openapis.org/oas/v3.1.1.html#style-values
func (a *argument) readStyle(p *openapi3.Parameter) (problem string) {
	styles := map[string][]string{
		openapi3.ParameterInPath:   {"simple", "label", "matrix"},
		openapi3.ParameterInQuery:  queryStyles(),
		openapi3.ParameterInHeader: {"simple"},
	}[a.place]
	a.style = p.Style
	if a.style == "" {
		a.style = styles[0]
	}
	if !slices.Contains(styles, a.style) {
		return fmt.Sprintf("it has the style %q, which is not served", a.style)
	}
	a.explode = a.style == "form"
	if p.Explode != nil {
		a.explode = *p.Explode
	}
	if a.explode && a.place == openapi3.ParameterInQuery && a.style != "deepObject" && isObject(p.Schema) {
		return "it is an object whose properties would become parameters of their own"
	}
	return ""
}

// queryStyles are those of parameters in the query and of fields of a form, the default first.
func queryStyles() []string { return []string{"form", "spaceDelimited", "pipeDelimited", "deepObject"} }

func isObject(ref *openapi3.SchemaRef) bool {
	return ref != nil && ref.Value != nil && (ref.Value.Type.Includes(openapi3.TypeObject) || len(ref.Value.Properties) > 0)
}

// ignoredHeader tells of parameters that a document may hold without meaning any.
// https://spec.openapis.org/oas/v3.1.1.html#parameter-object
func ignoredHeader(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "content-type", "authorization":
		return true
	}
	return false
}

// folded returns the form of a header's name in which it is unique: some servers take - and _ for the same.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// sets tells whether the operator sets a header of that name.
func sets(own http.Header, name string) bool {
	for other := range own {
		if folded(other) == folded(name) {
			return true
		}
	}
	return false
}

// mayBeArgument tells whether a model may set a header: none that carries credentials, says where the request goes or
// from whom it comes, or frames the message.
func mayBeArgument(name string) bool {
	folded := folded(name)
	if folded == "" || strings.Trim(folded, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return false
	}
	for _, beginning := range []string{"accept", "content-", "proxy-", "sec-", "x-forwarded", "x-original", "x-rewrite", "x-http-method", "x-method", "mcp-", "access-control-"} {
		if strings.HasPrefix(folded, beginning) {
			return false
		}
	}
	switch folded {
	case "authorization", "cookie", "cookie2", "set-cookie", "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding",
		"upgrade", "expect", "forwarded", "via", "origin", "referer", "user-agent", "x-real-ip", "range", "date", "http2-settings":
		return false
	}
	return true
}
