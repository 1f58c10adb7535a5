package server_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// errDown is what a subscription ends in while its server is down.
var errDown = mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-DOWN", "The server is down").After(time.Second)

// bereft is a fleet whose session is subscribed at the first replica and has its stream
// at the second. The first dies, and attempts at the second to open the subscription end
// in fault.
func bereft(t *testing.T, fault func() error) (c *changingFleet, stream *listener) {
	t.Helper()
	c = newChangingFleet(t)
	stream = c.get(t, 1, "")
	c.subscribe(t, 0, "subscribe")
	c.files[1].fail(fault)
	c.kill(0)
	return c, stream
}

// TestASubscriptionOfADeadReplicaIsTriedAgain lets a replica die with a subscription
// whose server is down just then. The stream of its client stays open, so only heartbeats
// bring the next attempt.
func TestASubscriptionOfADeadReplicaIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		c, stream := bereft(t, func() error { tries.Add(1); return errDown })
		<-time.After(5 * time.Minute)
		if n := tries.Load(); n < 3 || n > 16 {
			t.Errorf(
				"in five minutes: got %d attempts, want more than two, and no more than one and those of heartbeats", n)
		}
		expectNotices(t, "while the server is down", stream, mcp.NotifyResourceUpdated, 0)
		c.files[1].fail(nil)
		<-time.After(time.Minute)
		expectNotices(t, "when it is there again", stream, mcp.NotifyResourceUpdated, 1)
		c.changeFile(t, 1, "file:///a")
		expectNotices(t, "a change", stream, mcp.NotifyResourceUpdated, 1)
		if open := c.files[1].open(); open != 1 {
			t.Errorf("got %d subscriptions, want one", open)
		}
	})
}

// TestAnUnsubscribedResourceIsNotOpenedAgain unsubscribes from what could not be opened,
// between two attempts and during one: it is not tried again.
func TestAnUnsubscribedResourceIsNotOpenedAgain(t *testing.T) {
	for name, during := range map[string]bool{"between two attempts": false, "during an attempt": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				begun, ends := make(chan struct{}), make(chan struct{})
				c, stream := bereft(t, func() error {
					if tries.Add(1) == 1 {
						close(begun)
						<-ends
					}
					return errDown
				})
				<-begun
				if during {
					c.subscribe(t, 1, "unsubscribe")
				}
				close(ends)
				wait(t)
				if !during {
					c.subscribe(t, 1, "unsubscribe")
				}
				<-time.After(5 * time.Minute)
				c.files[1].fail(nil)
				<-time.After(5 * time.Minute)
				expectNotices(t, "after the client unsubscribed", stream, mcp.NotifyResourceUpdated, 0)
				if open := c.files[1].open(); open != 0 || tries.Load() != 1 {
					t.Errorf("got %d attempts and %d subscriptions, want 1 and none", tries.Load(), open)
				}
			})
		})
	}
}

// TestAResourceThatIsUnsubscribedBeforeItsTurnIsNotOpenedAgain ends both subscriptions of
// a session while the first of them is being opened: the other one is not tried.
func TestAResourceThatIsUnsubscribedBeforeItsTurnIsNotOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		begun, ends := make(chan struct{}), make(chan struct{})
		c := newChangingFleet(t)
		c.get(t, 1, "")
		c.request(t, 0, "subscribe", "file:///a")
		c.request(t, 0, "subscribe", "file:///b")
		c.files[1].fail(func() error {
			if tries.Add(1) == 1 {
				close(begun)
				<-ends
			}
			return nil
		})
		c.kill(0)
		<-begun
		c.request(t, 1, "unsubscribe", "file:///a")
		c.request(t, 1, "unsubscribe", "file:///b")
		close(ends)
		<-time.After(5 * time.Minute)
		if open := c.files[1].open(); open != 0 || tries.Load() != 1 {
			t.Errorf("got %d attempts and %d subscriptions, want 1 and none", tries.Load(), open)
		}
	})
}

// TestASubscriptionThatIsRefusedForGoodIsTriedOnce opens a subscription whose resource is
// not there any more.
func TestASubscriptionThatIsRefusedForGoodIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		bereft(t, func() error {
			tries.Add(1)
			return mcp.Stable(mcp.CodeInvalidParams, "DB-RESOURCE", "Resource not found")
		})
		<-time.After(5 * time.Minute)
		if tries.Load() != 1 {
			t.Errorf("got %d attempts, want 1", tries.Load())
		}
	})
}
