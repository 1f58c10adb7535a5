package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const maxHeaderName = 64

var errHeaderPlace = errors.New("x-mcp-header is only allowed on properties that a chain of properties leads to")

// headerParams collects x-mcp-header from an input schema. One that breaks the rules makes the tool invalid.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
func headerParams(root *node, nodes []*node) ([]HeaderParam, error) {
	c := &headerCollector{seen: map[string]bool{}}
	if err := c.collect(root, nil); err != nil {
		return nil, err
	}
	marked := 0
	for _, n := range nodes {
		if n.header != nil {
			marked++
		}
	}
	if marked > len(c.params) {
		return nil, errHeaderPlace
	}
	return c.params, nil
}

type headerCollector struct {
	params []HeaderParam
	seen   map[string]bool
}

func (c *headerCollector) collect(n *node, path []string) error {
	for _, e := range n.edges {
		if e.keyword != "properties" {
			continue
		}
		inner := slices.Concat(path, []string{e.name})
		if e.to.header != nil {
			if err := c.add(e.to, inner); err != nil {
				return err
			}
		}
		if err := c.collect(e.to, inner); err != nil {
			return err
		}
	}
	return nil
}

func (c *headerCollector) add(n *node, path []string) error {
	name, ok := n.header.Text()
	if !ok || !isToken(name) {
		return errors.New("x-mcp-header must be an HTTP token of 1 to 64 characters")
	}
	folded := strings.ToLower(name)
	if isReservedHeader(folded) {
		return fmt.Errorf("x-mcp-header must not be %s", folded)
	}
	if c.seen[folded] {
		return errors.New("the same x-mcp-header twice")
	}
	kind, _ := n.rule("type").Text()
	switch kind {
	case "string", "integer", "boolean":
	default:
		return errors.New("x-mcp-header is only allowed on a string, an integer or a boolean")
	}
	c.seen[folded] = true
	c.params = append(c.params, HeaderParam{Header: name, Path: path, Type: kind})
	return nil
}

// isToken follows https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(name string) bool {
	for i := range len(name) {
		if !isAlphanumeric(name[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", name[i]) < 0 {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxHeaderName
}

// isReservedHeader lists headers that something on the way reads or removes. With Mcp-Param- before them they would be
// harmless; without it, in a careless proxy, they are not.
func isReservedHeader(folded string) bool {
	switch folded {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade", "host", "content-length", "authorization", "cookie", "set-cookie":
		return true
	}
	return false
}
