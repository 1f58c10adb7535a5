package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// overRedis opens a fleet whose replicas share a real server, and returns where each is
// served.
func overRedis(t *testing.T, server *redistest.Server, change ...func(*world)) (c *changingFleet, bases []string) {
	t.Helper()
	ring := seal.RandomRing()
	c = &changingFleet{}
	var mails []*replica.Group
	for range 3 {
		store := redis.New(server.Config())
		var mail *replica.Group
		var log *eventlog.Redis
		w := newWorld(t, append([]func(*world){func(w *world) {
			mail = newGroup(t, replica.GroupConfig{Store: store, Seal: ring, Logger: w.config.Logger})
			log = eventlog.NewRedis(eventlog.RedisConfig{
				Store: store, Seal: ring, Others: mail,
			})
			w.config.Seal, w.config.Log, w.config.Others = ring, log, mail
			w.config.Entries = recordsOf(store, ring, mail)
		}}, change...)...)
		lists, files := w.asking()
		redistest.Run(t, store)
		c.worlds, c.lists, c.files, mails = append(c.worlds, w), append(c.lists, lists), append(c.files,
			files), append(mails, mail)
		lifetimetest.Run(t, mail.Run, log.Run, w.Run)
		bases = append(bases, w.serve(t))
	}
	redistest.Wait(t, func() error {
		for _, one := range mails {
			for _, other := range mails {
				if !one.IsThere(other.Self()) {
					return errors.New("a replica does not know another")
				}
			}
		}
		return nil
	})
	c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
	return c, bases
}

// until reads a stream up to the line that has the text, and returns all that it read.
func (a *answer) until(t *testing.T, text string) string {
	t.Helper()
	var all strings.Builder
	for {
		line := a.line(t)
		all.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return all.String()
		}
		if line == "" {
			t.Fatalf("the stream ended with %q, want %q", all.String(), text)
		}
	}
}

// TestStreamsOverRedis does with a real server what other tests do with a log and word in
// memory: it moves every kind of stream from replica to replica.
func TestStreamsOverRedis(t *testing.T) {
	t.Parallel()
	c, bases := overRedis(t, redistest.Start(t))
	t.Run("messages of HTTP+SSE", func(t *testing.T) {
		stream := call(t.Context(), t, bases[0], message{method: "GET", path: "/sse", token: "alice"})
		_, address, _ := strings.Cut(stream.until(t, "data: "), "data: ")
		for i, base := range bases {
			body := `{"jsonrpc":"2.0","id":` + string(rune('1'+i)) + `,"method":"ping"}`
			if got := call(t.Context(), t, base,
				posted(strings.TrimSpace(address), body)); got.StatusCode != http.StatusAccepted {
				t.Fatalf("replica %d: got %d, want 202", i, got.StatusCode)
			}
			stream.until(t, `"id":`+string(rune('1'+i)))
		}
	})
	t.Run("an answer that is resumed", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		stream := call(ctx, t, bases[0], legacyCall(c.id, "slow_progress"))
		last := lastID(t, stream.until(t, mcp.NotifyProgress))
		leave()
		stream = call(t.Context(), t, bases[1], inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last))
		c.worlds[0].letGo()
		if got := stream.until(t, `"text":"late"`); strings.Contains(got, mcp.NotifyProgress) {
			t.Errorf("got %q, want only what followed", got)
		}
	})
	t.Run("notices", func(t *testing.T) {
		subscribe := inSession("POST", c.id,
			`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)
		if got := c.worlds[0].do(t, subscribe); strings.Contains(got.Body.String(), "error") {
			t.Fatalf("got %s", got.Body)
		}
		ctx, leave := context.WithCancel(t.Context())
		stream := call(ctx, t, bases[1], inSession("GET", c.id, ""))
		c.files[0].change("file:///a", "file:///a#1")
		last := lastID(t, stream.until(t, "file:///a#1"))
		leave()
		stream = call(t.Context(), t, bases[2], inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last))
		c.lists[0].changePrompts()
		c.worlds[0].offer(t, "more")
		got := stream.until(t, mcp.NotifyPromptsChanged)
		c.files[0].change("file:///a", "file:///a#2")
		if got += stream.until(t, "file:///a#2"); strings.Contains(got, "file:///a#1") {
			t.Errorf("got %q, want only what followed", got)
		}
	})
}

// TestStreamsGoOnWithoutRedis stops the server that replicas share: streams that are open
// go on with what happens at their replica, without ids, because nobody could resume
// them, and messages come from another replica as before. A stream that another replica
// has begun was told nothing until the server was back.
func TestStreamsGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, bases := overRedis(t, server)
	sse := call(t.Context(), t, bases[0], message{method: "GET", path: "/sse", token: "alice"})
	_, address, _ := strings.Cut(sse.until(t, "data: "), "data: ")
	address = strings.TrimSpace(address)
	stream := call(t.Context(), t, bases[0], inSession("GET", c.id, ""))
	stream.until(t, "data:")
	other := c.worlds[0].openAsking(t, mcp.Revision2511)
	ctx, leave := context.WithCancel(t.Context())
	last := lastID(t, call(ctx, t, bases[1], inSession("GET", other, "")).until(t, "data:"))
	leave()
	moved := call(t.Context(), t, bases[0], inSession("GET", other, "").with(mcp.HeaderLastEventID, last))
	server.Stop()
	c.lists[0].changePrompts()
	c.worlds[0].offer(t, "more")
	for what, one := range map[string]*answer{"begun here": stream, "begun elsewhere": moved} {
		if got := one.until(t, mcp.NotifyPromptsChanged); strings.Contains(got, "id: ") {
			t.Errorf("%s: got %q, want no id", what, got)
		}
	}
	if got := call(t.Context(), t, bases[0],
		posted(address, pingBody)); got.StatusCode != http.StatusAccepted {
		t.Errorf("a message where the stream is: got %d, want 202", got.StatusCode)
	}
	sse.until(t, `"id":1`)
	if got := call(t.Context(), t, bases[1],
		posted(address, pingBody)); got.StatusCode != http.StatusAccepted {
		t.Errorf("a message elsewhere: got %d, want 202", got.StatusCode)
	}
	sse.until(t, `"id":1`)
}
