package sessions

import (
	"maps"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// TestSubscriptionsAreMadeAgainByOne has two want to make the subscriptions of a session
// again, and the client end one of them meanwhile.
func TestSubscriptionsAreMadeAgainByOne(t *testing.T) {
	l := &Session{Shared: true, roster: &Roster{}, leader: Leader{Here: true}}
	l.learnWatchesLocked(map[string]string{WatchFact("file:///a"): "file:///a", WatchFact("file:///b"): "file:///b"})
	lost, end := l.BeginResubscribing()
	if len(lost) != 2 {
		t.Fatalf("got %v to make again, want two subscriptions", lost)
	}
	other, endOther := l.BeginResubscribing()
	endOther()
	if len(other) != 0 {
		t.Errorf("got %v to make again for another, want nothing", other)
	}
	if facts := l.Facts(); len(facts) != 2 {
		t.Errorf("the entry is to have %v meanwhile, want both", facts)
	}
	l.DropWatch("file:///a")
	if _, still := l.Lost("file:///a"); still {
		t.Error("what the client has ended is made again")
	}
	l.Resubscribed("file:///a", true)
	l.Resubscribed("file:///b", true)
	end()
	again, _ := l.BeginResubscribing()
	if tried, _ := l.Lost("file:///b"); !slices.Equal(again, []string{"file:///b"}) || !tried {
		t.Errorf("got %v to make again, tried before: %v, want file:///b, as tried", again, tried)
	}
}

// TestSubscriptionsAreMadeAgainByWhoLeads has another replica take the session over while
// a subscription is being made again. Its client ends it there, and the session comes
// back.
func TestSubscriptionsAreMadeAgainByWhoLeads(t *testing.T) {
	l := &Session{Shared: true, roster: &Roster{}, leader: Leader{Here: true}}
	l.learnWatchesLocked(map[string]string{WatchFact("file:///a"): "file:///a"})
	_, end := l.BeginResubscribing()
	l.BecomeFollower("b", 2)
	l.Resubscribed("file:///a", true)
	end()
	l.BecomePrimary(primary.Entry{Epoch: 3}, "", nil)
	if l.IsLost() {
		t.Error("a subscription that the client has ended is made again")
	}
}

// TestTheEndOfASubscriptionForgetsChangedParts ends one of two subscriptions, of both of
// which a part has changed of which the client was not told.
func TestTheEndOfASubscriptionForgetsChangedParts(t *testing.T) {
	user, memory := auth.User{TenantID: "acme"}, share.New(1<<20)
	l := &Session{User: user, roster: &Roster{memory: memory}, leader: Leader{Here: true}}
	for _, uri := range []string{"file:///a", "file:///b"} {
		l.Reserve(uri)
		l.NoteUpdate(uri, uri+"/part")
	}
	l.DropWatch("file:///a")
	left := maps.Collect(l.notices.updates.All())
	if _, told := left["file:///b/part"]; !told || len(left) != 1 {
		t.Errorf("the client will be told of %v, want the part of what it is subscribed to", left)
	}
	l.DropWatch("file:///b")
	if held := memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held for changes of nothing", held)
	}
}

// TestAChangeStaysForTheOtherSubscription ends one of two subscriptions that both said of
// the same resource that it has changed: the client is still to be told, for the other.
func TestAChangeStaysForTheOtherSubscription(t *testing.T) {
	const whole, part = "file:///a", "file:///a/b"
	for _, order := range [][2]string{{whole, part}, {part, whole}} {
		for _, ended := range order {
			memory := share.New(1 << 20)
			l := &Session{User: auth.User{TenantID: "acme"}, roster: &Roster{memory: memory}, leader: Leader{Here: true}}
			l.Reserve("file:///a/bc")
			for _, uri := range order {
				l.Reserve(uri)
			}
			for _, uri := range order {
				l.NoteUpdate(uri, part)
			}
			l.DropWatch(ended)
			left := maps.Collect(l.notices.updates.All())
			if _, told := left[part]; !told || l.notices.updates.Subscription(part) == ended {
				t.Errorf("%v without %s: the client will be told of %v, want %s", order, ended, left, part)
			}
			l.DropWatch(whole)
			l.DropWatch(part)
			if left := maps.Collect(l.notices.updates.All()); len(left) > 0 || memory.InUse() > 0 {
				t.Errorf("%v: got %v and %d bytes held, want nothing", order, left, memory.InUse())
			}
		}
	}
}
