package primary

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// settleTime is for how long after a loss an entry that is not there may be written again
// by its primary.
const settleTime = 5 * time.Second

// RedisConfig is what a Redis needs. Every field is required.
type RedisConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Others replica.Others
	Life   time.Duration // of an entry that nobody renews
}

// Redis is a Store of several replicas, over what they share. An entry is a hash: the
// primary and the epoch, which scripts compare, one value that seals both together, and
// the facts, each sealed for its name. So whoever can write to the server can make a
// session forgotten, but cannot make a replica believe what no replica has said.
type Redis struct {
	config RedisConfig
	lost   atomic.Int64 // when the server has lost what it had, in nanoseconds since 1970; zero: it has not
}

var _ Store = (*Redis)(nil)

// NewRedis returns a Redis. It is called before cfg.Store runs.
func NewRedis(cfg RedisConfig) *Redis {
	s := &Redis{config: cfg}
	cfg.Store.OnGeneration(func() { s.lost.Store(time.Now().UnixNano()) })
	return s
}

// Names of the fields of an entry that are no facts, which begin with factPrefix.
const (
	fieldPrimary = "primary"
	fieldEpoch   = "epoch"
	fieldSeal    = "seal"
	factPrefix   = "fact-"
)

// What the scripts answer.
const (
	saidOK     = "ok"
	saidNone   = "none"
	saidFenced = "fenced"
)

// KeyOf returns the name of the key of an entry in Redis.
func KeyOf(k Key) string { return redis.Key(k.Tenant, "session", k.Name) }

// writing writes an entry. ARGV: primary, epoch, seal, milliseconds that it is kept, 1 if
// it may begin, and then facts by name and value, "" to forget one.
var writing = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local had = redis.call('HMGET', KEYS[1], 'epoch', 'primary')
local epoch = tonumber(had[1] or '')
if not epoch and ARGV[5] ~= '1' then return 'none' end
if epoch and (epoch > tonumber(ARGV[2]) or epoch == tonumber(ARGV[2]) and had[2] ~= ARGV[1])
  then return 'fenced' end
redis.call('HSET', KEYS[1], 'primary', ARGV[1], 'epoch', ARGV[2], 'seal', ARGV[3])
for i = 6, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[i])
    else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'ok'`)

// taking gives an entry to another primary. ARGV: primary and epoch as they must be, the
// new ones, seal, milliseconds. It returns the whole entry.
var taking = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return {'none'} end
local had = redis.call('HMGET', KEYS[1], 'primary', 'epoch')
if not had[2] then return {'none'} end
if had[1] ~= ARGV[1] or had[2] ~= ARGV[2] then return {'fenced'} end
redis.call('HSET', KEYS[1], 'primary', ARGV[3], 'epoch', ARGV[4], 'seal', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {'ok', redis.call('HGETALL', KEYS[1])}`)

// ending forgets an entry. ARGV: the epoch of who ends the session.
var ending = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '')
  if epoch and epoch > tonumber(ARGV[1]) then return 'fenced' end
end
redis.call('DEL', KEYS[1])
return 'ok'`)

// Open implements Store.
func (s *Redis) Open(ctx context.Context, k Key, r Entry) error { return s.write(ctx, k, r, "1") }

// Keep implements Store.
func (s *Redis) Keep(ctx context.Context, k Key, r Entry) error { return s.write(ctx, k, r, "0") }

func (s *Redis) write(ctx context.Context, k Key, r Entry, begins string) error {
	args := []string{string(r.Primary), epochText(r.Epoch), s.seal(k, r), redis.Millis(s.config.Life), begins}
	for name, text := range r.Facts {
		if text != "" {
			text = string(s.config.Seal.SealBytes(factPurpose(k, name), []byte(text)))
		}
		args = append(args, factPrefix+name, text)
	}
	return s.said(writing.Run(ctx, s.config.Store, []string{KeyOf(k)}, args))
}

// said returns what the answer of a script means.
func (s *Redis) said(reply redis.Reply, err error) error {
	if err != nil {
		return err
	}
	switch said, err := reply.Text(); {
	case err != nil:
		return fmt.Errorf("%w: %w", redis.ErrDown, err)
	case said == saidNone:
		return ErrNone
	case said == saidFenced:
		return ErrFenced
	}
	return nil
}

// Read implements Store.
func (s *Redis) Read(ctx context.Context, k Key) (Entry, error) {
	reply, err := s.config.Store.Do(ctx, redis.Command{Name: "HGETALL", Key: KeyOf(k)})
	if err != nil {
		return Entry{}, err
	}
	return s.read(ctx, k, reply)
}

// errLost says that the server has lost what it had. Whoever leads a session writes its
// entry again.
var errLost = fmt.Errorf("redis has lost what replicas shared, and it is written again: %w", redis.ErrDown)

// none returns the error for an entry that is not there. The server may have lost it a
// moment ago, and nobody has seen that yet: then its generation is gone, too.
func (s *Redis) none(ctx context.Context) error {
	if time.Since(time.Unix(0, s.lost.Load())) < settleTime {
		return errLost
	}
	lost, err := s.config.Store.HasLost(ctx)
	switch {
	case err != nil:
		return err
	case lost:
		return errLost
	}
	return ErrNone
}

// read reads the entry that the server has.
func (s *Redis) read(ctx context.Context, k Key, reply redis.Reply) (r Entry, _ error) {
	fields, err := reply.Fields()
	if err != nil {
		return r, s.refuse(ctx, k)
	}
	if len(fields) == 0 {
		return r, s.none(ctx)
	}
	epoch, err := strconv.ParseUint(fields[fieldEpoch], 10, 64)
	r.Primary, r.Epoch = replica.ID(fields[fieldPrimary]), epoch
	if err == nil {
		_, err = s.config.Seal.OpenBytes(recordPurpose(k, r), []byte(fields[fieldSeal]))
	}
	if err != nil {
		return Entry{}, s.refuse(ctx, k)
	}
	for field, sealed := range fields {
		name, isFact := strings.CutPrefix(field, factPrefix)
		if !isFact || name == "" {
			continue // a later version may have other fields
		}
		plain, err := s.config.Seal.OpenBytes(factPurpose(k, name), []byte(sealed))
		if err != nil {
			return Entry{}, s.refuse(ctx, k)
		}
		if r.Facts == nil {
			r.Facts = make(map[string]string)
		}
		r.Facts[name] = string(plain)
	}
	return r, nil
}

// refuse notes that what is in the server was not written by a replica, or by one of a
// later version.
func (s *Redis) refuse(ctx context.Context, k Key) error {
	return replica.Refuse(ctx, s.config.Others, s.config.Store, ErrNone, slog.String("tenant", k.Tenant))
}

// Take implements Store. An epoch is the time in milliseconds where that is higher than
// the one before: so it is also higher than what a server that failed over has forgotten.
func (s *Redis) Take(ctx context.Context, k Key, from Entry, to replica.ID) (Entry, error) {
	r := Entry{Primary: to, Epoch: max(from.Epoch+1, Epoch())}
	args := []string{
		string(from.Primary), epochText(from.Epoch), string(to), epochText(r.Epoch),
		s.seal(k, r), redis.Millis(s.config.Life),
	}
	reply, err := taking.Run(ctx, s.config.Store, []string{KeyOf(k)}, args)
	if err != nil {
		return Entry{}, err
	}
	parts, err := reply.List()
	if err != nil || len(parts) == 0 {
		return Entry{}, s.refuse(ctx, k)
	}
	if err := s.said(parts[0], nil); err != nil {
		return Entry{}, err
	}
	if len(parts) < 2 {
		return Entry{}, s.refuse(ctx, k)
	}
	return s.read(ctx, k, parts[1])
}

// End implements Store.
func (s *Redis) End(ctx context.Context, k Key, epoch uint64) error {
	return s.said(ending.Run(ctx, s.config.Store, []string{KeyOf(k)}, []string{epochText(epoch)}))
}

// Renew implements Store.
func (s *Redis) Renew(ctx context.Context, keys []Key) (missing []Key, _ error) {
	commands, life := make([]redis.Command, 0, len(keys)), []string{redis.Millis(s.config.Life)}
	for _, k := range keys {
		commands = append(commands, redis.Command{Name: "PEXPIRE", Key: KeyOf(k), Args: life})
	}
	replies, err := s.config.Store.DoAll(ctx, commands...)
	for i, reply := range replies {
		if found, err := reply.Int(); err == nil && found == 0 {
			missing = append(missing, keys[i])
		}
	}
	return missing, err
}

// OnLoss implements Store.
func (s *Redis) OnLoss(f func()) { s.config.Store.OnLoss(f) }

func (s *Redis) seal(k Key, r Entry) string {
	return string(s.config.Seal.SealBytes(recordPurpose(k, r), nil))
}

// Epoch returns the epoch of a session that opens now.
func Epoch() uint64 { return uint64(max(1, time.Now().UnixMilli())) }

func epochText(epoch uint64) string { return strconv.FormatUint(epoch, 10) }

// Purposes for which values are sealed: none is taken for another one. Only the last part
// may hold a NUL.
func recordPurpose(k Key, r Entry) string {
	return "record 1\x00" + k.Tenant + "\x00" + k.Name + "\x00" + epochText(r.Epoch) + "\x00" +
		string(r.Primary)
}

func factPurpose(k Key, name string) string {
	return "fact 1\x00" + k.Tenant + "\x00" + k.Name + "\x00" + name
}
