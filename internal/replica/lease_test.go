package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLease lets a lease be extended in time, and then too late.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{}
		if _, leads := g.Leads(); leads {
			t.Error("a replica leads before its first beat")
		}
		began := time.Now()
		for range 10 {
			g.lease.extend(time.Now())
			<-time.After(leaseTime - time.Millisecond)
			if since, leads := g.Leads(); !leads || !since.Equal(began) {
				t.Errorf("extended in time: got %v since %v, want since %v", leads, since, began)
			}
		}
		late := time.Now().Add(-leaseTime) // a beat whose answer came late counts from when it was sent
		g.lease.extend(late)
		<-time.After(2 * time.Millisecond)
		if _, leads := g.Leads(); leads {
			t.Error("a replica leads although others may take it for gone by now")
		}
		again := time.Now()
		g.lease.extend(again)
		if since, leads := g.Leads(); !leads || !since.Equal(again) {
			t.Errorf("after a gap: got %v since %v, want since %v", leads, since, again)
		}
		if leaseTime >= life {
			t.Errorf("a lease of %v ends after others take its holder for gone, %v", leaseTime, life)
		}
	})
}

// TestLeaseThatEndsBeforeItsBeatIsAnsweredBeginsAnew has Redis take a beat late that was
// sent in time, so that others may have taken the replica for gone before. It led again
// as if there had been no gap, and its blocks of slots were others' by then.
func TestLeaseThatEndsBeforeItsBeatIsAnsweredBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{}
		g.lease.extend(time.Now())
		began, _ := g.Leads()
		<-time.After(leaseTime - time.Millisecond)
		asked := time.Now()
		<-time.After(life - leaseTime + 2*beat)
		if _, leads := g.Leads(); leads {
			t.Fatal("a replica leads although others may take it for gone by now")
		}
		g.lease.extend(asked)
		if since, leads := g.Leads(); !leads || !since.After(asked) {
			t.Errorf("leads: %v, since %v after it began, want since it was answered", leads, since.Sub(began))
		}
	})
}

// TestWhoDoesNotKnowAReplicaThatServesLeadsNothing has a replica join that does not reach
// all others, such as one that is frozen.
func TestWhoDoesNotKnowAReplicaThatServesLeadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, other := &Group{}, &Group{}
		other.lease.extend(time.Now()) // it has looked for the last time
		joined := time.Now()
		g.joined.Store(&joined)
		for !g.Joined() {
			if time.Since(joined) > life {
				t.Fatal("it is never ready")
			}
			<-time.After(beat / 10)
		}
		if _, leads := other.Leads(); leads {
			t.Errorf("it serves after %v, and another one may take over what it leads", time.Since(joined))
		}
	})
}
