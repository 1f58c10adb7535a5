package upstream_test

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const grace = 30 * time.Second

// outage opens a server in a bubble, with a grace, and lets it die. The story begins at
// the moment of the loss.
func outage(t *testing.T, s *wired, story func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := s.config()
		cfg.Grace = grace
		r := start(t, cfg)
		synctest.Wait()
		if !r.last().Up {
			t.Fatalf("status: got %+v, want up", r.last())
		}
		s.die(t, r)
		story(t, r)
		r.stop()
	})
}

// die lets a server die and waits until that is noticed, which a call that fails brings
// about at once.
func (s *wired) die(t *testing.T, r *rig) {
	t.Helper()
	s.state.Store(dead)
	if _, err := r.call(t.Context(), "tool", `{}`, nil); err == nil {
		t.Fatal("the call that finds the server dead: got no error")
	}
	synctest.Wait()
	if r.last().Up {
		t.Fatal("up, want down")
	}
}

func listsOf(r *rig) bool { return r.view().Lists(r.name) }

// TestARestartIsNoChange lets servers of both eras come back within the grace, with the
// same items.
func TestARestartIsNoChange(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := &wired{web: web{modern: modern}}
		outage(t, s, func(t *testing.T, r *rig) {
			before, changed := r.reg.Catalogue(), r.reg.Changed()
			held := r.tool("tool")
			lost := r.last()
			if lost.Failed != 0 || lost.Lost != lost.Problem {
				t.Errorf("modern %v: status: got %+v, want that it was lost and not tried again", modern, lost)
			}
			since := lost.Since
			if took := time.Since(since); took > time.Second {
				t.Errorf("modern %v: down since %v before it was noticed", modern, took)
			}
			_, err := held.Call(t.Context(), request(t, `{}`, nil))
			down, ok := errors.AsType[*registry.DownError](err)
			if !ok || !down.Outage.Since.Equal(since) || !down.Outage.Reached {
				t.Errorf("modern %v: call: got %v, want that the server is down since %v", modern, err, since)
			}
			time.Sleep(grace - 20*time.Second) // attempts are at most 30 s apart, these less
			s.state.Store(answering)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if got := r.last(); !got.Up || got.Restarts != 1 || !got.Since.IsZero() {
				t.Fatalf("modern %v: status: got %+v, want up again", modern, got)
			} else if got.Failed == 0 || got.Lost != lost.Problem {
				t.Errorf("modern %v: status: got %+v, want why it was lost and attempts that failed", modern, got)
			}
			time.Sleep(2 * grace) // longer than what is left of the first grace
			synctest.Wait()
			select {
			case <-changed:
				t.Errorf("modern %v: the catalogue changed", modern)
			default:
			}
			if r.reg.Catalogue() != before || !listsOf(r) {
				t.Errorf("modern %v: another catalogue, or the items are in no list", modern)
			}
			if _, err := held.Call(t.Context(), request(t, `{}`, nil)); err != nil {
				t.Errorf("modern %v: call of the tool that was held: %v", modern, err)
			}
		})
	}
}

// TestItemsLeaveTheListsAfterTheGrace lets a server stay away for longer, and come back
// with another list.
func TestItemsLeaveTheListsAfterTheGrace(t *testing.T) {
	t.Parallel()
	var more atomic.Bool
	s := &wired{}
	s.list = func(w http.ResponseWriter, m wire) {
		second := ""
		if more.Load() {
			second = `,{"name":"second","inputSchema":{"type":"object"}}`
		}
		sendJSON(w, m.ID, `{"tools":[{"name":"tool","inputSchema":{"type":"object"}}`+second+`]}`)
	}
	outage(t, s, func(t *testing.T, r *rig) {
		since := r.last().Since
		time.Sleep(time.Until(since.Add(grace - time.Millisecond)))
		synctest.Wait()
		if !listsOf(r) {
			t.Error("the items left the lists before the grace was over")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if listsOf(r) {
			t.Error("the items are in the lists after the grace")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.last(); !got.Since.Equal(since) {
			t.Errorf("an hour later it is down since %v, want %v", got.Since, since)
		}
		if _, err := r.call(t.Context(), "tool", `{}`, nil); kindOf(mcp.Object{}, err) != "not sent" {
			t.Errorf("call after an hour: got %v, want that the server is down", err)
		}
		more.Store(true)
		s.state.Store(answering)
		time.Sleep(backoffLimit)
		synctest.Wait()
		if got := r.tools(); !slices.Equal(got, []string{"second", "tool"}) {
			t.Errorf("back again: got %q, want both tools", got)
		}
		s.die(t, r) // the second outage has a grace of its own
		time.Sleep(grace / 2)
		synctest.Wait()
		if !listsOf(r) {
			t.Error("the items left the lists at once when the server was lost again")
		}
	})
}

// backoffLimit is more than the longest pause between two attempts to connect.
const backoffLimit = 31 * time.Second

// TestAServerThatIsBackIsNotPoorerForAMoment lets a server come back whose other lists
// take longer than its tools, and once more with lists that it cannot give.
func TestAServerThatIsBackIsNotPoorerForAMoment(t *testing.T) {
	t.Parallel()
	var slow, broken atomic.Bool
	s := &wired{web: web{declares: `{"tools":{},"prompts":{},"resources":{}}`}}
	answer := func(text string) func(http.ResponseWriter, *http.Request, wire) {
		return func(w http.ResponseWriter, _ *http.Request, m wire) {
			if slow.Load() {
				time.Sleep(5 * time.Second) // in the bubble
			}
			if broken.Load() {
				sendError(w, 200, m.ID, -32603, "not now")
				return
			}
			sendJSON(w, m.ID, text)
		}
	}
	s.other = map[string]func(http.ResponseWriter, *http.Request, wire){
		"prompts/list":   answer(`{"prompts":[{"name":"p"}]}`),
		"resources/list": answer(`{"resources":[{"name":"r","uri":"file:///r"}]}`),
		"resources/templates/list": answer(
			`{"resourceTemplates":[{"name":"t","uriTemplate":"file:///{t}"}]}`),
	}
	outage(t, s, func(t *testing.T, r *rig) {
		changed := r.reg.Changed()
		if v := r.view(); len(v.Prompts) != 1 || len(v.Resources) != 1 || len(v.Templates) != 1 {
			t.Fatalf("got %d prompts, %d resources, %d templates; want one of each", len(v.Prompts),
				len(v.Resources), len(v.Templates))
		}
		slow.Store(true)
		s.state.Store(answering)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := r.last(); !got.Up || got.Tools != 1 || got.Prompts != 1 {
			t.Fatalf("status: got %+v, want up with the tools first, and the prompt of before", got)
		}
		time.Sleep(grace)
		synctest.Wait()
		if got := r.last(); got.Prompts != 1 || got.Resources != 1 || got.Templates != 1 {
			t.Fatalf("status: got %+v, want all there", got)
		}
		s.die(t, r)
		broken.Store(true)
		s.state.Store(answering)
		time.Sleep(grace)
		synctest.Wait()
		if got := r.last(); !got.Up || len(got.Refused) != 3 {
			t.Fatalf("status: got %+v, want three lists that cannot be read", got)
		}
		select {
		case <-changed:
			t.Error("the catalogue changed")
		default:
		}
	})
}

// TestWhatAServerOfferedOutlivesItsUpstream ends an upstream and runs another for the
// same server, as a reload does that changes a setting of it.
func TestWhatAServerOfferedOutlivesItsUpstream(t *testing.T) {
	t.Parallel()
	s := &wired{}
	outage(t, s, func(t *testing.T, r *rig) {
		since := r.last().Since
		time.Sleep(grace / 2)
		r.stop()
		time.Sleep(grace) // the upstream that ended does nothing any more
		synctest.Wait()
		if !listsOf(r) {
			t.Error("the items left the lists after the end of their upstream")
		}
		next := newRig(t, r.cfg, r.reg)
		next.run()
		synctest.Wait()
		if listsOf(r) || !next.last().Since.Equal(since) {
			t.Errorf("listed %v, down since %v; want the outage go on that began at %v", listsOf(r),
				next.last().Since, since)
		}
		s.state.Store(answering)
		time.Sleep(backoffLimit)
		synctest.Wait()
		if got := r.tools(); len(got) != 1 {
			t.Errorf("back again: got %q, want the tool", got)
		}
		next.stop()
	})
}

// TestAServerThatIsStartingIsDown asks for a server that was never reached.
func TestAServerThatIsStartingIsDown(t *testing.T) {
	t.Parallel()
	for _, state := range []int32{dead, hanging} {
		synctest.Test(t, func(t *testing.T) {
			s := &wired{}
			s.state.Store(state)
			cfg := s.config()
			cfg.Grace, cfg.Prefix = grace, "pre"
			began := time.Now()
			r := start(t, cfg)
			for range 2 {
				synctest.Wait()
				guess := r.view().Unreached(registry.KindTool, "pre__tool")
				if guess == nil {
					t.Fatal("the server's names are not known to be its own")
				}
				if down := guess.Down(); down == nil || down.Outage.Reached ||
					!down.Outage.Since.Equal(began) {
					t.Errorf("state %d: got %+v, want a server that was not reached since %v", state, down,
						began)
				}
				time.Sleep(time.Minute)
			}
			if got := r.last(); !got.Tried || !got.Since.Equal(began) {
				t.Errorf("state %d: status: got %+v, want down since %v", state, got, began)
			}
			r.stop()
		})
	}
}
