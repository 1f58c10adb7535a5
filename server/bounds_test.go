package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestUpdatesOfListenAreBounded lets many parts of a resource change before the stream
// that tells of them is open.
func TestUpdatesOfListenAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := (&forms{}).source()
		s.Subscribe = func(_ context.Context, _ share.User, _ string, updated func(string), _ func()) error {
			for n := range 5000 {
				updated(fmt.Sprintf("file:///a/%d", n))
			}
			return nil
		}
		for _, refusal := range w.registry.Replace(s) {
			t.Fatalf("refused: %+v", refusal)
		}
		m := modernListen()
		m.body = strings.Replace(m.body, `{"toolsListChanged":true}`,
			`{"resourceSubscriptions":["file:///a"]}`, 1)
		stream := w.follow(t, m)
		wait(t)
		w.EndStreams()
		got := <-stream
		if n := strings.Count(got, mcp.NotifyResourceUpdated); n != 1025 ||
			!strings.Contains(got, `"uri":"file:///a",`) {
			t.Errorf("got %d updates, want 1024 parts and the whole", n)
		}
	}, func(w *world) {
		w.tenants[0].Servers = []string{"box", "forms"}
		w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "resource:*"}}}
	})
}

// TestListenOpensAtTheRateOfCalls asks for more resources than the user may make calls at
// once, and for more than the client can be kept waiting for.
func TestListenOpensAtTheRateOfCalls(t *testing.T) {
	for count, want := range map[int]int{10: 10, 60: 2 + 20} {
		bubble(t, func(t *testing.T, w *world) {
			for _, refusal := range w.registry.Replace((&forms{}).source()) {
				t.Fatalf("refused: %+v", refusal)
			}
			uris := make([]string, count)
			for i := range uris {
				uris[i] = fmt.Sprintf(`"file:///%d"`, i)
			}
			m := modernListen()
			m.body = strings.Replace(m.body, `{"toolsListChanged":true}`,
				`{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`, 1)
			began := time.Now()
			stream := w.follow(t, m)
			time.Sleep(time.Minute)
			w.EndStreams()
			got := <-stream
			if n := strings.Count(got, `"file:///`); n < want-1 || n > want || time.Since(began) > 2*time.Minute {
				t.Errorf("%d resources: got %d, want %d:\n%s", count, n, want, got)
			}
		}, func(w *world) {
			w.tenants[0].Servers = []string{"box", "forms"}
			w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "resource:*"}}}
			w.tenants[0].Limits = gateway.Limits{UserCalls: &ratelimit.Limit{Rate: 1, Burst: 2}}
		})
	}
}

// TestWaitingForARateGetsLongerInVain has many attempts refused, for the time until the
// next token. Others may wait for the same one.
func TestWaitingForARateGetsLongerInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := mcp.Stable(mcp.CodeLimited, "DB-LIMIT-TENANT", "later").After(5 * time.Millisecond)
		for inVain, want := range map[int]time.Duration{
			0: 5 * time.Millisecond, 3: 8 * time.Millisecond, 60: 2 * time.Second,
		} {
			began := time.Now()
			if !exchange.AwaitRate(t.Context(), refused, inVain) || time.Since(began) != want {
				t.Errorf("after %d: waited for %v, want %v", inVain, time.Since(began), want)
			}
		}
	})
}

// TestQuestionsEndWithTheirIssuer lets the client answer when its issuer is not in force
// any more: whoever waits for the answer is told that none comes.
func TestQuestionsEndWithTheirIssuer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		asker, _ := w.asking()
		id := w.openAsking(t, mcp.Revision2511)
		question, answered := make(chan string, 1), make(chan string, 1)
		read := w.pipe(t, inSession("POST", id, askRoots))
		go func() {
			defer close(answered)
			buffer, all := make([]byte, 64<<10), ""
			for {
				n, err := read.Read(buffer)
				all += string(buffer[:n])
				if found := questionID.FindStringSubmatch(all); found != nil && len(question) == 0 {
					question <- found[1]
				}
				if err != nil || strings.Contains(all, `"id":1,`) {
					answered <- all
					return
				}
			}
		}()
		synctest.Wait()
		// the token of the call, not the next one
		w.refuse(func(p auth.Principal) bool { return time.Until(p.Expiry) < 90*time.Minute })
		w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":"`+<-question+
			`","result":{"roots":[]}}`).as("alice-again"))
		if got := <-answered; !strings.Contains(got, "DB-CANCELLED") || asker.endings() != 1 {
			t.Errorf("got %s and %d endings, want the call cancelled and its end told once", got,
				asker.endings())
		}
		w.do(t, inSession("DELETE", id, ""))
	})
}
