package openapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// oneAnswer is an API of which every request gets the same answer.
type oneAnswer string

func (o oneAnswer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(string(o))),
	}, nil
}

// TestLargeAnswersTakeTurnsAtOnce keeps the one slot busy: a large answer waits for it, a
// small one does not. Large ones once became results in as many goroutines as there were
// calls, and whoever called meanwhile waited behind them.
func TestLargeAnswersTakeTurnsAtOnce(t *testing.T) {
	t.Parallel()
	document := issues(t)
	for size, waits := range map[int]bool{100: false, 1 << 20: true} {
		synctest.Test(t, func(t *testing.T) {
			turns := fairqueue.New(1)
			client := oneAnswer(`["` + strings.Repeat("x", size) + `"]`)
			tools, _ := load(t, openapi.Config{
				Name: "issues", Document: document, BaseURL: "http://api.invalid",
				Include: []string{"issues/get"}, Client: client, Turns: turns,
			})
			leave, err := turns.Enter(t.Context(), share.User{TenantID: "loud"}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			answered := false
			go func() {
				result, err := tools["issues_get"].Call(t.Context(), &registry.Call{
					Method: mcp.MethodToolsCall,
					Params: mcp.NewObject(mcp.Member{
						Name:  "arguments",
						Value: mcp.RawJSON(`{"owner":"o","repo":"r","number":1}`),
					}),
				})
				if err != nil || len(result.Value("structuredContent")) != size+4 {
					t.Errorf("%d bytes: got %.300s and error %v", size, result.JSON(), err)
				}
				answered = true
			}()
			synctest.Wait()
			if answered == waits {
				t.Errorf("%d bytes, while the slot is held: answered is %t", size, answered)
			}
			leave()
			synctest.Wait()
			if !answered || turns.Busy() != 0 {
				t.Errorf("%d bytes, afterwards: answered is %t, and %d slots are held", size, answered,
					turns.Busy())
			}
		})
	}
}

// TestManyIntegersTakeTurnsAtOnce keeps the one slot busy: to look for integers in large
// arguments waits for it, whoever leaves meanwhile sends nothing, and small ones do not
// wait.
func TestManyIntegersTakeTurnsAtOnce(t *testing.T) {
	t.Parallel()
	document := operation("/x", `"requestBody":{"content":{"application/json":{"schema":{
		"type":"array","items":{"type":"integer"}}}}}`)
	document = []byte(strings.Replace(string(document), `"get"`, `"post"`, 1))
	for count, waits := range map[int]bool{1: false, 100_000: true} {
		synctest.Test(t, func(t *testing.T) {
			turns := fairqueue.New(1)
			tools, _ := load(t, openapi.Config{
				Name: "issues", Document: document, BaseURL: "http://api.invalid", Include: []string{"op"},
				Client: oneAnswer(`1`), Turns: turns,
			})
			leave, err := turns.Enter(t.Context(), share.User{TenantID: "loud"}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := tools["op"].Call(ctx, &registry.Call{
					Method: mcp.MethodToolsCall,
					Params: mcp.NewObject(mcp.Member{
						Name:  "arguments",
						Value: mcp.RawJSON(`{"body":[` + strings.Repeat("1.0,", count) + `2.0]}`),
					}),
				})
				ended <- err
			}()
			synctest.Wait()
			if len(ended) == 1 == waits {
				t.Errorf("%d integers, while the slot is held: ended is %t", count, len(ended) == 1)
			}
			cancel()
			if err := <-ended; (err != nil) != waits || waits && !errors.Is(err, context.Canceled) {
				t.Errorf("%d integers: got %v", count, err)
			}
		})
	}
}
