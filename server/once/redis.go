package once

import (
	"cmp"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// RedisConfig is what a Redis needs. Every field is required but Capacity, Quota and Now.
type RedisConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Others replica.Others
	// Capacity is how many bytes of answers this replica may have in Redis, shared out
	// among tenants and users. Zero: 64 MiB.
	Capacity int64
	// Quota is what this replica may have in Redis altogether, in bytes, of which the
	// answers take their part. nil: answers alone are bounded.
	Quota *share.Budget
	Now   func() time.Time // that records show; nil: time.Now
}

// Redis is a Store that replicas share. A key is one record in Redis: claimed by whoever
// writes it first, in the one round trip that Begin takes. The replica that runs the
// request, its home, renews the claim for as long as that lasts.
//
// A repeat at the home waits there. One at another replica is told where the home is, for
// its caller to have it answered there. When the home is gone, nobody knows whether the
// request ran, and the claim stays until it lapses by itself.
//
// Where Redis forgets, a request may run a second time: after a FLUSHALL, or a failover
// to a node that had not heard of a claim. The home claims what still runs there again as
// soon as it notices.
type Redis struct {
	config  RedisConfig
	budgets budgets

	mu     sync.Mutex                   // guards the fields below
	claims map[[sha256.Size]byte]*claim // that this replica has, by the names of their requests
	lapses []lapse                      // of what was written, the oldest first
}

var _ Store = (*Redis)(nil)

// lapse is when a part of the room is free again.
type lapse struct {
	at   time.Time
	user share.User
	size int64
}

const (
	defaultCapacity = 64 << 20
	renewAfter      = Retention / 4
	settleTick      = time.Second
	lastTime        = time.Second            // for what is left to be written when Run ends
	missedFor       = 3 * time.Second        // for which a replica must not be there to count as gone
	missedRecheck   = 250 * time.Millisecond // after which it is looked for again
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
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
)

var retentionMillis = redis.Millis(Retention)

// NewRedis returns a Redis. It is called before cfg.Store runs. Run makes it live.
func NewRedis(cfg RedisConfig) *Redis {
	cfg.Capacity = cmp.Or(cfg.Capacity, defaultCapacity)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Redis{
		config: cfg, budgets: budgets{share.New(cfg.Capacity), cfg.Quota},
		claims: make(map[[sha256.Size]byte]*claim),
	}
	cfg.Store.OnLoss(s.reclaim)
	return s
}

// reclaim has Run claim again what runs here: Redis may have forgotten it.
func (s *Redis) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		c.renewed = time.Time{}
	}
}

// Begin implements Store.
func (s *Redis) Begin(ctx context.Context, r Request) (Claim, *Answer, error) {
	if err := s.config.Store.Up(); err != nil {
		// a claim that was not made needs no end: while Redis is away none would be
		// forgotten
		return nil, nil, err
	}
	s.sweep(time.Now())
	for missed := (time.Time{}); ; {
		c, err := s.newClaim(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		found, err := c.enter(ctx)
		if found == nil && err == nil {
			return c, nil, nil
		}
		s.budgets.give(r.User, claimCost)
		switch {
		case err != nil:
			return nil, nil, err
		case found.state == answered:
			return nil, &found.answer, nil
		}
		switch home := found.home; {
		case home == s.config.Others.Self():
			// of no request: it was written late, after whoever claimed had given up
			if err := c.put(ctx, found.text, ""); err != nil {
				return nil, nil, err
			}
			continue
		case s.config.Others.IsThere(home):
			return nil, nil, &ElsewhereError{home}
		case missed.IsZero():
			missed = time.Now()
		case time.Since(missed) > missedFor:
			return nil, nil, ErrUnknown
		}
		if !pace.Wait(ctx, missedRecheck) {
			return nil, nil, context.Cause(ctx)
		}
	}
}

// newClaim enters a claim, once there is no other for its key at this replica.
func (s *Redis) newClaim(ctx context.Context, r Request) (*claim, error) {
	c := &claim{
		store: s, request: r, key: keyOf(&r), renewed: time.Now(), flight: flight{over: make(chan struct{})},
	}
	p := record{state: running, at: s.config.Now(), body: r.Body, home: s.config.Others.Self()}
	c.text = p.seal(s.config.Seal, &r)
	for {
		s.mu.Lock()
		other := s.claims[r.Name]
		switch {
		case other != nil && other.request.Body != r.Body:
			s.mu.Unlock()
			return nil, ErrBody
		case other == nil:
			err := s.budgets.take(r.User, claimCost)
			if err == nil {
				s.claims[r.Name] = c
			}
			s.mu.Unlock()
			return c, err
		}
		other.waiting.Add(1)
		s.mu.Unlock()
		if err := other.await(ctx); err != nil {
			return nil, err
		}
	}
}

// keyOf returns the key of a request in Redis.
func keyOf(r *Request) string { return redis.Key(r.User.TenantID, "once", r.name()) }

// lapse notes that a part of the room is free again after Retention.
func (s *Redis) lapse(u share.User, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapses = append(s.lapses, lapse{time.Now().Add(Retention), u, size})
}

// sweep gives back the room of what has lapsed.
func (s *Redis) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.lapses) && !now.Before(s.lapses[n].at) {
		s.budgets.give(s.lapses[n].user, s.lapses[n].size)
		n++
	}
	s.lapses = s.lapses[n:]
}

// Run renews the claims of requests that run here, and writes what could not be written
// at once, until ctx ends. Then it tries once more, for lastTime at most: nobody else can
// tell later how a request ended.
func (s *Redis) Run(ctx context.Context) error {
	pace.Every(ctx, settleTick, func(ctx context.Context) {
		s.sweep(time.Now())
		s.tend(ctx)
	})
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer stop()
	s.tend(last)
	return nil
}

// tend does for all claims what is due.
func (s *Redis) tend(ctx context.Context) {
	for _, c := range s.due(time.Now()) {
		c.tend(ctx)
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
