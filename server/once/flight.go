package once

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Flights keeps a request of a session, known by its JSON-RPC id, from running on two replicas at once. It knows nothing
// of answers: what is answered may be asked again. Unlike a Store it lets requests run while Redis is gone; a duplicate
// that a load balancer sends to another replica just then runs there too.
type Flights struct {
	store *redis.Store

	landing sync.WaitGroup // claims that are being given back; Run waits for them
	mu      sync.Mutex     // guards the field below
	open    map[*Flight]struct{}
}

// A claim lasts for as long as its replica renews it, and flightLife after that. So the id of a request whose replica died
// is free again soon.
const (
	flightLife  = 30 * time.Second
	flightRenew = 10 * time.Second
)

// Some clients give each request the same id. Then a request may come while the claim of the one before, whose answer the
// client has, is being given back. So an id that is taken is claimed again after these pauses, 310 ms in all.
const (
	flightWait  = 10 * time.Millisecond  // doubled each time
	flightWaits = 160 * time.Millisecond // the longest
)

var flightMillis = strconv.FormatInt(flightLife.Milliseconds(), 10)

// NewFlights returns a Flights. Run makes it live.
func NewFlights(store *redis.Store) *Flights {
	return &Flights{store: store, open: make(map[*Flight]struct{})}
}

// Flight is one request that is in flight. A nil Flight is the only one of its id.
type Flight struct {
	flights *Flights
	key     string
	text    string        // by which the claim is known as this one
	asked   chan struct{} // closed when Redis has answered, or did not
	taken   bool          // another replica has it; read after asked
}

// Begin claims the id of a request of a session. It does not wait: the answer of Redis comes while the caller does other
// work, and Taken waits for it. ctx is that of the request and must not end before Land.
func (f *Flights) Begin(ctx context.Context, tenant, session, id string) *Flight {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	name := sha256.Sum256([]byte(session + "\x00" + id))
	t := &Flight{flights: f, key: redis.Key(tenant, "flight", hex.EncodeToString(name[:])), text: hex.EncodeToString(random[:]), asked: make(chan struct{})}
	go t.claim(ctx) // Taken waits for it
	return t
}

func (t *Flight) claim(ctx context.Context) {
	defer close(t.asked)
	for wait := flightWait; ; wait *= 2 {
		reply, err := t.flights.store.Do(ctx, redis.Command{Name: "SET", Key: t.key, Args: []string{t.text, "NX", "PX", flightMillis}})
		if t.taken = err == nil && reply.Nil(); !t.taken {
			break
		}
		if wait > flightWaits {
			return
		}
		<-time.After(wait)
	}
	t.flights.mu.Lock()
	t.flights.open[t] = struct{}{}
	t.flights.mu.Unlock()
}

// Taken tells whether another request with that id is in flight. It waits for the answer of Redis, which is within the
// patience of the Store, or a little later for an id that is taken.
func (t *Flight) Taken() bool {
	if t == nil {
		return false
	}
	<-t.asked
	return t.taken
}

// Land frees the id. It is called once, when the request is answered, and waits for nothing.
func (t *Flight) Land(ctx context.Context) {
	if t == nil {
		return
	}
	t.flights.landing.Go(func() {
		if t.Taken() {
			return
		}
		t.flights.mu.Lock()
		delete(t.flights.open, t)
		t.flights.mu.Unlock()
		_, _ = drop.Run(context.WithoutCancel(ctx), t.flights.store, []string{t.key}, []string{t.text}) // or it lapses by itself
	})
}

// Run renews the claims of requests that are in flight here, until ctx ends. It is called when no further request begins
// after that.
func (f *Flights) Run(ctx context.Context) error {
	defer f.landing.Wait()
	tick := time.NewTicker(flightRenew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.renew(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// renew renews all claims. One that Redis has forgotten stays forgotten: its session is, too.
func (f *Flights) renew(ctx context.Context) {
	f.mu.Lock()
	open := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, t := range open {
		_, _ = extend.Run(ctx, f.store, []string{t.key}, []string{t.text, flightMillis}) // see Flights for what holds without Redis
	}
}

var extend = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`)
