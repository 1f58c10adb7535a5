package once

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// RedisConfig is what a Redis needs. Every field is required but Room, Quota and Now.
type RedisConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Others replica.Others
	// Room is how many bytes of answers this replica may have in Redis, shared out among
	// tenants and users. Zero: 64 MiB.
	Room int64
	// Quota is what this replica may have in Redis altogether, in bytes, of which the
	// answers take their part. nil: answers alone are bounded.
	Quota *share.Budget
	Now   func() time.Time // that records show; nil: time.Now
}

// Redis is a Store that replicas share. A key is one record in Redis: claimed by whoever
// writes it first, in the one round trip that Begin takes. The replica that runs the
// request, its home, renews the claim for as long as that lasts.
//
// A repeat at another replica looks for the answer at growing intervals, and sends word
// to the home that somebody waits. When the home is gone, nobody knows whether the
// request ran, and the claim stays until it lapses by itself.
//
// Where Redis forgets, a request may run a second time: after a FLUSHALL, or a failover
// to a node that had not heard of a claim. The home claims what still runs there again as
// soon as it notices.
type Redis struct {
	config RedisConfig
	room   room

	mu     sync.Mutex        // guards the fields below
	claims map[string]*claim // that this replica has, by the texts of their records
	stale  []*claim          // that are in Redis as this replica's, which does not know of them
	lapses []lapse           // of what was written, the oldest first
}

var _ Store = (*Redis)(nil)

// lapse is when a part of the room is free again.
type lapse struct {
	at   time.Time
	user share.User
	held int64
}

const (
	defaultRoom = 64 << 20
	renewAfter  = Kept / 4
	settleTick  = time.Second
	lastTime    = time.Second           // for what is left to be written when Run ends
	firstLook   = 20 * time.Millisecond // after which a repeat looks for the answer again; doubled each time
	lastLook    = time.Second
	missedFor   = 3 * time.Second     // for which a replica must not be there to count as gone
	wantedFor   = 5 * time.Second / 2 // for which word that somebody waits counts
	maxStale    = 1000
	// word that somebody waits for the answer of a claim; holds its name and the text of
	// its record
	kindWaits = "waits 1"
)

// smallRecord is how large a record may be that is read without saying so before: others
// do not wait for what is larger.
const smallRecord = 4 << 10

// The scripts change a key only if it holds what the caller believes, in one step.
var (
	enter = redis.NewScript(`local v = redis.call('GET', KEYS[1])
if v and #v > tonumber(ARGV[3]) then return #v end
if v then return v end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false`)
	put = redis.NewScript(`local v = redis.call('GET', KEYS[1])
if v and v ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	drop = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
)

var keptMillis = strconv.FormatInt(Kept.Milliseconds(), 10)

// NewRedis returns a Redis. Run makes it live.
func NewRedis(cfg RedisConfig) *Redis {
	if cfg.Room <= 0 {
		cfg.Room = defaultRoom
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Redis{config: cfg, room: room{share.New(cfg.Room), cfg.Quota}, claims: make(map[string]*claim)}
	cfg.Others.Handle(kindWaits, s.heard)
	return s
}

// Begin implements Store.
func (s *Redis) Begin(ctx context.Context, r Request) (Claim, *Answer, error) {
	if err := s.config.Store.Up(); err != nil {
		// a claim that was not made needs no end: while Redis is away none would be
		// forgotten
		return nil, nil, err
	}
	s.sweep(time.Now())
	if err := s.room.take(r.User, claimCost); err != nil {
		return nil, nil, err
	}
	c := s.newClaim(r)
	answer, err := c.enter(ctx)
	if answer == nil && err == nil {
		return c, nil, nil
	}
	s.room.give(r.User, claimCost)
	return nil, answer, err
}

func (s *Redis) newClaim(r Request) *claim {
	c := &claim{store: s, request: r, key: keyOf(&r), renewed: time.Now()}
	p := record{state: running, at: s.config.Now(), body: r.Body, home: s.config.Others.Self()}
	c.text = p.seal(s.config.Seal, &r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c.text] = c
	return c
}

// pause returns after d, or earlier with the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// misses returns since when that replica is not there, zero while it is.
func (s *Redis) misses(home replica.ID, since time.Time) time.Time {
	switch {
	case s.config.Others.IsThere(home):
		return time.Time{}
	case since.IsZero():
		return time.Now()
	}
	return since
}

// wait tells the home of a claim that somebody waits for its answer. That it cannot be
// told is no error: the home then goes by the connection of its own client alone.
func (s *Redis) wait(ctx context.Context, home replica.ID, r *Request, text string) {
	if s.want(text) {
		return
	}
	word := replica.Word{
		Kind: kindWaits, Tenant: r.User.TenantID,
		Data: append(r.Name[:len(r.Name):len(r.Name)], text...),
	}
	_, _ = s.config.Others.Send(ctx, home, word) // see above
}

// want notes that somebody waits for the answer of a claim. It is false if this replica
// has no such claim.
func (s *Redis) want(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[text]
	if c != nil {
		c.wanted = time.Now()
	}
	return c != nil
}

// heard takes word that somebody waits for the answer of a claim of this replica. One
// that it does not know is of no request: it was written late, after whoever claimed had
// given up. Run drops it, unless something else stands there.
func (s *Redis) heard(_ context.Context, _ replica.ID, w replica.Word) ([]byte, error) {
	r := Request{User: share.User{TenantID: w.Tenant}}
	if len(w.Data) < len(r.Name) {
		return nil, nil
	}
	text := string(w.Data[copy(r.Name[:], w.Data):])
	if s.want(text) {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stale) < maxStale {
		s.stale = append(s.stale, &claim{store: s, request: r, key: keyOf(&r), text: text})
	}
	return nil, nil
}

// keyOf returns the key of a request in Redis.
func keyOf(r *Request) string { return redis.Key(r.User.TenantID, "once", r.name()) }

// lapse notes that a part of the room is free again after Kept.
func (s *Redis) lapse(u share.User, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapses = append(s.lapses, lapse{time.Now().Add(Kept), u, held})
}

// sweep gives back the room of what has lapsed.
func (s *Redis) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.lapses) && !now.Before(s.lapses[n].at) {
		s.room.give(s.lapses[n].user, s.lapses[n].held)
		n++
	}
	s.lapses = s.lapses[n:]
}

// Run renews the claims of requests that run here, and writes what could not be written
// at once, until ctx ends. Then it tries once more, for lastTime at most: nobody else can
// tell later how a request ended.
func (s *Redis) Run(ctx context.Context) error {
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep(time.Now())
			s.tend(ctx)
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
			defer stop()
			s.tend(last)
			return nil
		}
	}
}

// tend does for all claims what is due.
func (s *Redis) tend(ctx context.Context) {
	for _, c := range s.due(time.Now()) {
		c.tend(ctx)
	}
	for _, c := range s.takeStale() {
		_ = c.drop(ctx) // whoever waits for it says so again
	}
}

// due returns the claims for which something is to be written.
func (s *Redis) due(now time.Time) []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*claim
	for _, c := range s.claims {
		if c.end != nil || now.Sub(c.renewed) > renewAfter {
			due = append(due, c)
		}
	}
	return due
}

// takeStale returns the claims that are to be dropped.
func (s *Redis) takeStale() []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	stale := s.stale
	s.stale = nil
	return stale
}
