package once

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// RedisConfig is what a Redis needs. Every field is required but Now.
type RedisConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Others replica.Others
	Quota  *share.Budget    // what this replica may have in Redis altogether, in bytes
	Now    func() time.Time // that records show; nil: time.Now
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
	store

	config RedisConfig
}

var (
	_ Store  = (*Redis)(nil)
	_ keeper = (*Redis)(nil)
)

const (
	quotaPart  = 2 // answers may take the Quota divided by this
	renewAfter = Retention / 4
	settleTick = time.Second
	lastTime   = time.Second // for what is left to be written when Run ends
)

// smallRecord is how large a record may be that is read at once: others do not wait for
// what is larger.
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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Redis{config: cfg}
	s.kept, s.claims, s.others, s.now = s, make(map[[sha256.Size]byte]*claim), cfg.Others, cfg.Now
	s.budgets = newBudgets(cfg.Quota, quotaPart)
	cfg.Store.OnLoss(s.reclaim)
	return s
}

// begin implements keeper. While Redis is away nothing is claimed: such a claim would
// need an end that cannot be written.
func (s *Redis) begin(r *Request) (string, error) {
	if err := s.config.Store.Up(); err != nil {
		return "", err
	}
	p := record{state: running, at: s.now(), body: r.Body, home: s.others.Self()}
	return p.seal(s.config.Seal, r), nil
}

// enter implements keeper.
func (s *Redis) enter(ctx context.Context, c *claim) (*record, error) {
	reply, err := enter.RunSized(ctx, s.config.Store, smallRecord, 2*MaxAnswer, []string{keyOf(&c.request)},
		[]string{c.text, retentionMillis})
	if err != nil || reply.Nil() {
		return nil, err
	}
	text, _ := reply.Text()                             // "" for what no replica has written
	p, _ := openRecord(s.config.Seal, &c.request, text) // likewise: such a record is stale
	p.text = text
	return &p, nil
}

// end implements keeper.
func (s *Redis) end(ctx context.Context, c *claim, p *record) error {
	if err := s.config.Store.Up(); err != nil {
		return err // before a record is sealed for nothing
	}
	text := ""
	if p != nil {
		text = p.seal(s.config.Seal, &c.request)
	}
	return s.put(ctx, c, text)
}

// put writes another record under the key of a claim if it has that one or none; ""
// forgets it.
func (s *Redis) put(ctx context.Context, c *claim, text string) error {
	args := []string{c.text, text, retentionMillis}
	_, err := put.Run(ctx, s.config.Store, []string{keyOf(&c.request)}, args)
	return err
}

// keyOf returns the key of a request in Redis.
func keyOf(r *Request) string { return redis.Key(r.User.TenantID, "once", r.name()) }

// reclaim has Run claim again what runs here: Redis may have forgotten it.
func (s *Redis) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		c.renewed = time.Time{}
	}
}

// Run renews the claims of requests that run here, and writes what could not be written
// at once, until ctx ends. Then it tries once more, for lastTime at most: nobody else can
// tell later how a request ended.
func (s *Redis) Run(ctx context.Context) error {
	pace.Every(ctx, settleTick, s.tendAll)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer stop()
	s.tendAll(last)
	return nil
}

// tendAll does for all claims what is due.
func (s *Redis) tendAll(ctx context.Context) {
	for _, c := range s.due(time.Now()) {
		s.tend(ctx, c)
	}
}

// due returns the claims for which something is to be written.
func (s *Redis) due(now time.Time) []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*claim
	for _, c := range s.claims {
		if !c.ended.IsZero() || now.Sub(c.renewed) > renewAfter {
			due = append(due, c)
		}
	}
	return due
}

// tend renews a claim, or writes its end.
func (s *Redis) tend(ctx context.Context, c *claim) {
	s.mu.Lock()
	end, ended, before := c.end, c.ended, c.renewed
	c.renewed = time.Now() // now, so that a reclaim that comes meanwhile is not forgotten
	s.mu.Unlock()
	switch {
	case !ended.IsZero():
		if s.end(ctx, c, end) == nil || time.Since(ended) > 2*Retention {
			c.forget()
		}
	case s.put(ctx, c, c.text) != nil:
		s.mu.Lock()
		c.renewed = before
		s.mu.Unlock()
	}
}
