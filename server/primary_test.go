package server_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

func cancelOf(id string) message {
	return inSession("POST", id,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
}

// TestBothPrimariesOfADrainHearTheClient lets the primary of a session drain while it
// runs a call: another replica takes the session over, the call goes on, and what
// concerns it reaches both.
func TestBothPrimariesOfADrainHearTheClient(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, b *world, id string){
		"cancelled": func(t *testing.T, b *world, id string) {
			wantStatus(t, "cancel", b.do(t, cancelOf(id)), http.StatusAccepted)
		},
		"deleted": func(t *testing.T, b *world, id string) {
			wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2)
				a, b := c.worlds[0], c.worlds[1]
				id := a.openAsking(t, mcp.Revision2511)
				over := a.follow(t, legacyCall(id, "slow"))
				wait(t)
				a.DrainClients()
				wantStatus(t, "a ping", b.do(t, inSession("POST", id, pingBody).id("7")), http.StatusOK)
				if r, _ := c.records.Of(c.name(t, id)); r.Primary != b.config.Others.Self() {
					t.Errorf("got %s as primary, want the other replica", r.Primary)
				}
				if got := b.do(t, legacyCall(id, "echo")); got.Code != http.StatusBadRequest {
					t.Errorf("an id that is in use at the old primary: got %d %s, want 400", got.Code,
						got.Body)
				}
				wantStatus(t, "its level", b.do(t, inSession("POST", id, setLevel("error"))), http.StatusOK)
				wantStatus(t, "a ping at the old primary", a.do(t, inSession("POST", id, pingBody).id("8")),
					http.StatusOK)
				end(t, b, id)
				synctest.Wait()
				if _, cancelled := a.counts(); cancelled != 1 {
					t.Error("the call goes on at the old primary")
				}
				<-over
			})
		})
	}
}

// TestAnIDIsFreeWhenTheFormerPrimaryIsGone lets the replica end that led a session before
// and answers a call of it: its client may use the id of that call again.
func TestAnIDIsFreeWhenTheFormerPrimaryIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		over := a.follow(t, legacyCall(id, "slow"))
		wait(t)
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody).id("7")), http.StatusOK)
		wantStatus(t, "while the call runs", b.do(t, legacyCall(id, "echo")), http.StatusBadRequest)
		a.letGo()
		<-over
		c.hub.Leave(a.word().Member)
		wantStatus(t, "when its replica is gone", b.do(t, legacyCall(id, "echo")), http.StatusOK)
	})
}

// TestNoCallBeginsWhereAnotherReplicaLeadsByThen has a replica take a session over in the
// moment in which the one that led it has found that it does. The call is run by the new
// primary, which a client that cancels it reaches.
func TestNoCallBeginsWhereAnotherReplicaLeadsByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		wait(t) // what begins with the replicas is over
		a.word().Drain()
		a.word().said = func() {
			wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody).id("7")), http.StatusOK)
		}
		over := a.follow(t, legacyCall(id, "slow"))
		synctest.Wait()
		if began, _ := a.counts(); began != 0 {
			t.Error("the call began where the session was")
		}
		wantStatus(t, "cancel", b.do(t, cancelOf(id)), http.StatusAccepted)
		<-over
		if began, cancelled := b.counts(); began != 1 || cancelled != 1 {
			t.Errorf("at the new primary: got %d calls begun, %d cancelled; want 1, 1", began, cancelled)
		}
	})
}

// TestWhoWaitsForAFormerPrimaryTakesNoSlot lets requests of one tenant wait for a replica
// that led a session before and is not reached, as many as are answered at once.
func TestWhoWaitsForAFormerPrimaryTakesNoSlot(t *testing.T) {
	const most = 4
	for name, waits := range map[string]func(id string) message{
		"setLevel": func(id string) message { return inSession("POST", id, setLevel("error")) },
		"cancel":   cancelOf,
		"DELETE":   func(id string) message { return inSession("DELETE", id, "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2, func(w *world) { w.config.MaxRequests = most })
				a, b := c.worlds[0], c.worlds[1]
				var ids []string
				for range most {
					id := a.openAsking(t, mcp.Revision2511)
					a.follow(t, legacyCall(id, "slow"))
					ids = append(ids, id)
				}
				synctest.Wait()
				a.word().Drain()
				for _, id := range ids {
					wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody).id("7")), http.StatusOK)
				}
				b.word().cut.Store(true)
				var over []<-chan string
				for _, id := range ids {
					over = append(over, b.follow(t, waits(id)))
				}
				synctest.Wait()
				other := b.do(t, initialize(mcp.Revision2511).as("alice-globex"))
				if other.Code != http.StatusOK {
					t.Errorf("another tenant: got %d %s, want 200", other.Code, other.Body)
				}
				for _, one := range over {
					<-one
				}
				a.letGo()
				c.hub.Leave(a.word().Member)
			})
		})
	}
}

// TestAFormerPrimaryThatDoesNotAnswerIsNotWaitedForLong has the connection to a replica
// that led a session before take what is sent, and bring nothing back, while that one
// lives. Each of the requests waited for as long as the connection did.
func TestAFormerPrimaryThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	for name, test := range map[string]struct {
		waits func(id string) message
		want  int
	}{
		"setLevel": {func(id string) message { return inSession("POST", id, setLevel("error")) }, http.StatusOK},
		"cancel":   {cancelOf, http.StatusAccepted},
		"DELETE": {
			func(id string) message { return inSession("DELETE", id, "") }, http.StatusServiceUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2)
				a, b := c.worlds[0], c.worlds[1]
				id := a.openAsking(t, mcp.Revision2511)
				a.follow(t, legacyCall(id, "slow"))
				synctest.Wait()
				a.word().Drain()
				taken := inSession("POST", id, pingBody).id("7")
				wantStatus(t, "taken over", b.do(t, taken), http.StatusOK)
				b.word().delay = time.Hour
				asked := time.Now()
				wantStatus(t, name, b.do(t, test.waits(id)), test.want)
				if took := time.Since(asked); took > 2*forward.HoldTime {
					t.Errorf("answered after %v, want %v at most", took, forward.HoldTime)
				}
				a.letGo()
				c.hub.Leave(a.word().Member)
			})
		})
	}
}

// TestCancellationsOfABatchHaveOneBound cancels several calls at once that a replica
// which led the session before answers, and has that one take what is sent, and say
// nothing.
func TestCancellationsOfABatchHaveOneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2503)
		var cancels []string
		for n := range 4 {
			call := strconv.Itoa(10 + n)
			a.follow(t, legacyCall(id, "slow").id(call))
			cancels = append(cancels, strings.Replace(cancelOf(id).body, `"requestId":1`, `"requestId":`+call, 1))
		}
		synctest.Wait()
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody).id("7")), http.StatusOK)
		b.word().delay = time.Hour
		asked := time.Now()
		batch := inSession("POST", id, "["+strings.Join(cancels, ",")+"]")
		wantStatus(t, "four cancellations", b.do(t, batch), http.StatusAccepted)
		if took := time.Since(asked); took > 2*forward.HoldTime {
			t.Errorf("answered after %v, want %v at most", took, forward.HoldTime)
		}
		a.letGo()
		c.hub.Leave(a.word().Member)
	})
}

// TestAPrimaryThatEndsRunsNoCallsOfOthers forwards a call to a replica that has waited
// for all its calls, and of which the others do not know yet that it ends. The call runs
// where it came.
func TestAPrimaryThatEndsRunsNoCallsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		wantStatus(t, "a ping", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		a.DrainReplicas()
		if left := a.Wait(t.Context()); left != 0 {
			t.Errorf("%d requests are left, want none", left)
		}
		wantStatus(t, "a call", b.do(t, legacyCall(id, "echo")), http.StatusOK)
		if r, _ := c.records.Of(c.name(t, id)); r.Primary != b.config.Others.Self() {
			t.Errorf("got %s as primary, want the other replica", r.Primary)
		}
	})
}

// cutOff returns two replicas of which others take a, which leads the session id, for
// dead.
func cutOff(t *testing.T) (c *common, a, b *world, id string) {
	t.Helper()
	c = together(t, 2)
	a, b = c.worlds[0], c.worlds[1]
	id = a.openAsking(t, mcp.Revision2511)
	<-time.After(time.Second)
	c.hub.Leave(a.word().Member)
	return c, a, b, id
}

// TestALatePrimaryChangesNothing takes a session over from a replica that was taken for
// dead, and comes back.
func TestALatePrimaryChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b, id := cutOff(t)
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, setLevel("error"))), http.StatusOK)
		wantReplicas(t, "at the old primary, cut off", a.do(t, inSession("POST", id, pingBody)))
		c.hub.Rejoin(a.word().Member)
		wantStatus(t, "at the old primary, back", a.do(t, inSession("POST", id, setLevel("debug"))),
			http.StatusOK)
		if got := b.do(t, legacyCall(id, "terms")).Body.String(); !strings.Contains(got, `level \"debug`) {
			t.Errorf("got %s, want that the new primary was told", got)
		}
		late := primary.Entry{
			Primary: a.config.Others.Self(), Epoch: 1,
			Facts: map[string]string{"level": "info"},
		}
		if err := c.records.Keep(t.Context(), primary.Key{Tenant: "acme", Name: c.name(t, id)},
			late); err == nil {
			t.Error("a late write of the old primary was taken")
		}
		wantStatus(t, "DELETE", a.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		wantStatus(t, "after it", b.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
	})
}

// TestAReplicaThatIsBackLetsGoOfWhatEndedMeanwhile ends a session while the replica that
// led it is cut off. Nobody asks that one for the session again, and it would keep it
// until it has been idle for too long.
func TestAReplicaThatIsBackLetsGoOfWhatEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b, id := cutOff(t)
		wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		c.hub.Rejoin(a.word().Member)
		a.word().Return()
		<-time.After(5 * time.Second)
		if open := a.sessionsOpen(t); open != 0 {
			t.Errorf("%d sessions are open, want none", open)
		}
	})
}

// TestAfterAGapASessionIsLookedUpOnce uses a session of a replica that others may have
// taken for gone meanwhile.
func TestAfterAGapASessionIsLookedUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 1)
		w := c.worlds[0]
		id := w.open(t, "alice", mcp.Revision2511)
		<-time.After(time.Second)
		w.word().SetLeads(false)
		w.word().SetLeads(true)
		for i, want := range []int64{1, 0} {
			if got := c.count(func() { w.do(t, inSession("POST", id, pingBody)) }); got != want {
				t.Errorf("request %d after the gap: got %d round trips, want %d", i, got, want)
			}
		}
	})
}

// TestADeletedSessionIsNotServedByItsLatePrimary ends a session while a replica that led
// it is cut off, which then comes back, and with it or before it a store that has lost
// what it had: nobody writes the entry of a session that has ended again.
func TestADeletedSessionIsNotServedByItsLatePrimary(t *testing.T) {
	nothing := func(*common) {}
	lose := func(c *common) { c.records.Lose() }
	for name, test := range map[string]struct{ before, after func(*common) }{
		"it comes back":                      {nothing, nothing},
		"the store is lost, and it is back":  {lose, nothing},
		"it is back, and the store is lost":  {nothing, lose},
		"the store is lost twice, around it": {lose, lose},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, a, b, id := cutOff(t)
				wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
				wantReplicas(t, "cut off", a.do(t, inSession("POST", id, pingBody)))
				test.before(c)
				c.hub.Rejoin(a.word().Member)
				a.word().Return()
				test.after(c)
				for range 10 {
					for _, w := range c.worlds {
						if got := w.do(t, inSession("POST", id, pingBody)); got.Code != http.StatusNotFound &&
							got.Code != http.StatusServiceUnavailable {
							t.Errorf("after DELETE: got %d %s, want 404, or 503 after a loss", got.Code, got.Body)
						}
					}
					<-time.After(time.Second)
				}
				c.records.Settle()
				wantStatus(t, "later", a.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
				if _, found := c.records.Of(c.name(t, id)); found {
					t.Error("the session has a record again")
				}
			})
		})
	}
}

// TestAnEntryIsNotWrittenAgainWhileItsSessionEnds deletes a session whose former primary
// takes long to let its calls go. Meanwhile a message of the client, or a fault of the
// store, has the primary write what it keeps of its sessions: that of this one stays
// removed, and nobody serves the session any more.
func TestAnEntryIsNotWrittenAgainWhileItsSessionEnds(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, c *common, b *world, id string){
		"the store may have lost it": func(_ *testing.T, c *common, _ *world, _ string) { c.records.SuspectLoss() },
		"the client sets its level": func(t *testing.T, _ *common, b *world, id string) {
			go b.do(t, inSession("POST", id, setLevel("error")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2)
				a, b := c.worlds[0], c.worlds[1]
				id := a.openAsking(t, mcp.Revision2511)
				a.word().Drain()
				wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
				b.word().delay = 3 * time.Second
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
				}()
				<-time.After(time.Second)
				meanwhile(t, c, b, id)
				<-ended
				<-time.After(5 * time.Second)
				wantStatus(t, "after it", b.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
				if _, found := c.records.Of(c.name(t, id)); found {
					t.Error("the session has an entry again")
				}
			})
		})
	}
}

// TestADeleteThatFailsKeepsNoEntryForAnother deletes a session twice at once. The entry
// is written again before the second attempt, which fails because the store is away.
func TestADeleteThatFailsKeepsNoEntryForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		b.word().delay = 2500 * time.Millisecond
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		}()
		<-time.After(time.Second)
		c.records.SuspectLoss()
		<-time.After(1400 * time.Millisecond)
		if _, found := c.records.Of(c.name(t, id)); !found {
			t.Fatal("the entry is not written again: the test shows nothing")
		}
		c.records.SetDown(true)
		wantReplicas(t, "another DELETE", b.do(t, inSession("DELETE", id, "")))
		c.records.SetDown(false)
		<-ended
		<-time.After(5 * time.Second)
		wantStatus(t, "after it", b.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
		if _, found := c.records.Of(c.name(t, id)); found {
			t.Error("the session has an entry again")
		}
	})
}

// TestASessionThatEndsWithoutItsStoreIsRemovedLater has a session be idle for too long,
// and the store be away then: nobody takes the session over when it is back.
func TestASessionThatEndsWithoutItsStoreIsRemovedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2, func(w *world) { w.config.SessionIdle = 10 * time.Second })
		id := c.worlds[0].open(t, "alice", mcp.Revision2511)
		<-time.After(5 * time.Second)
		c.records.SetDown(true)
		<-time.After(6 * time.Second)
		c.worlds[0].do(t, inSession("POST", id, pingBody)) // which ends it, if no sweep has
		if open := c.worlds[0].sessionsOpen(t); open != 0 {
			t.Fatalf("%d sessions are open: the test shows nothing", open)
		}
		c.records.SetDown(false)
		<-time.After(5 * time.Second)
		wantStatus(t, "later", c.worlds[1].do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
		if _, found := c.records.Of(c.name(t, id)); found {
			t.Error("the session has an entry still")
		}
	})
}

// TestASweepLeavesASessionThatIsBeingTakenOver has the replica that led a session before
// take its time to say which calls it has. Meanwhile the session is in nobody's use at
// the one that takes it over.
func TestASweepLeavesASessionThatIsBeingTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2, func(w *world) { w.config.SessionIdle = 10 * time.Second })
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		a.word().Handle("taken 2", func(context.Context, replica.ID, replica.Message) ([]byte, error) {
			<-time.After(1500 * time.Millisecond)
			return nil, nil
		})
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		wantStatus(t, "again", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
	})
}

// TestSessionsOutliveALossOfTheStore empties what replicas share: the primary writes the
// record again, and what has none is not taken for ended meanwhile.
func TestSessionsOutliveALossOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id, gone := a.openAsking(t, mcp.Revision2511), a.openAsking(t, mcp.Revision2511)
		wantStatus(t, "DELETE", a.do(t, inSession("DELETE", gone, "")), http.StatusNoContent)
		c.records.Lose()
		wantReplicas(t, "what has no entry", b.do(t, inSession("POST", gone, pingBody)))
		wantStatus(t, "a session", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		wait(t)
		c.records.Settle()
		if r, found := c.records.Of(c.name(t, id)); !found || r.Primary != a.config.Others.Self() {
			t.Errorf("got %+v, %v, want that the primary has written its entry again", r, found)
		}
		wantStatus(t, "what has none, later", b.do(t, inSession("POST", gone, pingBody)), http.StatusNotFound)
	})
}

// TestATenantMissingForAWhileLosesNoSession takes a tenant out of the config of the
// primary, and puts it back.
func TestATenantMissingForAWhileLosesNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		for _, tenants := range [][]gateway.TenantConfig{a.tenants[1:], a.tenants} {
			a.gateway.SetPolicy("", tenants)
			a.Reauthorize()
			<-time.After(10 * time.Second)
		}
		for _, w := range []*world{b, a} {
			wantStatus(t, "the session", w.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		}
		a.revoke(func(p auth.Principal) bool { return p.Subject == "alice" })
		b.revoke(func(p auth.Principal) bool { return p.Subject == "alice" })
		wait(t)
		if n := c.records.Count(); n != 0 {
			t.Errorf("a caller that was revoked has %d sessions, want none", n)
		}
	})
}

// mutedTakes are entries whose replica does not hear that it has taken a session over.
type mutedTakes struct {
	primary.Store
	muted *atomic.Bool
}

func (s mutedTakes) Take(ctx context.Context, k primary.Key, from primary.Entry, to replica.ID) (
	primary.Entry, error,
) {
	entry, err := s.Store.Take(ctx, k, from, to)
	if s.muted.Load() {
		return primary.Entry{}, primarytest.ErrDown
	}
	return entry, err
}

// TestAFormerPrimaryIsToldByWhoDidNotHearThatItLeads lets the primary of a session drain
// while it runs a call, and the replica that takes the session over not hear that it did.
// The client cancels the call there.
func TestAFormerPrimaryIsToldByWhoDidNotHearThatItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var muted atomic.Bool
		c := newChangingFleet(t, func(w *world) { w.config.Entries = mutedTakes{w.config.Entries, &muted} })
		a, b := c.worlds[0], c.worlds[1]
		over := a.follow(t, legacyCall(c.id, "slow"))
		wait(t)
		a.DrainClients()
		muted.Store(true)
		wantReplicas(t, "not heard", b.do(t, inSession("POST", c.id, pingBody).id("7")))
		muted.Store(false)
		wantStatus(t, "a ping", b.do(t, inSession("POST", c.id, pingBody).id("7")), http.StatusOK)
		wantStatus(t, "cancel", b.do(t, cancelOf(c.id)), http.StatusAccepted)
		synctest.Wait()
		if _, cancelled := a.counts(); cancelled != 1 {
			t.Error("the call goes on at the old primary")
		}
		a.letGo()
		<-over
	})
}

// TestAReplicaIsNotTheFormerPrimaryOfItself has a replica take a session over and not
// hear that it did, so that it takes the session from itself at the next request. What is
// told to the former primary waited eight seconds for it, and DELETE was refused.
func TestAReplicaIsNotTheFormerPrimaryOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var muted atomic.Bool
		c := newChangingFleet(t, func(w *world) { w.config.Entries = mutedTakes{w.config.Entries, &muted} })
		c.kill(0)
		muted.Store(true)
		b := c.worlds[1]
		wantReplicas(t, "not heard", b.do(t, inSession("POST", c.id, pingBody)))
		muted.Store(false)
		wantStatus(t, "a ping", b.do(t, inSession("POST", c.id, pingBody)), http.StatusOK)
		began := time.Now()
		wantStatus(t, "its level", b.do(t, inSession("POST", c.id, setLevel("error"))), http.StatusOK)
		wantStatus(t, "DELETE", b.do(t, inSession("DELETE", c.id, "")), http.StatusNoContent)
		if took := time.Since(began); took > time.Second {
			t.Errorf("both took %v, want less than a second", took)
		}
	})
}
