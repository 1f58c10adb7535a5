package replica

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Who lives. Each replica writes the time of the server beside its id, in one sorted set, each second and whenever it asks who
// is there. Who has not done so for life counts as dead. One that ends takes itself off:
//
//	beat, Tell ──▶ look ──▶ beating, in Redis ──▶ note ──▶ IsThere, IsNewerThere, Count
//	Run ──▶ leave ──▶ look, which says from then on that this one has left

// IsThere implements Others.
func (m *Mail) IsThere(id ID) bool { return id == m.id || (*m.alive.Load())[id] }

// IsNewerThere implements Others.
func (m *Mail) IsNewerThere() bool { return m.newer.Load() }

// Count returns how many replicas live as far as is known here, this one included.
func (m *Mail) Count() int {
	alive := *m.alive.Load()
	if alive[m.id] {
		return len(alive)
	}
	return len(alive) + 1
}

// beat says that this replica lives, until ctx ends.
func (m *Mail) beat(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		_ = m.look(ctx) // the next one comes
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// beating is a script that says that a replica lives or, with 1 as ARGV[5], that it has left. It returns what the clock of the
// server shows, in milliseconds, 1 if the replica was known before, or 0, and all replicas that live by that clock. A beat
// that lies in the future was written by somebody else, or before the clock was set. Beside the ids the set has ARGV[4], the
// Formats of each version that lives, and for as long as a beat counts who has left: a beat whose sender no longer waits for
// the answer may come later than the word that it has left, and would have others take for alive who has ended.
var beating = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
local known = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
local left = 'left ' .. ARGV[1]
if ARGV[5] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZADD', KEYS[1], now, left)
elseif not redis.call('ZSCORE', KEYS[1], left) then
  redis.call('ZADD', KEYS[1], now, ARGV[1], now, ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local all = redis.call('ZRANGE', KEYS[1], 0, ARGV[3])
table.insert(all, 1, string.format('%.0f', now))
table.insert(all, 2, known)
return all`)

// look says that this replica lives, or has left, and learns who else lives. After an error nobody is forgotten, because
// nothing is known. If the others did not know that this one lives, because it stood still for too long or somebody removed
// it, they have told it nothing meanwhile, and no call fails for that: so it is noted here.
func (m *Mail) look(ctx context.Context) error {
	asked := time.Now()
	reply, err := beating.Run(ctx, m.config.Store, []string{redis.CommonKey("replicas")}, m.says())
	if err != nil {
		return err
	}
	found, err := reply.List()
	if err == nil {
		found, err = m.set(found, asked, time.Now())
	}
	known, ids, err := living(found, err)
	if err != nil {
		m.config.Logger.WarnContext(ctx, "what redis knows of replicas has another form", slog.Any("error", err))
		return err
	}
	if !known {
		m.missed.Store(true)
	}
	m.note(ctx, ids)
	return nil
}

// says returns the arguments of beating.
func (m *Mail) says() []string {
	left := "0"
	if m.left.Load() {
		left = "1"
	}
	return []string{string(m.id), millis(life), strconv.Itoa(most - 1), formats(Formats), left}
}

// leave removes what shows that this replica lives, so that others need not wait until that has lapsed. Whoever looks from
// now on, such as a handler that tells others something, says that this replica has left, too.
func (m *Mail) leave(ctx context.Context) {
	m.left.Store(true)
	err := m.look(ctx)
	if err == nil {
		_, err = m.config.Store.Do(ctx, redis.Command{Name: "DEL", Key: mailbox(m.id), Args: []string{room(m.id)}})
	}
	if err != nil {
		m.config.Logger.DebugContext(ctx, "other replicas do not know yet that this one has ended", slog.Any("error", err))
	}
}

// formatsMark stands before a number of Formats in the set of those who live.
const formatsMark = "formats "

func formats(n int) string { return formatsMark + strconv.Itoa(n) }

// note takes what the set of those who live has: ids, and the Formats of their versions. What it does not know is of a later
// version, or of somebody else.
func (m *Mail) note(ctx context.Context, members []redis.Reply) {
	alive, newer, older := make(map[ID]bool, len(members)), false, false
	for _, one := range members {
		text, err := one.Text()
		if number, found := strings.CutPrefix(text, formatsMark); err == nil && found {
			n, err := strconv.Atoi(number)
			newer, older = newer || err == nil && n > Formats, older || err == nil && n < Formats
		} else if err == nil && len(text) == len(m.id) {
			alive[ID(text)] = true
		}
	}
	m.alive.Store(&alive)
	m.newer.Store(newer)
	m.older.Store(older)
	m.watch(ctx, len(alive))
}

// watch says in the log when more replicas live than the config allows, and when they do no more. While Redis is away each
// grants its part of every limit, and together these parts are more than the whole then.
func (m *Mail) watch(ctx context.Context, alive int) {
	if crowded := m.config.Most > 0 && alive > m.config.Most; crowded != m.crowded.Swap(crowded) {
		if !crowded {
			m.config.Logger.InfoContext(ctx, "no more replicas run than the config says", slog.Int("running", alive), slog.Int("replicas", m.config.Most))
			return
		}
		m.config.Logger.WarnContext(ctx, "more replicas run than the config says; raise replicas, or limits are exceeded while redis is away",
			slog.Int("running", alive), slog.Int("replicas", m.config.Most))
	}
}

// living reads what is left of the answer of beating, unless there is an error.
func living(found []redis.Reply, err error) (known bool, ids []redis.Reply, _ error) {
	switch {
	case err != nil:
		return false, nil, err
	case len(found) == 0:
		return false, nil, errors.New("it does not say whether this replica was known")
	}
	n, err := found[0].Int()
	return n == 1, found[1:], err
}
