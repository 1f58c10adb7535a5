package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// narrow starts a proxy before a server of which each connection takes so many bytes, and
// then no more.
func narrow(t *testing.T, server string, most int64) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var pumps sync.WaitGroup
	serve := func(client net.Conn) {
		defer client.Close()
		upstream, err := new(net.Dialer).DialContext(ctx, "tcp", server)
		if err != nil {
			return
		}
		defer upstream.Close()
		defer context.AfterFunc(ctx, func() { _ = client.Close(); _ = upstream.Close() })()
		pumps.Go(func() { _, _ = io.Copy(client, upstream) })
		if n, _ := io.CopyN(upstream, client, most); n == most {
			<-ctx.Done()
		}
	}
	pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			pumps.Go(func() { serve(client) })
		}
	})
	t.Cleanup(func() { stop(); _ = listener.Close(); pumps.Wait() })
	return listener.Addr().String()
}

// TestLargeValueFailsItsCallAlone: one that never arrives whole fails, and the next call
// is made. Whoever sent large requests that one replica passes to another had both do
// without Redis.
func TestLargeValueFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("x", 4<<20)
	script := redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	for name, write := range map[string]func(context.Context, *redis.Store, string) error{
		"command": func(ctx context.Context, s *redis.Store, value string) error {
			_, err := s.Do(ctx, redis.Command{Name: "SET", Key: redis.CommonKey("x"), Args: []string{value}})
			return err
		},
		"script": func(ctx context.Context, s *redis.Store, value string) error {
			_, err := script.Run(ctx, s, []string{redis.CommonKey("x")}, []string{value})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			cfg, counts := counted(redis.Config{
				Addresses: []string{narrow(t, server.Address, 1<<20)},
				Patience:  redistest.Patience,
			})
			store := redistest.Run(t, redis.New(cfg))
			if err := write(t.Context(), store, whole); !errors.Is(err, redis.ErrDown) {
				t.Errorf("what never arrives whole: got %v, want ErrDown", err)
			}
			if err := write(t.Context(), store, "small"); err != nil {
				t.Errorf("the next call: %v", err)
			}
			if opened := counts.openings(); len(opened) != 0 {
				t.Errorf("calls stopped: %v", opened)
			}
			if err := write(t.Context(), server.Store(t), whole); err != nil {
				t.Errorf("a large value that arrives: %v", err)
			}
			if size := server.Exec(t, "STRLEN", redis.CommonKey("x")); size != "4194304" {
				t.Errorf("the value has %s bytes", size)
			}
		})
	}
}

// overSlowConnections returns a store over connections that carry 1 MB a second, of a
// server with values of these sizes.
func overSlowConnections(t *testing.T, patience time.Duration, sizes map[string]int) (*redis.Store, *counts) {
	t.Helper()
	server := redistest.StartOne(t)
	for key, size := range sizes {
		if _, err := server.Store(t).Do(t.Context(), redis.Command{
			Name: "SET", Key: key, Args: []string{strings.Repeat("x", size)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	proxy := redistest.NewProxy(t, server.Address)
	proxy.Rate(1 << 20)
	cfg, counts := counted(redis.Config{Addresses: []string{proxy.Address}, Patience: patience})
	store := redistest.Run(t, redis.New(cfg))
	redistest.WaitUp(t, store)
	return store, counts
}

// TestLargeAnswersDelayNoOthers has one tenant ask for 20 MB at once, over connections
// that carry 1 MB a second. All answers of everybody waited behind those, so that another
// tenant's calls were late, and the replica did without the server.
func TestLargeAnswersDelayNoOthers(t *testing.T) {
	t.Parallel()
	const patience, size, calls = 8 * time.Second, 64 << 10, 300
	busy, quiet := redis.Key("acme", "x"), redis.Key("globex", "x")
	store, counts := overSlowConnections(t, patience, map[string]int{busy: size, quiet: 1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var answered atomic.Int64
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := store.Do(ctx, redis.Command{Name: "GET", Key: busy, Answer: size}); err == nil {
				answered.Add(1)
			}
		})
	}
	for began := time.Now(); time.Since(began) < patience+2*time.Second; {
		if _, err := store.Do(t.Context(), redis.Command{Name: "GET", Key: quiet}); err != nil {
			t.Fatalf("a call of another tenant: %v", err)
		}
	}
	stop()
	all.Wait()
	if opened := counts.openings(); len(opened) != 0 {
		t.Errorf("calls stopped: %v", opened)
	}
	if answered.Load() < 20 {
		t.Errorf("%d large answers came, want those that there is time for", answered.Load())
	}
}

// TestAnswersOfThoseWhoLeaveDelayNoOthers has one tenant ask over and over for answers
// that it does not wait for, over a connection that carries 1 MB a second. What was under
// way for who had left counted as nothing.
func TestAnswersOfThoseWhoLeaveDelayNoOthers(t *testing.T) {
	t.Parallel()
	const patience, size, calls = 8 * time.Second, 64 << 10, 300
	busy, quiet := redis.Key("acme", "x"), redis.Key("globex", "x")
	store, counts := overSlowConnections(t, patience, map[string]int{busy: size, quiet: 1})
	for range calls {
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		_, _ = store.Do(ctx, redis.Command{Name: "GET", Key: busy, Answer: size})
		leave()
	}
	if _, err := store.Do(t.Context(), redis.Command{Name: "GET", Key: quiet}); err != nil {
		t.Errorf("a call of another tenant: %v", err)
	}
	if opened := counts.openings(); len(opened) != 0 {
		t.Errorf("calls stopped: %v", opened)
	}
}
