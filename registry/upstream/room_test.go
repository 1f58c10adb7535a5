package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// transports returns a server with an answer of size bytes for every way in which answers
// come.
func transports(t *testing.T, size int) map[string]upstream.Config {
	t.Helper()
	result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
	web := func(modern bool, session string, call func(http.ResponseWriter, *http.Request,
		wire),
	) upstream.Config {
		return serve(t, &web{
			modern: modern, session: session, call: call,
			list: func(w http.ResponseWriter, m wire) {
				sendJSON(w, m.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
			},
		}).config()
	}
	whole := func(w http.ResponseWriter, _ *http.Request, m wire) { sendJSON(w, m.ID, result) }
	counted := func(w http.ResponseWriter, _ *http.Request, m wire) {
		w.Header().Set("Content-Length", fmt.Sprint(len(`{"jsonrpc":"2.0","id":,"result":}`)+len(m.ID)+
			len(result)))
		sendJSON(w, m.ID, result)
	}
	stream := func(w http.ResponseWriter, _ *http.Request, m wire) {
		events(w)("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
	}
	all := map[string]upstream.Config{
		"HTTP modern":                  web(true, "", whole),
		"HTTP modern, length declared": web(true, "", counted),
		"HTTP modern, streamed":        web(true, "", stream),
		"HTTP legacy":                  web(false, "s", whole),
		"HTTP legacy, streamed":        web(false, "s", stream),
		"HTTP+SSE":                     shared(serveStreamed(t, &streamed{}).config()),
		"stdio modern":                 command("modern"),
		"stdio legacy":                 command("legacy"),
	}
	return all
}

// holder is a caller of the fake's echo who wants an answer of that size, with a claim of
// its own in the budget.
func (r *rig) holder(tenant, user string, size int) *registry.Call {
	c := request(r.t, fmt.Sprintf(`{"arguments":{"more":%d}}`, size), nil)
	c.Principal = auth.Principal{TenantID: tenant, Issuer: "https://issuer.test", Subject: user}
	c.Memory = r.cfg.Memory.Reserve(share.User(c.Principal.User()))
	return c
}

// TestAnswersStayWithinTheShareOfTheirUser lets one user make thirty calls with large
// answers, and keep all that it gets, as if its client did not read. Uncounted, thirty
// answers of 15 MB would end the process.
func TestAnswersStayWithinTheShareOfTheirUser(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	for name, cfg := range transports(t, size) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := share.New(8 << 20)
			cfg.Memory = b
			r := start(t, cfg)
			r.untilTool("echo")
			tool := r.tool("echo")
			var (
				all   sync.WaitGroup
				mu    sync.Mutex
				kept  int
				calls []*registry.Call
			)
			for range 30 {
				c := r.holder("acme", "alice", size)
				calls = append(calls, c)
				all.Go(func() {
					result, err := tool.Call(t.Context(), c)
					var full *registry.MemoryError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil && len(text(result)) >= size:
						kept++
					case !errors.As(err, &full) || !errors.Is(err, share.ErrUser):
						t.Errorf(
							"got %.100s, error %v, want an answer or *registry.MemoryError of the user's share",
							result.JSON(), cause(err))
					default:
						c.Memory.Release()
					}
				})
			}
			all.Wait()
			if kept < 2 || int64(kept)*size > b.Most() {
				t.Errorf("%d answers are kept, want as many as fit into %d", kept, b.Most())
			}
			for _, other := range []*registry.Call{
				r.holder("acme", "bob", size),
				r.holder("globex", "alice", size),
			} {
				calls = append(calls, other)
				if _, err := tool.Call(t.Context(), other); err != nil || other.Memory.Size() < size {
					t.Errorf("another user: got error %v, %d held", cause(err), other.Memory.Size())
				}
			}
			for _, c := range calls {
				c.Memory.Release()
			}
			eventually(t, "nothing is held any more", func() bool { return b.InUse() == 0 })
			if left := r.last(); left.Restarts != 0 {
				t.Errorf("the connection was lost: %+v", left)
			}
		})
	}
}

// TestAnswersForWhichTheServerHasNoRoomFailTheirCallsAlone: what comes on a connection
// that many callers share is held by the server until it is known whom it answers. If
// that is too much, the caller learns it at once, and the connection goes on.
func TestAnswersForWhichTheServerHasNoRoomFailTheirCallsAlone(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	all := transports(t, size)
	for _, name := range []string{"HTTP+SSE", "stdio modern", "stdio legacy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := all[name]
			cfg.Memory = share.New(1 << 20) // of which one user has a quarter at most
			r := start(t, cfg)
			r.untilTool("echo")
			r.untilTool("slow")
			waits := make(chan error, 1)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() { // so that there is more than one whom it might answer
				_, err := r.call(ctx, "slow", `{}`, nil)
				waits <- err
			}()
			for range 3 {
				_, err := r.tool("echo").Call(t.Context(), r.holder("acme", "alice", size))
				var full *registry.MemoryError
				if !errors.As(err, &full) || !errors.Is(err, share.ErrNever) {
					t.Errorf("got %v, want *registry.MemoryError that says never", cause(err))
				}
				r.must("echo", `{}`)
			}
			eventually(t, "nothing is held any more", func() bool { return cfg.Memory.InUse() == 0 })
			select {
			case err := <-waits:
				t.Errorf("another call ended: %v", cause(err))
			default:
				leave()
				await(t, waits)
				r.must("echo", `{}`) // by then, the server has let go of the call
			}
			if left := r.last(); left.Restarts != 0 {
				t.Errorf("the connection was lost: %+v", left)
			}
		})
	}
}

// TestParkedAnswersAreHeldByTheirCaller: an answer that comes while its caller is being
// asked something is held for that caller, and goes over to the call that fetches it.
func TestParkedAnswersAreHeldByTheirCaller(t *testing.T) {
	t.Parallel()
	b := share.New(64 << 20)
	p := person{name: "alice", tenant: "acme", asks: anyQuestion}
	round := func(responses, state string) *registry.Call {
		c := p.call(t, "t", responses, state, nil)
		c.Params = c.Params.With("arguments", mcp.RawJSON(`{"token":"t","and":"`+strings.Repeat("x", 1<<20)+
			`"}`))
		c.Memory = b.Reserve(share.User(c.Principal.User()))
		return c
	}
	inBubble(t, &chat{}, func(cfg *upstream.Config) { cfg.Memory = b }, func(t *testing.T, r *rig) {
		for _, fetched := range []bool{true, false} {
			first := round("", "")
			asked, state, _, err := r.round(t.Context(), "quit", first)
			if err != nil || asked.Len() != 1 {
				t.Fatalf("got %v, want one question", err)
			}
			first.Memory.Release()
			wait(t.Context(), 11*time.Second) // until the server has answered without
			synctest.Wait()
			if held := b.InUse(); held < 1<<20 {
				t.Errorf("%d are held for an answer that waits", held)
			}
			if !fetched {
				wait(t.Context(), time.Hour)
				synctest.Wait()
			} else {
				second := round(accept(asked, "x"), state)
				_, _, got, err := r.round(t.Context(), "quit", second)
				if err != nil || len(got) < 1<<20 || second.Memory.Size() < 1<<20 {
					t.Errorf("got %d bytes, error %v, %d held by the call that fetched them", len(got), err,
						second.Memory.Size())
				}
				second.Memory.Release()
			}
			if held := b.InUse(); held != 0 {
				t.Errorf("fetched %v: %d are held in the end", fetched, held)
			}
		}
	})
}

// TestTheTextOfARequestIsHeldUntilItsAnswer: a call is sent in a text of its own, which
// nothing counted beside the body that it came in.
func TestTheTextOfARequestIsHeldUntilItsAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const size = 1 << 20
			cfg := command(kind)
			cfg.Memory = share.New(8 << 20)
			r := start(t, cfg)
			r.untilTool("slow")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			done := make(chan error, 1)
			large := func() *registry.Call {
				c := r.holder("acme", "alice", 0)
				c.Params = mcp.NewObject(mcp.Member{
					Name:  "arguments",
					Value: mcp.RawJSON(`{"text":"` + strings.Repeat("x", size) + `"}`),
				})
				return c
			}
			first := large()
			go func() {
				_, err := r.tool("slow").Call(ctx, first)
				done <- err
			}()
			eventually(t, "its text is held", func() bool { return cfg.Memory.InUse() >= size })
			second := large()
			if _, err := r.tool("echo").Call(t.Context(), second); !errors.Is(err, share.ErrUser) ||
				errors.As(err, new(*registry.MemoryError)) {
				t.Errorf(
					"a second one: got error %v, want that of the user's share, as of a call that was not made", cause(err))
			}
			leave()
			await(t, done)
			eventually(t, "nothing is held any more", func() bool { return cfg.Memory.InUse() == 0 })
		})
	}
}
