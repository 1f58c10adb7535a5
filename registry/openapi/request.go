package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// target is the API that all tools of one server call. It is immutable and shared.
type target struct {
	server string
	base   *url.URL    // without a slash at its end
	header http.Header // the operator's, with credentials
	// what requests carry beside that; nil: nothing
	credential *credential.Source
	own        []string // names of the headers of both
	secrets    []string // credentials that no answer may repeat to the model
	client     http.RoundTripper
	turns      *fairqueue.Queue // at making large answers results; nil: nobody waits
}

// caller serves the calls of one operation. It is immutable and safe for concurrent use.
type caller struct {
	*target

	method    string
	segments  []segment
	arguments []*argument
	body      *body
	schema    mcp.RawJSON // of the arguments, as the catalogue has it
}

// segment is what stands between two slashes of a path: literal texts and arguments, in
// order.
type segment []piece

// piece is a literal text, or the place of an argument when argument is not nil.
type piece struct {
	literal  string
	argument *argument
}

// template takes the path of an operation apart, as /users/{id}. The error says why the
// path cannot be served: every parameter in it must be declared, every declared one must
// be in it, and its literal texts must have only one reading.
func template(path string, arguments []*argument) ([]segment, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("its path does not begin with a slash")
	}
	used := map[*argument]bool{}
	var segments []segment
	bare := strings.Builder{} // the path with x for every parameter
	for text := range strings.SplitSeq(path[1:], "/") {
		var s segment
		bare.WriteByte('/')
		for text != "" {
			literal, rest, found := strings.Cut(text, "{")
			if literal != "" {
				s = append(s, piece{literal: literal})
				bare.WriteString(literal)
			}
			if !found {
				break
			}
			name, rest, closed := strings.Cut(rest, "}")
			a := inPath(arguments, name)
			if !closed || a == nil {
				return nil, errors.New("its path names a parameter that it does not have")
			}
			text, used[a] = rest, true
			s = append(s, piece{argument: a})
			bare.WriteByte('x')
		}
		segments = append(segments, s)
	}
	if !plainPath(strings.TrimSuffix(bare.String(), "/")) {
		return nil, errors.New("its path has dot segments, empty segments or characters that need encoding")
	}
	for _, a := range arguments {
		if a.location == "path" && !used[a] {
			return nil, fmt.Errorf("path parameter %q is not in its path", a.parameter)
		}
	}
	return segments, nil
}

// inPath returns the argument for the path parameter of that name, nil when there is
// none.
func inPath(arguments []*argument, name string) *argument {
	for _, a := range arguments {
		if a.location == "path" && a.parameter == name {
			return a
		}
	}
	return nil
}

// inSegments matches a path of segments that are not empty and have no character that is
// encoded or would have to be.
var inSegments = regexp.MustCompile(`^(?:/[-a-zA-Z0-9._~!$&'()*+,;=:@]+)*$`)

// plainPath tells whether all servers read the path in the same way: it is in segments,
// of which none is of dots. The empty path is plain.
func plainPath(text string) bool {
	return inSegments.MatchString(text) && (text == "" || path.Clean(text) == text)
}

// maxAddress bounds the address of one request, in bytes.
const maxAddress = 32 << 10

// errAddress means a fault of this package: arguments that lead elsewhere are refused as
// a *registry.UsageError before.
var errAddress = errors.New("the arguments would lead to another address")

// address returns the address of a call with these arguments. Whatever they are, the
// scheme, the host, the literal texts of the path, the number of its segments and the
// names in the query are those of the operation. The address is parsed once more at the
// end and compared, in case path or query let something through.
func (c *caller) address(arguments mcp.Object) (*url.URL, error) {
	path, err := c.path(arguments)
	if err != nil {
		return nil, err
	}
	query, err := c.query(arguments)
	if err != nil {
		return nil, err
	}
	text := c.base.String() + path
	if query != "" {
		text += "?" + query
	}
	if len(text) > maxAddress {
		return nil, registry.Usagef("The arguments make an address of more than %d bytes.", maxAddress)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != c.base.Scheme || u.Host != c.base.Host || u.User != nil ||
		u.Fragment != "" ||
		u.EscapedPath() != c.base.Path+path || strings.Count(path, "/") != len(c.segments) ||
		u.RawQuery != query {
		return nil, errAddress
	}
	return u, nil
}

// path returns the path of a call, behind that of the base address, with the arguments
// written in. Errors are *registry.UsageError.
func (c *caller) path(arguments mcp.Object) (string, error) {
	var out strings.Builder
	for _, s := range c.segments {
		out.WriteByte('/')
		start := out.Len()
		for _, p := range s {
			if p.argument == nil {
				out.WriteString(p.literal)
				continue
			}
			v, err := p.argument.read(arguments.Value(p.argument.name))
			if err != nil {
				return "", err
			}
			text, err := p.argument.pathText(v)
			if err != nil {
				return "", err
			}
			out.WriteString(text)
		}
		// Pieces that are harmless alone may lead elsewhere together, as . and . do.
		if len(s) > 1 && !harmless(registry.Decode(out.String()[start:])) {
			return "", registry.Usagef("The arguments make a part of the address that leads elsewhere.")
		}
	}
	return out.String(), nil
}

// query returns the query of a call without the question mark, "" for none. An argument
// that is missing or null is not written. Errors are *registry.UsageError.
func (c *caller) query(arguments mcp.Object) (string, error) {
	var f fields
	for _, a := range c.arguments {
		raw := arguments.Value(a.name)
		if a.location != "query" || raw.IsNull() {
			continue
		}
		if err := a.addTo(&f, raw); err != nil {
			return "", err
		}
	}
	return f.String(), nil
}

// headers returns the headers of a request but the credential. The operator's are set
// last, so that no argument can replace one of them; nor can it be one of the
// credential's.
func (c *caller) headers(arguments mcp.Object) (http.Header, error) {
	header := http.Header{"Accept": {"application/json, */*;q=0.5"}, "User-Agent": {"drawbridge"}}
	for _, a := range c.arguments {
		raw := arguments.Value(a.name)
		if a.location != "header" || raw.IsNull() {
			continue
		}
		v, err := a.read(raw)
		if err != nil {
			return nil, err
		}
		text, err := a.headerText(v)
		if err != nil {
			return nil, err
		}
		header.Set(a.parameter, text)
	}
	maps.Copy(header, c.header)
	return header, nil
}

// content returns the body of a request, nil when it has none.
func (c *caller) content(arguments mcp.Object) ([]byte, error) {
	raw := arguments.Value("body")
	switch {
	case c.body == nil || raw == nil:
		return nil, nil
	case c.body.form:
		text, err := c.body.formTexts(raw)
		return []byte(text), err
	}
	return raw, nil
}

// run sends the request of a call and makes a result of the answer. It is the Func of the
// offer and safe for concurrent use. Errors are *registry.UsageError,
// *registry.UnavailableError, errAddress, a *registry.MemoryError or that of ctx. An
// *UnavailableError says whether the API may have received the call.
func (c *caller) run(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	arguments, err := c.integral(ctx, call)
	if err != nil {
		return mcp.Object{}, err
	}
	address, err := c.address(arguments)
	if err != nil {
		return mcp.Object{}, err
	}
	header, err := c.headers(arguments)
	if err != nil {
		return mcp.Object{}, err
	}
	content, err := c.content(arguments)
	if err != nil {
		return mcp.Object{}, err
	}
	if content != nil {
		header.Set("Content-Type", c.body.mediaType)
	}
	response, granted, sent, err := credential.Carried(
		func() (*credential.Headers, error) { return c.credential.For(ctx, &call.Principal) },
		func(g *credential.Headers) (*http.Response, bool, error) {
			return dial.Send(ctx, c.client, address, c.method, g.Add(header, call.Trace), content)
		})
	if err != nil {
		return mcp.Object{}, c.unavailable(ctx, sent, err)
	}
	unzip(response)
	response.Body = c.turns.Paced(ctx, response.Body)
	defer func() { _ = response.Body.Close() }() // the body was read as far as it is wanted
	if granted != nil && response.StatusCode == http.StatusUnauthorized {
		return mcp.Object{}, c.unavailable(ctx, false,
			credential.RefusedBy(response.StatusCode, response.Header, time.Now()))
	}
	return c.answer(ctx, response, c.secretsWith(granted), call.Memory)
}

// unavailable returns the error for a request that failed, or for an answer that could
// not be read; that of ctx when ctx has ended, and a *registry.MemoryError as it is.
func (c *caller) unavailable(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if full, ok := errors.AsType[*registry.MemoryError](err); ok {
		return full
	}
	return &registry.UnavailableError{
		Server: c.server, Sent: sent, Credential: credential.FaultOf(err), Err: err,
	}
}
