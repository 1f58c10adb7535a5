package primary

import (
	"context"
	"errors"
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

// What the script answers besides that it is done.
const (
	saidNone   = "none"
	saidFenced = "fenced"
)

// KeyOf returns the name of the key of an entry in Redis.
func KeyOf(k Key) string { return redis.Key(k.Tenant, "session", k.Name) }

// changing changes an entry as one step. ARGV: what is done ("open", "keep", "end"), the
// primary and the epoch that do it, their seal, milliseconds that the entry is kept, the
// primary and the epoch that must be there, if that is not 0, and then facts by name and
// value, "" to forget one. It returns what became of it and, where something must be
// there, the whole entry.
var changing = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local had = redis.call('HMGET', KEYS[1], 'primary', 'epoch')
local epoch, mine = tonumber(had[2] or ''), tonumber(ARGV[3])
if epoch and (epoch > mine or epoch == mine and had[1] ~= ARGV[2] and ARGV[1] ~= 'end')
  then return {'fenced', false} end
if ARGV[1] == 'end' then
  redis.call('DEL', KEYS[1])
  return {'ok', false}
end
if not epoch and ARGV[1] ~= 'open' then return {'none', false} end
local takes = ARGV[7] ~= '0'
if takes and (had[1] ~= ARGV[6] or had[2] ~= ARGV[7]) then return {'fenced', false} end
redis.call('HSET', KEYS[1], 'primary', ARGV[2], 'epoch', ARGV[3], 'seal', ARGV[4])
for i = 8, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[i])
    else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {'ok', takes and redis.call('HGETALL', KEYS[1])}`)

// Open implements Store.
func (s *Redis) Open(ctx context.Context, k Key, r Entry) error {
	_, err := s.change(ctx, "open", k, r, Entry{})
	return err
}

// Keep implements Store.
func (s *Redis) Keep(ctx context.Context, k Key, r Entry) error {
	_, err := s.change(ctx, "keep", k, r, Entry{})
	return err
}

// End implements Store.
func (s *Redis) End(ctx context.Context, k Key, epoch uint64) error {
	_, err := s.change(ctx, "end", k, Entry{Epoch: epoch}, Entry{})
	return err
}

// Take implements Store. An epoch is the time in milliseconds where that is higher than
// the one before: so it is also higher than what a server that failed over has forgotten.
func (s *Redis) Take(ctx context.Context, k Key, from Entry, to replica.ID) (Entry, error) {
	r := Entry{Primary: to, Epoch: max(from.Epoch+1, Epoch())}
	now, err := s.change(ctx, "keep", k, r, from)
	if err != nil {
		return Entry{}, err
	}
	return s.read(ctx, k, now)
}

// change runs the script, where from must be there if that is not the zero Entry. It
// returns the whole entry then.
func (s *Redis) change(ctx context.Context, what string, k Key, r, from Entry) (now redis.Reply, _ error) {
	args := []string{
		what, string(r.Primary), epochText(r.Epoch), s.seal(k, r), redis.Millis(s.config.Life),
		string(from.Primary), epochText(from.Epoch),
	}
	for name, text := range r.Facts {
		if text != "" {
			text = string(s.config.Seal.SealBytes(factPurpose(k, name), []byte(text)))
		}
		args = append(args, factPrefix+name, text)
	}
	reply, err := changing.Run(ctx, s.config.Store, []string{KeyOf(k)}, args)
	if err != nil {
		return now, err
	}
	parts, err := reply.List()
	if err != nil || len(parts) != 2 {
		return now, errors.Join(redis.ErrDown, err)
	}
	switch said, err := parts[0].Text(); {
	case err != nil:
		return now, errors.Join(redis.ErrDown, err)
	case said == saidNone:
		return now, ErrNone
	case said == saidFenced:
		return now, ErrFenced
	}
	return parts[1], nil
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
