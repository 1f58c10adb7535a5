package upstream_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd lets many tenants call without a pause, so that all sessions of the pool are busy
// all the time, until the function that it returns is called.
func (r *rig) crowd(tenants int) (disperse func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for n := range tenants {
		for lane := range 2 {
			work.Go(func() {
				wait(ctx, time.Duration(lane)*5*time.Second+time.Duration(n)*time.Millisecond)
				for ctx.Err() == nil {
					// takes 10 s
					_, _, _, err := r.round(ctx, "quit", person{tenant: fmt.Sprint("busy-", n)}.call(r.t, "",
						"", "", nil))
					if err != nil && ctx.Err() == nil {
						r.t.Errorf("busy-%d: %v (%s)", n, err, cause(err))
					}
				}
			})
		}
	}
	return func() {
		cancel()
		work.Wait()
		time.Sleep(10 * time.Second) // the server goes on with what was given up
	}
}

// TestBusySessionsTakeTurns has more tenants call without a pause than there are
// sessions.
func TestBusySessionsTakeTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		disperse := r.crowd(64)
		defer disperse()
		time.Sleep(30 * time.Second)
		var served []string
		for n := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			began := time.Now()
			_, _, session, err := r.round(ctx, "answers", person{tenant: fmt.Sprint("quiet-", n)}.call(t, "",
				"", "", nil))
			cancel()
			if err != nil || slices.Contains(served, session) {
				t.Errorf("quiet-%d after %v: got %q, %v (%s), want a session of its own", n,
					time.Since(began), session, err, cause(err))
			}
			served = append(served, session)
		}
	})
}

// TestSessionsAreGivenInTurn lets tenants wait behind one another.
func TestSessionsAreGivenInTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		disperse := r.crowd(64)
		defer disperse()
		time.Sleep(30 * time.Second)
		const most = 20
		got := make(chan int, most)
		for n := range most {
			go func() {
				if _, _, _, err := r.round(context.Background(), "answers",
					person{tenant: fmt.Sprint("quiet-", n)}.call(t, "", "", "", nil)); err != nil {
					t.Errorf("quiet-%d: %v (%s)", n, err, cause(err))
				}
				got <- n
			}()
			synctest.Wait()
		}
		for want := range most {
			if n := <-got; n != want {
				t.Errorf("place %d: got %d", want, n)
			}
		}
	})
}

// TestWhoGivesUpLeavesTheQueue gives up while all sessions are busy.
func TestWhoGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		disperse := r.crowd(64)
		defer disperse()
		time.Sleep(30 * time.Second)
		before := len(s.sights("tools/call"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, _, err := r.round(ctx, "answers", person{tenant: "hasty"}.call(t, "", "", "",
			nil)); !isNotSent(err) {
			t.Errorf("got %v, want unavailable, not sent", err)
		}
		time.Sleep(30 * time.Second)
		for _, one := range s.sights("tools/call")[before:] {
			if one.m.Params.Text("name") == "answers" {
				t.Error("the call was made after its caller had left")
			}
		}
	})
}
