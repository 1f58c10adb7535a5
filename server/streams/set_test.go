package streams

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// constant is a desk whose lists never change.
type constant struct{ exchange.Desk }

func (constant) OnChange(func()) {}

// slow is a source that takes a time for what there is to send.
type slow time.Duration

func (s slow) Step(context.Context, *Stream) error {
	time.Sleep(time.Duration(s))
	return nil
}

// Open, SendEnd and Close do nothing.
func (slow) Open(context.Context, *exchange.Exchange) (*Stream, error) {
	return &Stream{}, nil
}
func (slow) SendEnd(*Stream) error       { return nil }
func (slow) Close(context.Context, bool) {}

// TestStreamWhoseTokenExpiresWhileItSendsEndsThen: the stream ends when what was under
// way has been sent, and not at the next heartbeat. Another stream is open meanwhile.
func TestStreamWhoseTokenExpiresWhileItSendsEndsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := New(Config{
			Exchanges: &exchange.Service{Desk: constant{}}, Most: 2,
		})
		other := fs.NewFlow(nil, nil)
		defer fs.remove(other)
		time.Sleep(time.Second)
		opened := time.Now()
		f := fs.NewFlow(slow(6*time.Second), &Slot{
			Principal: auth.Principal{Expiry: opened.Add(5*time.Second - expiryLeeway)},
		})
		defer fs.remove(f)
		f.out = &Stream{last: opened}
		var err error
		for err == nil { // as Serve does it
			if err = f.advance(t.Context()); err == nil {
				err = f.await(t.Context())
			}
		}
		if took := time.Since(opened); !errors.Is(err, ErrEnded) || took != 6*time.Second {
			t.Errorf("got %v after %v, want %v after 6s", err, took, ErrEnded)
		}
	})
}

// lasting is a source that says nothing, and does not end because the process stops. It
// counts how often it is driven.
type lasting struct {
	slow

	driven int
}

// Step implements Source.
func (l *lasting) Step(context.Context, *Stream) error {
	l.driven++
	return nil
}

// TestStreamThatGoesOnDuringAStopIsDrivenOnce when its time to end has come, and not
// without a pause: it waits for a call that goes on.
func TestStreamThatGoesOnDuringAStopIsDrivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := New(Config{Exchanges: &exchange.Service{Desk: constant{}}, Most: 2})
		source := &lasting{}
		f := fs.NewFlow(source, &Slot{})
		defer fs.remove(f)
		f.out = &Stream{last: time.Now()}
		ctx, stop := context.WithTimeout(t.Context(), Heartbeat/2)
		defer stop()
		time.AfterFunc(time.Second, fs.End)
		for source.driven < 100 && f.advance(ctx) == nil && f.await(ctx) == nil { // as Serve does it
			continue
		}
		if source.driven > 3 {
			t.Errorf("it was driven %d times, want once when it begins and once at its time", source.driven)
		}
	})
}
