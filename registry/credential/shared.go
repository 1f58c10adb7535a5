package credential

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Shared is where replicas keep what endpoints gave, so that each token is asked for by
// one of them:
//
//	KEY          a token, sealed for that key, with its end; gone with it
//	KEY:asking   one replica asks; the others look for its answer
//
// The key is a digest of what is asked for and of the token that is shown for it. Whoever
// cannot reach Redis asks for itself, and so does who waited in vain: then an endpoint is
// asked more often than it need be, and nothing else is lost.
type Shared struct {
	Store *redis.Store
	Seal  *seal.Ring
	Quota *share.Budget // bytes that this replica may put into Redis
}

const (
	sharedPatience = 5 * time.Second        // until the answer of another replica is not waited for any more
	firstPoll      = 20 * time.Millisecond  // after which that is looked for again; doubled each time
	lastPoll       = 400 * time.Millisecond // and at most
	sharedCost     = 256                    // bytes of a key in Redis beside its value
	sharedHeader   = 16                     // bytes before a token: its end, and its life
)

// common is one credential that replicas share.
type common struct {
	*Shared

	now  func() time.Time
	key  string // in Redis
	user share.User

	// Only the one flight of a cell uses these two.
	cost  int64       // bytes that are taken for what is kept
	lapse *time.Timer // gives them back when that is gone; nil: nothing was kept
}

// newCommon returns what is shared of one credential of a spec, nil if nothing is. tenant
// is "" for what all have in common.
func (l *life) newCommon(spec any, tenant string, user share.User, token [sha256.Size]byte) *common {
	if l.cfg.Shared == nil {
		return nil
	}
	text := must(strictjson.Marshal(spec)) // texts alone
	sum := sha256.Sum256(append(append(text, user.TenantID+"\x00"+user.Subject+"\x00"...), token[:]...))
	return &common{
		Shared: l.cfg.Shared, now: l.cfg.Now, user: user,
		key: redis.Key(tenant, "credential", base64.RawURLEncoding.EncodeToString(sum[:])),
	}
}

// fetch returns what another replica was given, or asks and keeps the answer for the
// others. spurned is a value that the server has refused. A nil c asks.
func (c *common) fetch(ctx context.Context, spurned string, ask func(context.Context) (issued, error)) (
	issued, error,
) {
	if c == nil || c.Store.Up() != nil {
		return ask(ctx)
	}
	until := time.Now().Add(sharedPatience)
	for pause := firstPoll; time.Now().Before(until); pause = min(2*pause, lastPoll) {
		mine, err := c.claim(ctx)
		if err != nil {
			return ask(ctx)
		}
		known, found := c.read(ctx, spurned)
		if mine {
			defer c.release(context.WithoutCancel(ctx))
		}
		switch {
		case found:
			return known, nil
		case mine:
			got, err := ask(ctx)
			if err == nil {
				c.keep(ctx, got)
			}
			return got, err
		}
		if !pace.Wait(ctx, pause) {
			return issued{}, failed(FaultAway, "another replica asks for the token, and has none yet")
		}
	}
	return ask(ctx)
}

// claim makes this replica the one that asks. It is false while another one is.
func (c *common) claim(ctx context.Context) (bool, error) {
	reply, err := c.Store.Do(ctx, redis.Command{Name: "SET", Key: c.key + ":asking", Args: []string{
		"1", "NX", "PX", redis.Millis(askLimit + sharedPatience),
	}})
	return err == nil && !reply.Nil(), err
}

func (c *common) release(ctx context.Context) {
	// what is not released lapses by itself
	_, _ = c.Store.Do(ctx, redis.Command{Name: "DEL", Key: c.key + ":asking"})
}

// read returns what is kept, unless it is about to end or was refused.
func (c *common) read(ctx context.Context, spurned string) (issued, bool) {
	reply, err := c.Store.Do(ctx, redis.Command{Name: "GET", Key: c.key, Answer: 2 * maxToken})
	if err != nil || reply.Nil() {
		return issued{}, false
	}
	text, err := reply.Text()
	if err != nil {
		return issued{}, false
	}
	plain, err := c.Seal.OpenBytes(c.key, []byte(text))
	if err != nil || len(plain) <= sharedHeader {
		return issued{}, false // of keys that this replica does not have yet
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))  //nolint:gosec // written as one
	whole := time.Duration(binary.BigEndian.Uint64(plain[8:]))      //nolint:gosec // written as one
	value, rest := string(plain[sharedHeader:]), until.Sub(c.now()) // in the time of the gateway
	if value == spurned || rest <= margin(whole) {
		return issued{}, false
	}
	return issued{headers: newHeaders(authorization, value), life: rest}, true
}

// keep puts what was given where the others see it. If there is no room for it, they ask
// for themselves.
func (c *common) keep(ctx context.Context, got issued) {
	value := got.headers.values[0]
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, sharedHeader+len(value)),
		uint64(c.now().Add(got.life).UnixMilli()))
	plain = append(binary.BigEndian.AppendUint64(plain, uint64(got.life)), value...) //nolint:gosec // it is positive
	sealed := c.Seal.SealBytes(c.key, plain)
	cost := int64(len(sealed) + len(c.key) + sharedCost)
	if c.Quota.Take(c.user, cost) != nil {
		return
	}
	_, err := c.Store.Do(ctx, redis.Command{Name: "SET", Key: c.key, Args: []string{
		string(sealed), "PX", redis.Millis(got.life),
	}})
	if err != nil { // the others ask for themselves
		c.Quota.Give(c.user, cost)
		return
	}
	if c.lapse != nil && c.lapse.Stop() {
		c.Quota.Give(c.user, c.cost) // of what it has replaced
	}
	c.cost, c.lapse = cost, time.AfterFunc(got.life, func() { c.Quota.Give(c.user, cost) })
}
