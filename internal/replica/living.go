package replica

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Who lives. Each replica writes the time of the server beside its id, in one sorted set,
// each second and when one that is not known asks for something, and in a hash how it is
// reached, sealed. Who has not done so for life counts as dead. One that ends takes
// itself off:
//
//	beat ──▶ look ──▶ beating, in Redis ──▶ note ──▶ IsThere, IsNewerThere, Count, Peer, Named
//	Run ──▶ leave ──▶ look, which says from then on that this one has left

// member is another replica that lives.
type member struct {
	peer    link.Peer
	end     context.CancelFunc // of peer.Life
	reached atomic.Bool        // when it was tried last
	drains  atomic.Bool        // it is about to end
	beat    string             // what it said last; of who notes, like the field below
	seen    time.Time          // when that was new here
}

// begin lets the life of a member begin.
func (m *member) begin() {
	m.peer.Life, m.end = context.WithCancel(context.Background()) //nolint:fatcontext // it is of the member, and not nested
}

// IsThere implements Others.
func (g *Group) IsThere(id ID) bool { return id == g.id || (*g.members.Load())[id] != nil }

// Drains implements Others.
func (g *Group) Drains(id ID) bool {
	if id == g.id {
		return g.drains.Load()
	}
	m := (*g.members.Load())[id]
	return m != nil && m.drains.Load()
}

// IsNewerThere implements Others.
func (g *Group) IsNewerThere() bool { return g.newer.Load() }

// Count returns how many replicas live as far as is known here, this one included.
func (g *Group) Count() int { return len(*g.members.Load()) + 1 }

// Present returns since when the others have known without a gap that this replica lives.
// It is zero while they do not, or may not much longer, because this replica could not
// say so.
func (g *Group) Present() time.Time {
	since, last := g.since.Load(), g.clock.Load()
	if since == nil || last == nil || time.Since(last.asked) >= life-beat {
		return time.Time{}
	}
	return *since
}

// All implements Others.
func (g *Group) All() []ID { return slices.Collect(maps.Keys(*g.members.Load())) }

// Peer implements link.Directory.
func (g *Group) Peer(id string) (link.Peer, bool) {
	m := (*g.members.Load())[ID(id)]
	if m == nil {
		return link.Peer{}, false
	}
	return m.peer, true
}

// Named implements link.Directory. It looks once more for a certificate that is not
// known: its replica may have begun since the last beat.
func (g *Group) Named(ctx context.Context, digest link.Digest) (id string, ok bool) {
	for again := false; ; again = true {
		for id, m := range *g.members.Load() {
			if m.peer.Digest == digest {
				return string(id), true
			}
		}
		if again || g.check(ctx) != nil {
			return "", false
		}
	}
}

// beat says that this replica lives, until ctx ends.
func (g *Group) beat(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		_ = g.check(ctx) // the next one comes
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// beating is a script that says that a replica lives or, with 1 as ARGV[5], that it has
// left. KEYS[1] is the set of those who live, and KEYS[2] the hash of how each is
// reached, of which ARGV[6] is this one's, or "" while nobody can reach it: then it does
// not live yet. ARGV[7] is 1 if it drains. It returns what the clock of the server shows,
// in milliseconds, 1 if the replica was known before, or 0, and both the set and the
// hash. A beat that lies in the future was written by somebody else, or before the clock
// was set. Beside the ids the set has ARGV[4], the Formats of each version that lives,
// and for as long as a beat counts who has left: a beat whose sender no longer waits for
// the answer may come later than the message that it has left, and would have others take
// for alive who has ended.
var beating = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then redis.call('DEL', KEYS[2]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2]))
  do redis.call('HDEL', KEYS[2], id) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
local known = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
local left = 'left ' .. ARGV[1]
if ARGV[5] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[1], now, left)
elseif ARGV[6] ~= '' and not redis.call('ZSCORE', KEYS[1], left) then
  redis.call('ZADD', KEYS[1], now, ARGV[1], now, ARGV[4])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[6])
  if ARGV[7] == '1' then redis.call('ZADD', KEYS[1], now, 'drains ' .. ARGV[1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {string.format('%.0f', now), known, redis.call('ZRANGE', KEYS[1], 0, ARGV[3], 'WITHSCORES'),
  redis.call('HGETALL', KEYS[2])}`)

// check says that this replica lives, or has left, and learns who else lives. After an
// error nobody is forgotten, because nothing is known. If the others did not know that
// this one lives, because it stood still for too long or somebody removed it, they have
// told it nothing meanwhile, and no call fails for that: so OnReturn is told.
func (g *Group) check(ctx context.Context) error {
	g.looking.Lock() // so that what is noted is not older than what was
	defer g.looking.Unlock()
	asked, address, before := time.Now(), g.address.Load(), g.clock.Load()
	reply, err := beating.Run(ctx, g.config.Store, []string{livingKey, linksKey}, g.says(address))
	if err != nil {
		return err
	}
	found, err := reply.List()
	if err == nil {
		found, err = g.set(found, asked, time.Now())
	}
	said, err := readLiving(found, err)
	if err != nil {
		g.config.Logger.WarnContext(ctx, "what redis knows of replicas has another form",
			slog.Any("error", err))
		return err
	}
	g.lease.extend(asked)
	g.note(ctx, said, before != nil && asked.Sub(before.answered) < life-2*beat)
	// the server may have taken the first beat, or the first for long, and not have answered
	unanswered := g.joined.Load() == nil || asked.Sub(before.answered) >= life
	if address != nil && (!said.known || unanswered) && !g.left.Load() {
		g.returned(ctx)
	}
	return nil
}

// returned tells whoever wants to know that others know this replica from now on, and did
// not before.
func (g *Group) returned(ctx context.Context) {
	now := time.Now()
	g.since.Store(&now)
	if !g.joined.CompareAndSwap(nil, &now) {
		g.config.Logger.WarnContext(ctx,
			"other replicas took this one for gone; it looks again at what it holds")
		g.config.Count.TakenForGone()
	}
	select {
	case g.known <- struct{}{}:
	default: // it holds one
	}
	for _, f := range g.returns {
		f()
	}
}

// Where it stands who lives, and how they are reached. A script needs both, so they are
// on one node of a cluster.
var (
	livingKey = redis.CommonKey("{all}", "replicas")
	linksKey  = redis.CommonKey("{all}", "links")
)

// linkPurpose binds how a replica is reached to its id.
func linkPurpose(id ID) string { return "link 1\x00" + string(id) }

// says returns the arguments of beating, for a replica that others reach at that address;
// nil: they do not.
func (g *Group) says(address *string) []string {
	left, sealed := "0", ""
	if g.left.Load() {
		left = "1"
	}
	if address != nil {
		digest := g.identity.Digest()
		sealed = string(g.config.Seal.SealBytes(linkPurpose(g.id), append(digest[:], *address...)))
	}
	drains := "0"
	if g.drains.Load() {
		drains = "1"
	}
	return []string{
		string(g.id), millis(life), strconv.Itoa(most - 1), formats(Formats), left, sealed,
		drains,
	}
}

// peer returns how a replica is reached, which it has sealed.
func (g *Group) peer(id ID, sealed string) (p link.Peer, ok bool) {
	plain, err := g.config.Seal.OpenBytes(linkPurpose(id), []byte(sealed))
	if err != nil || len(plain) <= len(p.Digest) {
		return link.Peer{}, false
	}
	p.ID, p.Address = string(id), string(plain[copy(p.Digest[:], plain):])
	return p, true
}

// leave removes what shows that this replica lives, so that others need not wait until
// that has lapsed. Whoever looks from now on, such as a handler that tells others
// something, says that this replica has left, too.
func (g *Group) leave(ctx context.Context) {
	g.left.Store(true)
	if err := g.check(ctx); err != nil {
		g.config.Logger.DebugContext(ctx, "other replicas do not know yet that this one has ended",
			slog.Any("error", err))
	}
}

// forget ends whatever waits for others.
func (g *Group) forget() {
	for _, m := range *g.members.Swap(&map[ID]*member{}) {
		m.end()
	}
}

// What stands in the set of those who live before a number of Formats, before the id of
// one that has left, and before that of one that drains.
const (
	formatsMark = "formats "
	leftMark    = "left "
	drainsMark  = "drains "
)

func formats(n int) string { return formatsMark + strconv.Itoa(n) }

// note takes what Redis knows of those who live: ids with how they are reached, and the
// Formats of their versions. What it does not know is of a later version, or of somebody
// else. A replica has one address and one certificate, so what is known of one that lives
// stays. One that is missing and has not left stays for as long as its last beat counts
// here: Redis may have lost what it had, or been away until now. whole tells that it was
// not.
func (g *Group) note(ctx context.Context, said living, whole bool) {
	before, now := *g.members.Load(), time.Now()
	members, newer, older, changed := make(map[ID]*member, len(said.members)), false, false, false
	for text, beat := range said.members {
		if number, found := strings.CutPrefix(text, formatsMark); found {
			n, err := strconv.Atoi(number)
			newer, older = newer || err == nil && n > Formats, older || err == nil && n < Formats
			continue
		}
		id := ID(text)
		if id == g.id || len(id) != len(g.id) {
			continue
		}
		m := before[id]
		if peer, ok := g.peer(id, said.links[text]); m == nil && ok {
			m = &member{peer: peer}
			m.begin()
			changed = true
		}
		if m == nil {
			continue
		}
		if members[id] = m; m.beat != beat {
			m.beat, m.seen = beat, now
		}
		if _, drains := said.members[drainsMark+text]; drains && !m.drains.Swap(true) {
			changed = true
		}
	}
	var gone []*member
	for id, m := range before {
		if !whole {
			m.seen = now
		}
		_, left := said.members[leftMark+string(id)]
		switch {
		case members[id] != nil:
		case !left && now.Sub(m.seen) < life:
			members[id] = m
		default:
			gone, changed = append(gone, m), true
		}
	}
	g.members.Store(&members)
	g.newer.Store(newer)
	g.older.Store(older)
	for _, m := range gone {
		m.end()
	}
	if changed {
		for _, f := range g.changes {
			f()
		}
	}
	g.watch(ctx, g.Count())
}

// watch says in the log when more replicas live than the config allows, and when they do
// no more. While Redis is away each grants its part of every limit, and together these
// parts are more than the whole then.
func (g *Group) watch(ctx context.Context, alive int) {
	if crowded := g.config.Most > 0 && alive > g.config.Most; crowded != g.crowded.Swap(crowded) {
		if !crowded {
			g.config.Logger.InfoContext(ctx, "no more replicas run than the config says",
				slog.Int("running", alive), slog.Int("replicas", g.config.Most))
			return
		}
		g.config.Logger.WarnContext(ctx,
			"more replicas run than the config says; raise replicas, or limits are exceeded while redis is "+
				"away",
			slog.Int("running", alive), slog.Int("replicas", g.config.Most))
	}
}

// living is what Redis says of who lives.
type living struct {
	known   bool              // this replica was among them
	members map[string]string // when each was there last, by id, and more, see beating
	links   map[string]string // by id, sealed
}

// readLiving reads what is left of the answer of beating, unless there is an error.
func readLiving(found []redis.Reply, err error) (said living, _ error) {
	if err != nil {
		return said, err
	}
	if len(found) < 3 {
		return said, errors.New("it has fewer parts")
	}
	known, err1 := found[0].Int()
	members, err2 := found[1].List()
	links, err3 := found[2].Map()
	if err := errors.Join(err1, err2, err3); err != nil {
		return said, err
	}
	said.known, said.links, said.members = known == 1, make(map[string]string, len(links)),
		make(map[string]string, len(members)/2)
	for i := 0; i+1 < len(members); i += 2 {
		text, err1 := members[i].Text()
		beat, err2 := members[i+1].Text()
		if err := errors.Join(err1, err2); err != nil {
			return said, err
		}
		said.members[text] = beat
	}
	for id, sealed := range links {
		if said.links[id], err = sealed.Text(); err != nil {
			return said, err
		}
	}
	return said, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
