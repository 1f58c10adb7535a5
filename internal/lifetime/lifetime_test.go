package lifetime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
)

var errCause = errors.New("a cause")

// end is one way in which a Context ends, with what it and the standard library say of
// that.
type end struct {
	name   string
	err    error
	cause  error
	happen func(c *lifetime.Context, parent, other context.CancelCauseFunc)
}

func ends() []end {
	return []end{
		{
			"End", context.Canceled, errCause,
			func(c *lifetime.Context, _, _ context.CancelCauseFunc) { c.End(errCause) },
		},
		{
			"End without a cause", context.Canceled, context.Canceled,
			func(c *lifetime.Context, _, _ context.CancelCauseFunc) { c.End(nil) },
		},
		{
			"Close", context.Canceled, context.Canceled,
			func(c *lifetime.Context, _, _ context.CancelCauseFunc) { c.Close() },
		},
		{
			"Close, then End", context.Canceled, context.Canceled,
			func(c *lifetime.Context, _, _ context.CancelCauseFunc) { c.Close(); c.End(errCause) },
		},
		{
			"End, then Close", context.Canceled, errCause,
			func(c *lifetime.Context, _, _ context.CancelCauseFunc) { c.End(errCause); c.Close() },
		},
		{
			"parent", context.Canceled, errCause,
			func(_ *lifetime.Context, parent, _ context.CancelCauseFunc) { parent(errCause) },
		},
		{
			"what it depends on", context.Canceled, errCause,
			func(_ *lifetime.Context, _, other context.CancelCauseFunc) {
				other(nil)
				synctest.Wait() // who waits is told by a goroutine
			},
		},
		{
			"time", context.DeadlineExceeded, context.DeadlineExceeded,
			func(*lifetime.Context, context.CancelCauseFunc, context.CancelCauseFunc) {
				time.Sleep(time.Minute)
				synctest.Wait() // the timer and the test wake at the same moment
			},
		},
	}
}

// TestEndIsSeenHoweverOneLooks ends a Context in every way, and looks at it in every way,
// before anybody has waited for it and after.
func TestEndIsSeenHoweverOneLooks(t *testing.T) {
	for _, test := range ends() {
		for _, waited := range []bool{false, true} {
			name := test.name + ", bare"
			if waited {
				name = test.name + ", armed"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					other, end := context.WithCancelCause(context.Background())
					defer end(nil)
					var c lifetime.Context
					c.Begin(parent)
					c.EndAt(time.Now().Add(time.Minute))
					c.DependOn(other, errCause)
					defer c.Close()
					if waited {
						go func() { <-c.Done() }()
						synctest.Wait()
					}
					if c.Err() != nil || context.Cause(&c) != nil {
						t.Errorf("before the end: got %v and cause %v, want none", c.Err(), context.Cause(&c))
					}
					test.happen(&c, cancel, end)
					if got := c.Err(); !errors.Is(got, test.err) {
						t.Errorf("got %v, want %v", got, test.err)
					}
					if got := context.Cause(&c); !errors.Is(got, test.cause) {
						t.Errorf("got cause %v, want %v", got, test.cause)
					}
					<-c.Done() // the bubble would be locked for ever if it were open
				})
			})
		}
	}
}

// TestWaitingIsTold shows that whoever waits is told of every end, also through a context
// that was made from this one.
func TestWaitingIsTold(t *testing.T) {
	for _, test := range ends() {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				other, end := context.WithCancelCause(context.Background())
				defer end(nil)
				var c lifetime.Context
				c.Begin(parent)
				c.EndAt(time.Now().Add(time.Minute))
				c.DependOn(other, errCause)
				child, stop := context.WithCancel(&c)
				defer stop()
				told := make(chan error, 1)
				context.AfterFunc(child, func() { told <- context.Cause(child) })
				synctest.Wait()
				test.happen(&c, cancel, end)
				if got := <-told; !errors.Is(got, test.cause) {
					t.Errorf("got %v, want %v", got, test.cause)
				}
				c.Close()
			})
		})
	}
}

type key struct{}

func TestParentShowsThrough(t *testing.T) {
	first, second := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	outer, cancel := context.WithDeadline(context.WithValue(t.Context(), key{}, "value"), first)
	defer cancel()
	for _, test := range []struct {
		name           string
		inner          bool // its parent is outer
		deadline, want time.Time
	}{
		{"of the parent", true, time.Time{}, first},
		{"of the parent, which is sooner", true, second, first},
		{"its own", false, second, second},
		{"none", false, time.Time{}, time.Time{}},
	} {
		var c lifetime.Context
		parent := t.Context()
		if test.inner {
			parent = outer
		}
		c.Begin(parent)
		if !test.deadline.IsZero() {
			c.EndAt(test.deadline)
		}
		for _, armed := range []bool{false, true} {
			if got, ok := c.Deadline(); !got.Equal(test.want) || ok == test.want.IsZero() {
				t.Errorf("%s, armed %v: got deadline %v, %v, want %v", test.name, armed, got, ok, test.want)
			}
			if got := c.Value(key{}); test.inner && got != "value" {
				t.Errorf("%s, armed %v: got %v, want the value of the parent", test.name, armed, got)
			}
			c.Done()
		}
		c.Close()
	}
}

// TestATimeMayBeSetLater gives a Context a deadline after it has begun, before anybody
// has waited for its end and after.
func TestATimeMayBeSetLater(t *testing.T) {
	for _, armed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var c lifetime.Context
			c.Begin(t.Context())
			defer c.Close()
			if armed {
				c.Done()
			}
			want := time.Now().Add(time.Minute)
			c.EndAt(want)
			if got, ok := c.Deadline(); !ok || !got.Equal(want) {
				t.Errorf("armed %v: got deadline %v, %v, want %v", armed, got, ok, want)
			}
			if err := c.Err(); err != nil {
				t.Errorf("armed %v: got %v before the time", armed, err)
			}
			child, stop := context.WithCancel(&c)
			defer stop()
			<-child.Done()
			if err := c.Err(); !errors.Is(err, context.DeadlineExceeded) || time.Now().Before(want) {
				t.Errorf("armed %v: got %v at %v, want the end at %v", armed, err, time.Now(), want)
			}
		})
	}
}

// TestUnwatchedCostsNothing shows what the package is for.
func TestUnwatchedCostsNothing(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	var room [200]lifetime.Context // AllocsPerRun runs once more than it is told
	at := 0
	got := testing.AllocsPerRun(100, func() {
		c := &room[at]
		at++
		c.Begin(parent)
		c.EndAt(time.Now().Add(time.Hour))
		if c.Err() != nil {
			t.Error("it has ended already")
		}
		c.Close()
	})
	if got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
