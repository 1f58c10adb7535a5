package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestTrap09_NothingCrossesBetweenCallers lets two users of each of two tenants call at
// once, be asked and hear log messages. All sessions use the same ids.
func TestTrap09_NothingCrossesBetweenCallers(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() upstream.Config{
		"HTTP":  func() upstream.Config { return (&chat{streams: true}).config() },
		"stdio": func() upstream.Config { return command("chat") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, cfg())
			r.untilTool("who")
			var (
				mu     sync.Mutex // guards the field below
				owners = map[string]string{}
				work   sync.WaitGroup
			)
			for _, p := range []person{
				{"a", "alice", anyQuestion, "debug"},
				{"a", "bob", anyQuestion, "debug"},
				{"b", "alice", anyQuestion, "debug"},
				{"b", "bob", anyQuestion, "debug"},
			} {
				for lane := range 2 {
					work.Go(func() {
						for i := range 50 {
							token := fmt.Sprintf("%s-%s-%d-%d", p.tenant, p.name, lane, i)
							session, err := r.who(p, token)
							if err != nil {
								t.Errorf("%s: %v", token, err)
								return
							}
							mu.Lock()
							if owner, known := owners[session]; known && owner != p.tenant+p.name {
								t.Errorf("session %s served %s and %s", session, owner, p.tenant+p.name)
							}
							owners[session] = p.tenant + p.name
							mu.Unlock()
						}
					})
				}
			}
			work.Wait()
			if len(owners) < 4 {
				t.Errorf("sessions: got %v, want one for each caller at least", owners)
			}
		})
	}
}

// who plays a call whose question, log messages and result must all be its own.
func (r *rig) who(p person, token string) (session string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	heard := &notes{}
	asked, state, got, err := r.round(ctx, "who", p.call(r.t, token, "", "", heard))
	if err != nil {
		return "", fmt.Errorf("first round: %w (%s)", err, cause(err))
	}
	if asked.Len() != 1 || !strings.Contains(string(asked.JSON()), `"message":"`+token+`"`) {
		return "", fmt.Errorf("asked %s, got %q", asked.JSON(), got)
	}
	_, _, got, err = r.round(ctx, "who", p.call(r.t, token, accept(asked, token), state, heard))
	if err != nil {
		return "", fmt.Errorf("second round: %w (%s)", err, cause(err))
	}
	words := strings.Fields(got)
	if len(words) != 3 || words[1] != token || !strings.Contains(words[2], `{"is":"`+token+`"}`) {
		return "", fmt.Errorf("result %s", got)
	}
	if logged := heard.text(); logged != token+" "+token {
		return "", fmt.Errorf("log messages %q", logged)
	}
	return words[0], nil
}

// TestTrap25_ProgressTokensOfCallersMayBeEqual lets two callers of one session use the
// same token, as text and number.
func TestTrap25_ProgressTokensOfCallersMayBeEqual(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() upstream.Config{
		"HTTP":  func() upstream.Config { return (&chat{}).config() },
		"stdio": func() upstream.Config { return command("chat") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, cfg())
			r.untilTool("move")
			var work sync.WaitGroup
			used := make(chan string, 60)
			for i := range cap(used) {
				token := []string{`1`, `"1"`}[i%2]
				work.Go(func() {
					mine := fmt.Sprint("mine-", i)
					heard := 0
					result, err := r.call(context.Background(), "move",
						`{"arguments":{"token":"`+mine+`"},"_meta":{"progressToken":`+token+
							`}}`, func(n mcp.Notification) {
							if got := string(n.Params.Value("progressToken")); got != token ||
								n.Params.Text("message") != mine {
								t.Errorf("%s: got token %s of %s", mine, got, n.Params.Text("message"))
							}
							heard++
						})
					if err != nil || heard != 5 {
						t.Errorf("%s: got %d notifications, %v", mine, heard, err)
					}
					used <- text(result)
				})
			}
			work.Wait()
			close(used)
			seen := map[string]bool{}
			for token := range used {
				if seen[token] {
					t.Errorf("token %s was sent to the server twice", token)
				}
				seen[token] = true
			}
		})
	}
}

// TestSessionsOfPlainCalls shows who shares a session when nobody can be asked.
func TestSessionsOfPlainCalls(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		s := &chat{streams: true}
		inBubble(t, s, func(cfg *upstream.Config) { cfg.Shared = shared }, func(t *testing.T, r *rig) {
			session := func(p person) string {
				_, _, got, err := r.round(t.Context(), "answers", p.call(t, "", "", "", nil))
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			alice, bob := session(person{tenant: "a", name: "alice"}),
				session(person{tenant: "a", name: "bob"})
			other := session(person{tenant: "b", name: "alice"})
			askable := session(person{tenant: "a", name: "alice", asks: anyQuestion})
			if alice != bob || (alice == other) != shared || askable == alice ||
				(alice == "session-1") != shared {
				t.Errorf("shared %v: got %s, %s, other tenant %s, who can be asked %s", shared, alice, bob,
					other, askable)
			}
			synctest.Wait()
			want := 4 // of the lists, of each tenant, and of who can be asked
			if shared {
				want = 2
			}
			if got := len(s.sights("GET")); got != want {
				t.Errorf("shared %v: got %d streams, want %d, one of each session", shared, got, want)
			}
		})
	}
}

// TestIdleSessionsAreClosed waits.
func TestIdleSessionsAreClosed(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		for range 3 {
			if _, _, _, err := r.round(t.Context(), "answers", person{tenant: "a"}.call(t, "", "", "",
				nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Minute)
			synctest.Wait()
			if got := len(s.sights("DELETE")); got != 0 {
				t.Fatalf("closed after 4 minutes")
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := s.sights("DELETE"); len(got) != 1 || got[0].session != "session-2" {
			t.Errorf("closed: got %v, want the session of the calls", got)
		}
		if _, _, got, err := r.round(t.Context(), "answers", person{tenant: "a"}.call(t, "", "", "",
			nil)); err != nil || got != "session-3" {
			t.Errorf("after that: got %q, %v", got, err)
		}
	})
}

// TestSessionsHaveALimit opens as many as may be, and one more, which the longest idle
// one makes room for.
func TestSessionsHaveALimit(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		for i := range 65 {
			if _, _, _, err := r.round(t.Context(), "answers", person{tenant: fmt.Sprint(i)}.call(t, "", "",
				"", nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := s.sights("DELETE"); len(got) != 1 || got[0].session != "session-2" {
			t.Errorf("closed: got %v, want the first", got)
		}
	})
}

// children returns how many processes run with that variable, without their keepers.
func children(marker string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		line, _ := os.ReadFile(filepath.Dir(path) + "/cmdline") // none when it has just ended
		keeper := strings.Contains(string(line), "\x00"+keepWord+"\x00")
		if env, err := os.ReadFile(path); err == nil && strings.Contains(string(env), "MARKER="+marker) &&
			!keeper {
			n++
		}
	}
	return n
}

// TestChildrenHaveALimit runs more callers than there may be children, all of whom can be
// asked.
func TestChildrenHaveALimit(t *testing.T) {
	t.Parallel()
	cfg := command("chat")
	cfg.MaxChildren = 3
	marker := fmt.Sprint(time.Now().UnixNano())
	cfg.Env["MARKER"] = marker
	r := start(t, cfg)
	r.untilTool("who")
	var work sync.WaitGroup
	for i := range 6 {
		work.Go(func() {
			for n := range 3 {
				if _, err := r.who(person{"a", fmt.Sprint("user-", i), anyQuestion, "debug"},
					fmt.Sprint(i, "-", n)); err != nil {
					t.Error(err)
				}
				if got := children(marker); got > 3 || got < 1 {
					t.Errorf("children: got %d, want 3 at most", got)
				}
			}
		})
	}
	work.Wait()
	for _, p := range []person{{"a", "x", anyQuestion, ""}, {"a", "y", anyQuestion, ""}} {
		if asked, _ := r.first("late", p); asked.Len() != 1 {
			t.Errorf("%s: not asked", p.name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := r.round(ctx, "who", person{"b", "z", anyQuestion, ""}.call(t, "", "", "",
		nil)); !isNotSent(err) {
		t.Errorf("with all children busy: got %v, want unavailable, not sent", err)
	}
	r.stop()
	if got := children(marker); got != 0 {
		t.Errorf("children after the end: got %d", got)
	}
}

// TestOneChildServesNoCalls shows the least limit, under which only a shared session
// serves.
func TestOneChildServesNoCalls(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		cfg := command("chat")
		cfg.MaxChildren, cfg.Shared = 1, shared
		r := start(t, cfg)
		r.untilTool("answers")
		_, _, _, err := r.round(t.Context(), "answers", person{tenant: "a"}.call(t, "", "", "", nil))
		if shared && err != nil || !shared && !isNotSent(err) {
			t.Errorf("shared %v: got %v", shared, err)
		}
	}
}

// TestDeadSessionIsReplaced kills the child of a call. The upstream stays up.
func TestDeadSessionIsReplaced(t *testing.T) {
	t.Parallel()
	r := start(t, command("chat"))
	r.untilTool("die")
	for range 2 {
		for _, asks := range []string{"", anyQuestion} {
			p := person{tenant: "a", name: "alice", asks: asks}
			if _, _, _, err := r.round(t.Context(), "die", p.call(t, "", "", "", nil)); kindOf(mcp.Object{},
				err) != "sent" {
				t.Errorf("killed in a call: got %v, want unavailable, sent", err)
			}
			eventually(t, "another child serves", func() bool {
				_, _, _, err := r.round(t.Context(), "answers", p.call(t, "", "", "", nil))
				return err == nil
			})
		}
	}
	if s := r.last(); !s.Up || s.Restarts != 0 {
		t.Errorf("status: got %+v, want up all the time", s)
	}
}

// TestLogLevels shows which level a server is asked for, and which messages reach whom.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		logged := func(level, asks string) string {
			heard := &notes{}
			p := person{tenant: "a", name: "alice", asks: asks, level: level}
			if _, _, got, err := r.round(t.Context(), "log", p.call(t, "m", "", "", heard)); err != nil ||
				got != "logged" {
				t.Fatalf("got %q, %v", got, err)
			}
			return heard.text()
		}
		for _, asks := range []string{"", anyQuestion} {
			before := len(s.sights("logging/setLevel"))
			for _, step := range []struct {
				level, want string
				asked       int // levels so far
			}{
				{"", "", 0}, {"warning", "m m", 1}, {"error", "m", 1}, {"debug", "m m m m", 2}, {
					"warning",
					"m m", 2,
				}, {"", "", 2},
			} {
				got := logged(step.level, asks)
				if asked := len(s.sights("logging/setLevel")) - before; got != step.want ||
					asked != step.asked {
					t.Errorf("level %q, asks %q: got %q and %d levels, want %q and %d", step.level, asks, got,
						asked, step.want, step.asked)
				}
			}
		}
		last := s.sights("logging/setLevel")[1].m.Params.Text("level")
		s.forget()
		if got := logged("debug", ""); got != "m m m m" {
			t.Errorf("after the session was forgotten: got %q", got)
		}
		if again := s.sights("logging/setLevel"); len(again) != 5 || again[4].m.Params.Text("level") != last {
			t.Errorf("the new session was not set to %s: %v", last, again)
		}
	})
}

// TestLogLinesOfAServerThatDeclaresNoneReachWhoeverWantsThem has two users of a tenant
// call at once whose clients cannot be asked anything. The servers log without declaring
// it, as all made with the Python SDK do. Only who wants log lines has a session for it.
func TestLogLinesOfAServerThatDeclaresNoneReachWhoeverWantsThem(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, r *rig) {
		var users sync.WaitGroup
		for _, p := range []person{
			{name: "alice", level: "info"},
			{name: "bob", level: "info"},
			{name: "carol"},
		} {
			users.Go(func() {
				p.tenant = "a"
				want := ""
				if p.level != "" {
					want = p.name + " " + p.name
				}
				for range 2 {
					heard := &notes{}
					if _, _, got, err := r.round(t.Context(), "log",
						p.call(t, p.name, "", "", heard)); err != nil || got != "ok" {
						t.Errorf("%s: got %q, %v", p.name, got, err)
					}
					if heard.text() != want {
						t.Errorf("%s: heard %q, want %q", p.name, heard.text(), want)
					}
				}
			})
		}
		users.Wait()
	}
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP+SSE, shared %v", shared), func(t *testing.T) {
			t.Parallel()
			fastBubble(t, &fastMCP{}, upstream.Config{URL: overStream, Shared: shared}, story)
		})
		t.Run(fmt.Sprintf("stdio, shared %v", shared), func(t *testing.T) {
			t.Parallel()
			cfg := command("fastmcp")
			cfg.Shared = shared
			r := start(t, cfg)
			r.untilTool("log")
			story(t, r)
		})
	}
	t.Run("stdio, no child for them", func(t *testing.T) {
		t.Parallel()
		cfg := command("fastmcp")
		cfg.Shared, cfg.MaxChildren = true, 1
		r := start(t, cfg)
		r.untilTool("log")
		if _, _, got, err := r.round(t.Context(), "log", person{tenant: "a", level: "debug"}.call(t, "m", "",
			"", nil)); err != nil || got != "ok" {
			t.Errorf("got %q, %v, want the call without its lines", got, err)
		}
	})
	t.Run("stdio, one user", func(t *testing.T) {
		t.Parallel()
		cfg := command("fastmcp")
		cfg.OneUser = true
		r := start(t, cfg)
		r.untilTool("log")
		heard := &notes{}
		if _, _, _, err := r.round(t.Context(), "log", person{tenant: "a", level: "info"}.call(t, "m", "", "",
			heard)); err != nil || heard.text() != "m m" {
			t.Errorf("heard %q, %v", heard.text(), err)
		}
	})
}

// TestLegacyResourcesAreFollowed subscribes, hears changes of a resource and of its
// parts, and loses the session.
func TestLegacyResourcesAreFollowed(t *testing.T) {
	t.Parallel()
	s := &chat{streams: true}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		heard := make(chan string, 100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, tenant := range []string{"a", "a", "b"} {
			ok, err := r.resource("file:///a").Subscribe(ctx, share.User{TenantID: tenant},
				func(uri string) { heard <- tenant + " " + uri })
			if !ok || err != nil {
				t.Fatalf("subscribe: got %v, %v", ok, err)
			}
		}
		if got := len(s.sights("resources/subscribe")); got != 2 {
			t.Errorf("subscriptions at the server: got %d, want one for each tenant", got)
		}
		updated := func(uri string) []string {
			s.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri +
				`"}}`)
			synctest.Wait()
			return drained(heard)
		}
		if got := updated("file:///a"); strings.Join(sorted(got),
			",") != "a file:///a,a file:///a,b file:///a" {
			t.Errorf("the resource: heard %q", got)
		}
		if got := updated("file:///a/part"); len(got) != 3 || got[0][2:] != "file:///a/part" {
			t.Errorf("a part: heard %q", got)
		}
		if got := updated("file:///ab"); len(got) != 0 {
			t.Errorf("another resource: heard %q", got)
		}
		s.forget()
		if _, _, _, err := r.round(t.Context(), "answers", person{tenant: "a"}.call(t, "", "", "",
			nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // of which the server has half for itself
		synctest.Wait()
		if got := drained(heard); len(got) != 2 {
			t.Errorf("after the session of a tenant was opened again: heard %q, want a change for each", got)
		}
		if got := updated("file:///a"); len(got) < 2 {
			t.Errorf("in the new session: heard %q", got)
		}
		cancel()
		synctest.Wait()
		if got := len(s.sights("resources/unsubscribe")); got < 2 { // one comes again under a new session
			t.Errorf("subscriptions that ended: got %d, want that of each tenant", got)
		}
	})
}

// TestSharedSessionFollowsAResourceOnce has two tenants follow one resource at a server
// with one session for all. The server is asked once, and told when the last of them
// leaves.
func TestSharedSessionFollowsAResourceOnce(t *testing.T) {
	t.Parallel()
	s := &chat{streams: true}
	inBubble(t, s, func(cfg *upstream.Config) { cfg.Shared = true }, func(t *testing.T, r *rig) {
		heard, leave := make(chan string, 100), map[string]func(){}
		for _, tenant := range []string{"a", "b"} {
			ctx, cancel := context.WithCancel(t.Context())
			leave[tenant] = cancel
			ok, err := r.resource("file:///a").Subscribe(ctx, share.User{TenantID: tenant},
				func(uri string) { heard <- tenant + " " + uri })
			if !ok || err != nil {
				t.Fatalf("subscribe: got %v, %v", ok, err)
			}
		}
		leave["a"]()
		synctest.Wait()
		s.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated",` +
			`"params":{"uri":"file:///a"}}`)
		synctest.Wait()
		asked, told := len(s.sights("resources/subscribe")), len(s.sights("resources/unsubscribe"))
		if got := drained(heard); strings.Join(got, ",") != "b file:///a" || asked != 1 || told != 0 {
			t.Errorf("one has left: heard %q, %d subscriptions and %d ends, want b, 1 and 0", got, asked, told)
		}
		leave["b"]()
		synctest.Wait()
		if told = len(s.sights("resources/unsubscribe")); told != 1 {
			t.Errorf("both have left: got %d ends, want 1", told)
		}
	})
}

func drained(from <-chan string) (all []string) {
	for {
		select {
		case one := <-from:
			all = append(all, one)
		default:
			return all
		}
	}
}

// TestForgottenSessionOfCallsIsReopened ends the sessions under calls. What ran nowhere
// runs once under the new one.
func TestForgottenSessionOfCallsIsReopened(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		for _, asks := range []string{"", anyQuestion} {
			p := person{tenant: "a", name: "alice", asks: asks}
			for range 2 {
				if _, _, _, err := r.round(t.Context(), "answers", p.call(t, "", "", "", nil)); err != nil {
					t.Fatal(err)
				}
				s.forgetCalls()
			}
		}
		served, letters := "", map[string]string{} // in the order of their first call
		for _, one := range s.sights("tools/call") {
			if letters[one.session] == "" {
				letters[one.session] = string(rune('a' + len(letters)))
			}
			served += letters[one.session]
		}
		if served != "aabccd" {
			t.Errorf("sessions of the calls: got %s", served)
		}
	})
}

var _ http.RoundTripper = (*chat)(nil)
