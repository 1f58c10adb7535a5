package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/once"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// unlike opens two replicas with the same keys, log and answers, of which the config of
// the second is narrower. Their lists have two pages.
func unlike(t *testing.T, narrower func(b *world)) (a, b *world) {
	t.Helper()
	ring, log, answers := seal.RandomRing(), eventlog.NewMemory(eventlog.MemoryConfig{}),
		once.NewMemory(share.New(64<<20))
	records, hub := &primarytest.Store{}, &replicatest.Hub{}
	open := func(change func(*world)) *world {
		w := newWorld(t, func(w *world) {
			w.config.Seal, w.config.Log, w.config.Entries, w.config.Once = ring, log, records, answers
			w.config.Others = hub.Join()
			w.tenants[0].Servers = []string{"box", "forms"}
			change(w)
		})
		w.offer(t, many()...)
		for _, refusal := range w.registry.Replace((&forms{}).source()) {
			t.Fatalf("refused: %+v", refusal)
		}
		return w
	}
	return open(func(*world) {}), open(narrower)
}

// many returns names of as many tools as have no place on one page.
func many() []string {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%04d", i)
	}
	return names
}

// sealedAt is what a client carries away from a replica.
type sealedAt struct{ session, cursor, state string }

var (
	nextCursor   = regexp.MustCompile(`"nextCursor":"([^"]+)"`)
	requestState = regexp.MustCompile(`"requestState":"([^"]+)"`)
)

const signMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// sign calls the tool that asks; rest is what a repeat has besides.
func sign(rest string) message {
	m := modernCall("sign")
	m.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sign",` + rest + signMeta + `}}`
	return m
}

func page(cursor string) message {
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + cursor + `",` +
			modernMeta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607,
			mcp.HeaderMethod:          mcp.MethodToolsList,
		},
	}
}

// sealed gathers what a may give to its client, and keeps the answer of a call under the
// key k.
func (w *world) sealed(t *testing.T) (s sealedAt) {
	t.Helper()
	find := func(pattern *regexp.Regexp, m message) string {
		text := w.do(t, m).Body.String()
		found := pattern.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %v in %s", pattern, text)
		}
		return found[1]
	}
	list := page("")
	list.body = strings.Replace(list.body, `"cursor":"",`, "", 1)
	s.session, s.cursor, s.state = w.open(t, "alice", mcp.Revision2511), find(nextCursor, list),
		find(requestState, sign(""))
	if got := w.do(t, keyedCall("echo", "k")); got.Code != http.StatusOK {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	return s
}

// uses uses at this replica all that was sealed at another.
func (w *world) uses(t *testing.T, s sealedAt) map[string]*httptest.ResponseRecorder {
	t.Helper()
	echo := inSession("POST", s.session, strings.Replace(modernCall("echo").body, modernMeta, `"_meta":{}`,
		1))
	return map[string]*httptest.ResponseRecorder{
		"session": w.do(t, echo),
		"cursor":  w.do(t, page(s.cursor)),
		"state": w.do(t, sign(`"requestState":"`+s.state+
			`","inputResponses":{"who":{"action":"accept","content":{"name":"Ann"}}},`)),
		"answer": w.do(t, keyedCall("echo", "k")),
	}
}

// TestWhatIsSealedCarriesNoRight carries what one replica gave out to another whose
// config allows less.
func TestWhatIsSealedCarriesNoRight(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		narrower func(*world)
		want     map[string]string // texts in the answers of the second
		status   int
	}{
		"the same config": {
			func(*world) {},
			map[string]string{
				"session": `"text":"x"`, "cursor": `"name":"slow"`, "state": "accept Ann",
				"answer": `"text":"x"`,
			},
			http.StatusOK,
		},
		"its rules lack the tools": {
			func(b *world) { b.tenants[0].Rules = []gateway.Rule{{Allow: []string{"fails", "rich"}}} },
			// the primary of the session may
			map[string]string{
				"session": `"text":"x"`, "cursor": "DB-CURSOR", "state": "DB-TOOL",
				"answer": "DB-TOOL",
			},
			http.StatusOK,
		},
		"its tenant lacks the servers": {
			func(b *world) { b.tenants[0].Servers = nil },
			// the primary of the session may
			map[string]string{
				"session": `"text":"x"`, "cursor": "DB-CURSOR", "state": "DB-TOOL",
				"answer": "DB-TOOL",
			},
			http.StatusOK,
		},
		"it has no such tenant": {
			func(b *world) { b.tenants = b.tenants[1:] },
			map[string]string{
				"session": "DB-TENANT", "cursor": "DB-TENANT", "state": "DB-TENANT",
				"answer": "DB-TENANT",
			},
			http.StatusForbidden,
		},
		"it has no such issuer": {
			func(b *world) {
				b.revoked = func(
					p auth.Principal,
				) bool {
					return p.Issuer == "https://issuer.test"
				}
			},
			map[string]string{
				"session": "DB-AUTH-TOKEN", "cursor": "DB-AUTH-TOKEN", "state": "DB-AUTH-TOKEN",
				"answer": "DB-AUTH-TOKEN",
			},
			http.StatusUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := unlike(t, test.narrower)
			s := a.sealed(t)
			for what, got := range b.uses(t, s) {
				text := got.Body.String()
				if got.Code != test.status || !strings.Contains(text, test.want[what]) {
					t.Errorf("%s: got %d %.300s, want %d %s", what, got.Code, text, test.status,
						test.want[what])
				}
				if name != "the same config" && what != "session" && (strings.Contains(text, `"text":"x"`) ||
					strings.Contains(text, "Ann") || strings.Contains(text, `"name":"slow"`)) {
					t.Errorf("%s: got %.300s, which the config of this replica denies", what, text)
				}
			}
			if got := a.do(t, keyedCall("echo", "k")); !strings.Contains(got.Body.String(), `"text":"x"`) {
				t.Errorf("where it may: got %d %s", got.Code, got.Body)
			}
		})
	}
}

// TestARevokedCallerKeepsNoStreamElsewhere opens streams and calls at two replicas, and
// takes from the caller what it was accepted by, at one after the other. Each ends what
// it has within a second, and nothing of others.
func TestARevokedCallerKeepsNoStreamElsewhere(t *testing.T) {
	hers := func(p auth.Principal) bool { return p.Subject == "alice" && p.TenantID == "acme" }
	for name, revoke := range map[string]func(*testing.T, *world){
		"its key or issuer": func(_ *testing.T, w *world) { w.revoke(hers) },
		"its tenant":        func(t *testing.T, w *world) { w.setTenants(t, w.tenants[1:]); w.Reauthorize() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := unlike(t, func(*world) {})
				for i, w := range []*world{a, b} {
					other, id := []*world{b, a}[i], w.open(t, "alice", mcp.Revision2511)
					body := strings.Replace(legacyCall(id, "slow").body, `"id":1`,
						fmt.Sprintf(`"id":%d`, i+1), 1)
					hersHere := []<-chan string{
						w.follow(t, inSession("GET", id, "")),
						w.follow(t, inSession("POST", id, body)), w.follow(t, modernCall("slow")),
					}
					elsewhere := other.follow(t, modernCall("slow").as("outsider"))
					wait(t)
					for n, stream := range hersHere {
						if isOver(stream) {
							t.Fatalf("at replica %d, %d of 3 is not open before anything is revoked", i, n)
						}
					}
					began := time.Now()
					revoke(t, w)
					for _, ended := range hersHere {
						if got := <-ended; strings.Contains(got, "late") {
							t.Errorf("a revoked caller got %s", got)
						}
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("it took %v, want a second at most", took)
					}
					other.letGo()
					if got := <-elsewhere; !strings.Contains(got, "late") {
						t.Errorf("another caller at the other replica got %s, want the result", got)
					}
					if got := w.do(t, inSession("POST", id, pingBody)); got.Code != http.StatusUnauthorized &&
						got.Code != http.StatusForbidden {
						t.Errorf("the session here: got %d", got.Code)
					}
				}
			})
		})
	}
}

// TestARevokedCallerIsToldThatItsForwardedCallEnded has it revoked where the call came
// in.
func TestARevokedCallerIsToldThatItsForwardedCallEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := unlike(t, func(*world) {})
		call := b.follow(t, legacyCall(a.open(t, "alice", mcp.Revision2511), "slow"))
		<-time.After(time.Millisecond) // before the answer becomes a stream, which is resumed
		b.revoke(func(auth.Principal) bool { return true })
		if got := <-call; !strings.Contains(got, "DB-CANCELLED") {
			t.Errorf("got %s, want DB-CANCELLED", got)
		}
		a.letGo()
	})
}

// isOver tells whether a stream has ended.
func isOver(stream <-chan string) bool {
	select {
	case <-stream:
		return true
	default:
		return false
	}
}
