package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// kill takes a replica out, as if it had died: the others learn nothing from it any more.
func (c *changingFleet) kill(at int) { c.hub.Leave(c.worlds[at].config.Others.(*replicatest.Member)) }

// TestSubscriptionComesBackWhereItsSessionIsNew lets a replica die that has the
// subscription and the stream of a session. The client comes back at one that has never
// heard of the session; in the second case that dies, too, before it has noticed
// anything.
func TestSubscriptionComesBackWhereItsSessionIsNew(t *testing.T) {
	for name, detour := range map[string]bool{"one died": false, "two died": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
				c.subscribe(t, 0, "subscribe")
				stream := c.get(t, 0, "")
				expectNotices(t, "before", stream, mcp.NotifyResourceUpdated, 0)
				c.kill(0)
				leave(t, stream)
				if detour {
					stream = c.get(t, 2, "")
					c.kill(2)
					leave(t, stream)
				}
				<-time.After(time.Hour / 4) // no stream is open
				stream = c.get(t, 1, "")
				<-time.After(time.Minute)
				expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 1)
				c.changeFile(t, 1, "file:///a")
				expectNotices(t, "a change", stream, mcp.NotifyResourceUpdated, 1)
				if open := c.files[1].open(); open != 1 {
					t.Errorf("got %d subscriptions, want one", open)
				}
			})
		})
	}
}

// TestUnsubscribingHoldsWhenTheReplicaDies unsubscribes, here and elsewhere, before the
// replica of the subscription dies: nobody opens it again.
func TestUnsubscribingHoldsWhenTheReplicaDies(t *testing.T) {
	for _, at := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newChangingFleet(t)
			c.subscribe(t, 0, "subscribe")
			c.subscribe(t, at, "unsubscribe")
			c.kill(0)
			stream := c.get(t, 1, "")
			<-time.After(2 * time.Minute)
			expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 0)
			if open := c.files[1].open(); open != 0 {
				t.Errorf("unsubscribed at %d: got %d subscriptions, want none", at, open)
			}
		})
	}
}

// TestSubscriptionIsOpenedByEachPrimaryOnce subscribes through two replicas, and lets one
// primary die after the other.
func TestSubscriptionIsOpenedByEachPrimaryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		c.subscribe(t, 0, "subscribe")
		c.subscribe(t, 2, "subscribe")
		stream := c.get(t, 1, "")
		c.kill(0)
		<-time.After(2 * time.Minute)
		if second, third := c.files[1].open(), c.files[2].open(); second != 1 || third != 0 {
			t.Errorf("got %d and %d subscriptions, want 1, 0", second, third)
		}
		expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 1)
		c.kill(1)
		leave(t, stream)
		stream = c.get(t, 2, "")
		<-time.After(time.Minute)
		expectNotices(t, "after the second death", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// TestKeptSubscriptionsAreBounded subscribes to more than the log keeps of a session:
// what is beyond is acknowledged and told of, and not kept.
func TestKeptSubscriptionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		for n := range 12 {
			uri := fmt.Sprintf("file:///%d%s", n, strings.Repeat("x", 8000))
			got := c.worlds[0].do(t,
				inSession(
					"POST", c.id, `{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"`+
						uri+`"}}`))
			if got.Code != http.StatusOK || strings.Contains(got.Body.String(), "error") {
				t.Fatalf("got %d %.200s", got.Code, got.Body)
			}
		}
		if open := c.files[0].open(); open != 12 {
			t.Errorf("got %d subscriptions, want 12", open)
		}
		c.kill(0)
		c.get(t, 1, "")
		<-time.After(time.Minute)
		if open := c.files[1].open(); open != 8 {
			t.Errorf("after the death: got %d subscriptions, want the 8 whose URIs have 64 KiB", open)
		}
	})
}

// TestManySubscriptionsComeBackAtTheRateOfCalls lets a replica die whose session has more
// of them than its user may make calls at once.
func TestManySubscriptionsComeBackAtTheRateOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		for n := range 10 {
			c.request(t, 0, "subscribe", fmt.Sprintf("file:///%d", n))
		}
		var last time.Time
		c.files[1].fail(func() error {
			if since := time.Since(last); since < time.Second {
				return mcp.Stable(mcp.CodeLimited, "DB-LIMIT-USER", "x").After(time.Second - since)
			}
			last = time.Now()
			return nil
		})
		stream := c.get(t, 1, "")
		c.kill(0)
		<-time.After(25 * time.Second) // of which it takes some to know that it is gone
		if open := c.files[1].open(); open != 10 {
			t.Errorf("got %d subscriptions, want all", open)
		}
		expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 10)
	})
}

// TestASubscriptionThatWasNotAllowedAnyMoreIsNotOpenedAgain takes the right to a resource
// from the caller, whose subscription ends with that. Then its replica dies.
func TestASubscriptionThatWasNotAllowedAnyMoreIsNotOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		c.subscribe(t, 0, "subscribe")
		c.files[0].hide()
		c.worlds[0].Reauthorize()
		<-time.After(time.Second)
		c.kill(0)
		c.get(t, 1, "")
		<-time.After(2 * time.Minute)
		if open := c.files[1].open(); open != 0 {
			t.Errorf("got %d subscriptions, want none", open)
		}
	})
}

// TestUnsubscribingHoldsWhereItCouldNotBeWritten unsubscribes while the store is away,
// and lets the replica of the subscription die when it is back. The next one opened it
// again.
func TestUnsubscribingHoldsWhereItCouldNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		store := c.worlds[0].config.Entries.(*primarytest.Store)
		c.subscribe(t, 0, "subscribe")
		store.SetDown(true)
		c.subscribe(t, 0, "unsubscribe")
		<-time.After(time.Minute)
		store.SetDown(false)
		<-time.After(10 * time.Second)
		c.kill(0)
		stream := c.get(t, 1, "")
		<-time.After(2 * time.Minute)
		expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 0)
		if open := c.files[1].open(); open != 0 {
			t.Errorf("got %d subscriptions, want none", open)
		}
	})
}

// interruptedStore lets something happen before the next fact or entry is written.
type interruptedStore struct {
	primary.Store
	before func() // nil: nothing happens
}

func (s *interruptedStore) interrupt() {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
}

func (s *interruptedStore) Open(ctx context.Context, k primary.Key, r primary.Entry) error {
	s.interrupt()
	return s.Store.Open(ctx, k, r)
}

func (s *interruptedStore) Keep(ctx context.Context, k primary.Key, r primary.Entry) error {
	s.interrupt()
	return s.Store.Keep(ctx, k, r)
}

// TestAnEntryThatIsWrittenAgainLosesNothing has a primary write an entry again that was
// not lost, as after a moment in which Redis was away: while its client subscribes, and
// where this replica alone does not have the resource.
func TestAnEntryThatIsWrittenAgainLosesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		primary int
		before  func(t *testing.T, c *changingFleet, store *interruptedStore)
	}{
		"the client subscribes meanwhile": {0, func(t *testing.T, c *changingFleet, store *interruptedStore) {
			store.before = func() { c.subscribe(t, 0, "subscribe") }
		}},
		"it is refused here": {1, func(t *testing.T, c *changingFleet, _ *interruptedStore) {
			c.subscribe(t, 0, "subscribe")
			c.files[1].fail(func() error { return mcp.Stable(mcp.CodeInvalidParams, "DB-UNKNOWN", "x") })
			c.kill(0)
			leave(t, c.get(t, 1, ""))
			<-time.After(time.Minute)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stores []*interruptedStore
				c := newChangingFleet(t, func(w *world) {
					store := &interruptedStore{Store: w.config.Entries}
					w.config.Entries, stores = store, append(stores, store)
				})
				test.before(t, c, stores[test.primary])
				stores[0].Store.(*primarytest.Store).SuspectLoss()
				<-time.After(10 * time.Second)
				c.kill(test.primary)
				c.get(t, 2, "")
				<-time.After(time.Minute)
				if open := c.files[2].open(); open != 1 {
					t.Errorf("got %d subscriptions at the next primary, want one", open)
				}
			})
		})
	}
}

// TestWhatATakeoverLosesIsNotAcknowledged has another replica take a session over in the
// moment in which the one that led it is about to keep what a request has changed. The
// client was told that it holds, and the new primary did not know of it.
func TestWhatATakeoverLosesIsNotAcknowledged(t *testing.T) {
	for method, params := range map[string]string{
		mcp.MethodSetLevel:    `"level":"error"`,
		mcp.MethodSubscribe:   `"uri":"file:///a"`,
		mcp.MethodUnsubscribe: `"uri":"file:///a"`,
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stores []*interruptedStore
				c := newChangingFleet(t, func(w *world) {
					store := &interruptedStore{Store: w.config.Entries}
					w.config.Entries, stores = store, append(stores, store)
				})
				if method == mcp.MethodUnsubscribe {
					c.subscribe(t, 0, "subscribe")
				}
				stores[0].before = func() {
					c.worlds[0].config.Others.Drain()
					wantStatus(t, "taken over", c.worlds[1].do(t, inSession("POST", c.id, pingBody)), http.StatusOK)
				}
				m := inSession("POST", c.id, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`)
				wantReplicas(t, "meanwhile", c.worlds[0].do(t, m.id("20")))
				wantStatus(t, "again", c.worlds[0].do(t, m.id("21")), http.StatusOK)
				wait(t)
				entry, _ := stores[0].Store.(*primarytest.Store).Of(nameOf(t, c.worlds[0].config.Seal, c.id))
				if want := map[string]int{mcp.MethodSubscribe: 1}[method]; c.files[1].open() != want {
					t.Errorf("got %d subscriptions, want %d", c.files[1].open(), want)
				}
				if method == mcp.MethodSetLevel && entry.Facts["level"] != "error" {
					t.Errorf("got the facts %v, want the level", entry.Facts)
				}
			})
		})
	}
}
