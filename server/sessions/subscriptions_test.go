package sessions

import "testing"

// TestSubscriptionsAreMadeAgainByOne has two want to make the subscriptions of a session
// again, and the client end one of them meanwhile.
func TestSubscriptionsAreMadeAgainByOne(t *testing.T) {
	l := &Session{Shared: true, lead: lead{leads: true}}
	l.learnWatches(map[string]string{WatchFact("file:///a"): "file:///a", WatchFact("file:///b"): "file:///b"})
	lost, end := l.BeginResubscribing()
	if len(lost) != 2 {
		t.Fatalf("got %v to make again, want two subscriptions", lost)
	}
	other, endOther := l.BeginResubscribing()
	endOther()
	if len(other) != 0 {
		t.Errorf("got %v to make again for another, want nothing", other)
	}
	l.DropWatch("file:///a")
	if len(lost) != 2 {
		t.Errorf("got %v, want what whoever makes them goes through to stay", lost)
	}
	l.Lose("file:///a")
	l.Lose("file:///b")
	end()
	if again, _ := l.BeginResubscribing(); len(again) != 1 || !again["file:///b"] {
		t.Errorf("got %v to make again, want file:///b, as tried before", again)
	}
}
