package redis_test

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestMoveAsDescribedLosesNothing takes the steps of docs/redis.md, while a replica
// writes: another server becomes a copy, writes are held back, the copy becomes a server
// of its own and takes over the address. No write that was answered may be lost, and the
// generation must stay, or sessions would end.
func TestMoveAsDescribedLosesNothing(t *testing.T) {
	t.Parallel()
	before, after := redistest.StartOpen(t), redistest.StartOpen(t)
	a, b, told := pair(t, redis.Config{Addresses: []string{before.Address}})
	first := agreed(t, a, b, "")

	var moved atomic.Bool
	var written []string
	var writing sync.WaitGroup
	begun := make(chan struct{})
	writing.Go(func() {
		for n := 0; !moved.Load(); n++ {
			key := redis.CommonKey("written", strconv.Itoa(n))
			if _, err := a.Do(t.Context(), redis.Command{
				Name: "SET", Key: key,
				Args: []string{"x", "PX", "600000"},
			}); err == nil {
				written = append(written, key)
			}
			if n == 100 {
				close(begun)
			}
		}
	})
	<-begun
	host, port, _ := net.SplitHostPort(before.Address)
	after.Exec(t, "REPLICAOF", host, port)
	offset := regexp.MustCompile(`master_repl_offset:(\d+)`)
	same := func() error {
		here, there := before.Exec(t, "INFO", "replication"), after.Exec(t, "INFO", "replication")
		if !regexp.MustCompile(`master_link_status:up`).MatchString(there) {
			return errors.New("the copy is not whole yet")
		}
		if x, y := offset.FindString(here), offset.FindString(there); x != y {
			return fmt.Errorf("%s here and %s there", x, y)
		}
		return nil
	}
	redistest.Wait(t, func() error {
		if !regexp.MustCompile(`master_link_status:up`).MatchString(after.Exec(t, "INFO", "replication")) {
			return errors.New("the copy is not whole yet")
		}
		return nil
	})
	before.Exec(t, "CLIENT", "PAUSE", "600000", "WRITE")
	redistest.Wait(t, same)
	after.Exec(t, "REPLICAOF", "NO", "ONE")
	before.Stop()
	after.Exec(t, "CONFIG", "SET", "port", port) // it takes over the address
	after.Address = before.Address
	for _, store := range []*redis.Store{a, b} { // which may be down for less than a look takes
		redistest.Wait(t, func() error {
			key := redis.CommonKey("written", "0")
			_, err := store.Do(t.Context(), redis.Command{Name: "EXISTS", Key: key})
			return err
		})
	}
	moved.Store(true)
	writing.Wait()

	for _, key := range written {
		reply, err := a.Do(t.Context(), redis.Command{Name: "EXISTS", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := reply.Int(); n != 1 || err != nil {
			t.Errorf("%s was answered, and is not there: %v", key, err)
		}
	}
	if now := agreed(t, a, b, ""); now != first || told.Load() != 0 {
		t.Errorf("the generation was %q and is %q, told %d times", first, now, told.Load())
	}
	if len(written) < 100 {
		t.Errorf("%d writes were answered", len(written))
	}
}
