package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// target is the API that all tools of one server call. It is immutable.
type target struct {
	server  string
	base    *url.URL    // without a slash at its end
	header  http.Header // with credentials
	secrets []string    // values in header that no answer may repeat
	client  *http.Client
}

// caller serves the calls of one operation. It is immutable.
type caller struct {
	*target

	method    string
	segments  []segment
	arguments []*argument
	body      *body
}

// segment is what stands between two slashes of a path: texts and arguments.
type segment []piece

// piece is a literal text, or an argument.
type piece struct {
	literal  string
	argument *argument
}

// template takes the path of an operation apart.
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
		if a.place == "path" && !used[a] {
			return nil, fmt.Errorf("path parameter %q is not in its path", a.parameter)
		}
	}
	return segments, nil
}

func inPath(arguments []*argument, name string) *argument {
	for _, a := range arguments {
		if a.place == "path" && a.parameter == name {
			return a
		}
	}
	return nil
}

// plainPath tells whether every server reads the path in one way: no segment is empty or of dots, and nothing in it is
// encoded or would have to be. The empty path is plain.
func plainPath(path string) bool {
	if path == "" {
		return true
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
		for _, c := range segment {
			if !isAlphanumeric(c) && !strings.ContainsRune("-._~!$&'()*+,;=:@", c) {
				return false
			}
		}
	}
	return true
}

// maxAddress bounds an address that is called, in bytes.
const maxAddress = 32 << 10

var errAddress = errors.New("the arguments would lead to another address") // which is a fault of this package

// address returns where a call with these arguments goes. Whatever they are, scheme, host, the path's literal texts and
// the count of its segments, and the names in the query are those of the operation.
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
		return nil, usagef("The arguments make an address of more than %d bytes.", maxAddress)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != c.base.Scheme || u.Host != c.base.Host || u.User != nil || u.Fragment != "" ||
		u.EscapedPath() != c.base.Path+path || strings.Count(path, "/") != len(c.segments) || u.RawQuery != query {
		return nil, errAddress
	}
	return u, nil
}

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
		if len(s) > 1 && !harmless(unescape(out.String()[start:])) { // what is harmless alone may not be beside others
			return "", usagef("The arguments make a part of the address that leads elsewhere.")
		}
	}
	return out.String(), nil
}

func (c *caller) query(arguments mcp.Object) (string, error) {
	var pieces []string
	for _, a := range c.arguments {
		raw := arguments.Value(a.name)
		if a.place != "query" || raw.IsNull() {
			continue
		}
		more, err := a.queryTexts(raw)
		if err != nil {
			return "", err
		}
		pieces = append(pieces, more...)
	}
	return strings.Join(pieces, "&"), nil
}

// headers returns those of a request. The operator's come last, so that they are what is sent.
func (c *caller) headers(arguments mcp.Object) (http.Header, error) {
	header := http.Header{"Accept": {"application/json, */*;q=0.5"}, "User-Agent": {"drawbridge"}}
	for _, a := range c.arguments {
		raw := arguments.Value(a.name)
		if a.place != "header" || raw.IsNull() {
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

// content returns the body of a request, nil for none.
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

func (c *caller) request(ctx context.Context, arguments mcp.Object) (*http.Request, error) {
	address, err := c.address(arguments)
	if err != nil {
		return nil, err
	}
	header, err := c.headers(arguments)
	if err != nil {
		return nil, err
	}
	content, err := c.content(arguments)
	if err != nil {
		return nil, err
	}
	var reader io.Reader = http.NoBody
	if content != nil {
		reader = bytes.NewReader(content)
		header.Set("Content-Type", c.body.mediaType)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, "", reader)
	if err != nil {
		return nil, errAddress // its text would hold arguments
	}
	r.URL, r.Host, r.Header = address, address.Host, header
	return r, nil
}

// run makes the request and reads the answer. Errors are *usageError, *registry.UnavailableError or of ctx.
func (c *caller) run(ctx context.Context, arguments mcp.Object) (mcp.Object, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	r, err := c.request(traced, arguments)
	if err != nil {
		return mcp.Object{}, err
	}
	response, err := c.client.Do(r)
	if err != nil {
		return mcp.Object{}, c.unavailable(ctx, sent.Load(), err)
	}
	defer func() { _ = response.Body.Close() }() // it was read as far as it is wanted
	return c.answer(ctx, response)
}

// unavailable leaves the address out of the error, because it holds arguments.
func (c *caller) unavailable(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return &registry.UnavailableError{Server: c.server, Sent: sent, Err: err}
}

func asUsage(err error) (*usageError, bool) { return errors.AsType[*usageError](err) }
