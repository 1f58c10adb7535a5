package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// saying returns the target with words of its own for one of its connections, which the
// answers must have.
func (t *target) saying(connection int) *target {
	own := *t
	own.want = fmt.Sprintf("%s, said connection %d.", upstream.Message, connection)
	own.arguments = `{"message":"` + own.want + `"}`
	return &own
}

// list is the request for all tools.
func (c *caller) list() string { return client.Message(firstID, mcp.MethodToolsList, "", c.revision) }

// learn returns what the peer calls the tool echo, which most put a prefix before.
func (c *caller) learn() string {
	answer := response(c.say(c.list(), mcp.MethodToolsList))
	must.Be(isList(answer), "lists %d tools of %d: %.200s", tools(answer), upstream.Announced, answer)
	for _, part := range strings.Split(string(answer), `"name":"`)[1:] {
		if name, _, _ := strings.Cut(part, `"`); strings.HasSuffix(name, "echo") {
			return name
		}
	}
	panic(errors.New("lists no tool echo"))
}

// isList tells whether a list has all tools.
func isList(answer []byte) bool { return tools(answer) >= upstream.Announced }

func tools(answer []byte) int { return bytes.Count(answer, []byte(`"inputSchema"`)) }

// stream opens the event stream of the session.
func (c *caller) stream() {
	c.line.Open()
	c.begins(client.Request{
		Method: http.MethodGet, Revision: c.revision, Session: c.session, Accept: "text/event-stream",
	})
}
