package dial

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleConnectionsAreClosed is inside the package because its clock must be a fake
// one, under which real connections do not work.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{most: 3, conns: map[origin][]*conn{}}
		var closed atomic.Int32 // by the goroutines of timers too
		give := func(host string) {
			p.put(&conn{to: origin{host: host}, life: idleTimeout, cut: func() { closed.Add(1) }})
		}
		give("a")
		time.Sleep(idleTimeout / 2)
		give("a")
		give("b")
		time.Sleep(idleTimeout/2 + sweepEvery)
		synctest.Wait()
		p.mu.Lock()
		if closed.Load() != 1 || len(p.conns[origin{host: "a"}]) != 1 || len(p.conns[origin{host: "b"}]) != 1 {
			t.Errorf("after the first sweeps: %d were closed, %v are left; want one, and one of each host",
				closed.Load(), p.conns)
		}
		p.mu.Unlock()
		time.Sleep(idleTimeout)
		synctest.Wait()
		p.mu.Lock()
		if closed.Load() != 3 || len(p.conns) != 0 || p.sweeping {
			t.Errorf("in the end: %d were closed, %v are left, sweeping: %v; want all, none, no",
				closed.Load(), p.conns, p.sweeping)
		}
		p.mu.Unlock()
		for range 4 {
			give("a")
		}
		p.mu.Lock()
		if closed.Load() != 4 || len(p.conns[origin{host: "a"}]) != 3 {
			t.Errorf("of 4 connections %d are kept, want 3", len(p.conns[origin{host: "a"}]))
		}
		p.conns[origin{host: "a"}][2].until = time.Now()
		p.mu.Unlock()
		if p.pop(origin{host: "b"}) != nil {
			t.Error("got a connection to another host")
		}
		if p.take(origin{host: "a"}); closed.Load() < 5 {
			t.Error("an old connection was taken")
		}
		p.drop(time.Now().Add(idleTimeout))
		time.Sleep(idleTimeout)
	})
}

// TestCancelWhileDialing has a name that is never resolved.
func TestCancelWhileDialing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client := &http.Client{Transport: newTransport(newDialer(true, resolver))}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://slow.test./", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := client.Transport.RoundTrip(r); !errors.Is(err, context.Canceled) ||
		time.Since(begin) > connectTimeout {
		t.Errorf("got error %v after %v, want %v at once", err, time.Since(begin), context.Canceled)
	}
}

// TestRest shows what net/http is told for the requests that are left to it. It is inside
// the package because that is no outside matter.
func TestRest(t *testing.T) {
	t.Parallel()
	rest := newTransport(newDialer(false, nil)).rest
	if rest.Proxy != nil {
		t.Error("it looks for a proxy")
	}
	if rest.TLSClientConfig.InsecureSkipVerify || rest.TLSClientConfig.MinVersion < 0x0303 {
		t.Errorf("got TLS from version %#x, verified: %v; want 1.2 and yes", rest.TLSClientConfig.MinVersion,
			!rest.TLSClientConfig.InsecureSkipVerify)
	}
}
