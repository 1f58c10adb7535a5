package wire

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// oneAnswer is a client of which every request gets the same answer.
type oneAnswer struct{ kind, body string }

func (o oneAnswer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {o.kind}},
		ContentLength: int64(len(o.body)),
		Body:          io.NopCloser(strings.NewReader(o.body)),
	}, nil
}

// answerOf returns an answer with a text of that many bytes.
func answerOf(size int) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", size) + `"}}`
}

// exchanges are the ways in which a message of a server comes in.
func exchanges(answer string, turns *fairqueue.Queue) map[string]func(context.Context,
	*Request) (mcp.Object, error) {
	overHTTP := func(kind, body string) func(context.Context, *Request) (mcp.Object, error) {
		return func(ctx context.Context, out *Request) (mcp.Object, error) {
			return NewHTTP(Site{
				URL:    &url.URL{Scheme: "http", Host: "server.invalid", Path: "/mcp"},
				Client: oneAnswer{kind, body}, Turns: turns,
				Credential: func(context.Context, *auth.Principal) (*credential.Headers, error) { return nil, nil },
			}, &eventRecorder{}).Exchange(ctx, out)
		}
	}
	return map[string]func(context.Context, *Request) (mcp.Object, error){
		"JSON":         overHTTP("application/json", answer),
		"event stream": overHTTP("text/event-stream", "data: "+answer+"\n\n"),
		"pipe": func(ctx context.Context, out *Request) (mcp.Object, error) {
			up := &eventRecorder{}
			link := newDuplex(up, reader{count: up.Count, turns: turns},
				Memory{Server: share.Server("tools")})
			link.out = sends(func(ctx context.Context, _ []byte) error {
				link.take(ctx, []byte(answer))
				return nil
			})
			return link.Exchange(ctx, out)
		},
	}
}

// TestLargeAnswersAreReadInTurn keeps the one slot busy: a large answer waits for it, a
// small one does not. Large ones were once read by as many goroutines as there were
// calls, and whoever called meanwhile waited behind all of them.
func TestLargeAnswersAreReadInTurn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"JSON", "event stream", "pipe"} {
		for size, waits := range map[int]bool{100: false, 1 << 20: true} {
			synctest.Test(t, func(t *testing.T) {
				turns := fairqueue.New(1)
				release, err := turns.Enter(t.Context(), share.User{TenantID: "loud"}, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				answered := false
				go func() {
					result, err := exchanges(answerOf(size), turns)[name](t.Context(),
						&Request{ID: "1", Method: mcp.MethodToolsCall})
					if err != nil || len(result.Text("text")) != size {
						t.Errorf("%s of %d bytes: got a text of %d bytes and error %v", name, size,
							len(result.Text("text")), err)
					}
					answered = true
				}()
				synctest.Wait()
				if answered == waits {
					t.Errorf("%s of %d bytes, while the slot is held: answered is %t", name, size, answered)
				}
				release()
				synctest.Wait()
				if !answered || turns.Busy() != 0 {
					t.Errorf("%s of %d bytes, afterwards: answered is %t, and %d slots are held", name, size,
						answered, turns.Busy())
				}
			})
		}
	}
}

// TestCallsEndWhileTheirAnswerWaitsForItsTurn cancels a call whose answer waits to be
// read.
func TestCallsEndWhileTheirAnswerWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"JSON", "event stream", "pipe"} {
		synctest.Test(t, func(t *testing.T) {
			turns := fairqueue.New(1)
			release, err := turns.Enter(t.Context(), share.User{TenantID: "loud"}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			ctx, cancel := context.WithCancel(t.Context())
			var got error
			go func() {
				_, got = exchanges(answerOf(1<<20), turns)[name](ctx,
					&Request{ID: "1", Method: mcp.MethodToolsCall})
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			if got != context.Canceled || len(turns.Waiting()) != 0 { //nolint:errorlint // nothing may be around it
				t.Errorf("%s: got error %v, and %v wait", name, got, turns.Waiting())
			}
		})
	}
}

// BenchmarkLargeAnswer reads an answer of 15 MB. B/op is what is allocated for it, and
// how often its bytes are copied shows there.
func BenchmarkLargeAnswer(b *testing.B) {
	for _, name := range []string{"JSON", "event stream"} {
		b.Run(name, func(b *testing.B) {
			exchange := exchanges(answerOf(15<<20), fairqueue.New(0))[name]
			b.ReportAllocs()
			b.SetBytes(15 << 20)
			for b.Loop() {
				if _, err := exchange(b.Context(),
					&Request{ID: "1", Method: mcp.MethodToolsCall}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
