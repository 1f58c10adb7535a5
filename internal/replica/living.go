package replica

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Who lives. Each replica writes under its id, in one hash, the time of the server and
// how it is reached, sealed: each second, and when one that is not known asks for
// something. Who has not done so for life counts as dead. One that ends says so:
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

// Unreadable returns how many others there are at the same Redis that have other keys:
// they and this one do not know each other.
func (g *Group) Unreadable() int { return int(g.unreadable.Load()) }

// All implements Others.
func (g *Group) All() (all []ID) {
	var unreached []ID
	for id, m := range *g.members.Load() {
		if m.reached.Load() {
			all = append(all, id)
		} else {
			unreached = append(unreached, id)
		}
	}
	return append(all, unreached...)
}

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
	asked := time.Now()
	if id, ok = g.named(digest); !ok && g.checkSince(context.WithoutCancel(ctx), asked) == nil {
		id, ok = g.named(digest)
	}
	return id, ok
}

// named returns the id of the replica that has a certificate, if it is known here.
func (g *Group) named(digest link.Digest) (id string, ok bool) {
	for id, m := range *g.members.Load() {
		if m.peer.Digest == digest {
			return string(id), true
		}
	}
	return "", false
}

// beat says that this replica lives, until ctx ends. While it cannot, it has probe ask
// the others whether they can.
func (g *Group) beat(ctx context.Context) {
	check := func(ctx context.Context) {
		if g.check(ctx) != nil && g.isAway() { // the next one comes
			pace.Signal(g.tryNow)
		}
	}
	check(ctx)
	pace.Every(ctx, beat, check)
}

// States of a replica, as Redis has them.
const (
	stateLives  = "lives"
	stateDrains = "drains" // it is about to end
	stateLeft   = "left"   // it has ended
)

// beating is a script that says in which state a replica is. KEYS[1] is the hash of all:
// under each id the time of the last beat in milliseconds, the Formats of the replica,
// its state, and how it is reached. ARGV: the id, for how many milliseconds a beat
// counts, how many others are returned at most, and then what is written; how it is
// reached is "" while nobody can reach it: then it does not live yet. It returns what the
// clock of the server shows, in milliseconds, 1 if the replica was known before, or 0,
// and all others. A beat that lies in the future was written by somebody else, or before
// the clock was set. Who has left stays so for as long as a beat counts: one whose sender
// no longer waits for the answer may come later than the word that it has left, and would
// have others take for alive who has ended.
var beating = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local found, others, was = redis.call('HGETALL', KEYS[1]), {}, ''
for i = 1, #found, 2 do
  local at, state = string.match(found[i + 1], '^(%d+) %d+ (%l+) ')
  at = tonumber(at or '')
  if not at or at <= now - ARGV[2] or at > now then
    redis.call('HDEL', KEYS[1], found[i])
  elseif found[i] == ARGV[1] then
    was = state
  elseif #others < 2 * ARGV[3] then
    others[#others + 1] = found[i]
    others[#others + 1] = found[i + 1]
  end
end
if ARGV[5] == 'left' or ARGV[6] ~= '' and was ~= 'left' then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s ', now, ARGV[4], ARGV[5]) .. ARGV[6])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local known = (was == '' or was == 'left') and 0 or 1
return {now, known, others}`)

// check says that this replica lives, or has left, and learns who else lives. After an
// error nobody is forgotten, because nothing is known. If the others did not know that
// this one lives, because it stood still for too long or somebody removed it, they have
// told it nothing meanwhile, and no call fails for that: so OnReturn is told.
func (g *Group) check(ctx context.Context) error { return g.checkSince(ctx, time.Now()) }

// checkSince is check, if nobody has begun one after that time: else many who show
// certificates that are not known would each ask, and beats would wait behind them.
func (g *Group) checkSince(ctx context.Context, since time.Time) error {
	g.looking.Lock() // so that what is noted is not older than what was
	defer g.looking.Unlock()
	if !g.looked.After(since) {
		g.looked = time.Now()
		g.problem = g.checkLocked(ctx)
	}
	return g.problem
}

func (g *Group) checkLocked(ctx context.Context) error {
	asked, address, before := time.Now(), g.address.Load(), g.clock.Load()
	reply, err := beating.Run(ctx, g.config.Store, []string{livingKey}, g.says(address))
	if err != nil {
		return err
	}
	said, err := readLiving(reply)
	if err != nil {
		g.config.Logger.WarnContext(ctx, "what redis knows of replicas has another form",
			slog.Any("error", err))
		return err
	}
	g.clock.Store(&clock{said.now, asked, time.Now()})
	g.lease.extend(asked)
	unreadable := g.unreadable.Load()
	g.note(said, before != nil && asked.Sub(before.answered) < life-2*beat)
	if g.unreadable.Load() > unreadable {
		g.config.Store.Refuse(ctx, slog.String("kind", "replicas"))
	}
	// the server may have taken the first beat, or the first for long, and not have
	// answered
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
	if !g.joined.CompareAndSwap(nil, &now) {
		g.config.Logger.WarnContext(ctx,
			"other replicas took this one for gone; it looks again at what it holds")
		g.config.Count.TakenForGone()
	}
	pace.Signal(g.tryNow)
	for _, f := range g.returns {
		f()
	}
}

// livingKey is where it stands who lives, and how they are reached.
var livingKey = redis.CommonKey("replicas")

// linkPurpose binds how a replica is reached to its id.
func linkPurpose(id ID) string { return "link 1\x00" + string(id) }

// says returns the arguments of beating, for a replica that others reach at that address;
// nil: they do not.
func (g *Group) says(address *string) []string {
	state, sealed := stateLives, ""
	switch {
	case g.left.Load():
		state = stateLeft
	case g.drains.Load():
		state = stateDrains
	}
	if address != nil {
		digest := g.identity.Digest()
		sealed = string(g.config.Seal.SealBytes(linkPurpose(g.id), append(digest[:], *address...)))
	}
	return []string{
		string(g.id), redis.Millis(life), strconv.Itoa(most - 1), strconv.Itoa(Formats), state, sealed,
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

// note takes what Redis knows of those who live. Who cannot be read is of a later
// version, or was put there by somebody else. A replica has one address and one
// certificate, so what is known of one that lives stays. One that is missing and has not
// left stays for as long as its last beat counts here: Redis may have lost what it had,
// or been away until now. whole tells that it was not.
func (g *Group) note(said living, whole bool) {
	members, now, newer, older, changed := maps.Clone(*g.members.Load()), time.Now(), false, false, false
	unreadable := int64(0)
	for id, of := range said.others {
		if len(id) != len(g.id) || of.state == stateLeft {
			continue
		}
		newer, older = newer || of.formats > Formats, older || of.formats < Formats
		m := members[id]
		if peer, ok := g.peer(id, of.sealed); m == nil && ok {
			m = &member{peer: peer}
			m.begin()
			members[id], changed = m, true
		}
		if m == nil {
			if of.formats <= Formats { // it says how it is reached in a form that is known here
				unreadable++
			}
			continue
		}
		if m.beat != of.beat {
			m.beat, m.seen = of.beat, now
		}
		if of.state == stateDrains && !m.drains.Swap(true) {
			changed = true
		}
	}
	var gone []*member
	for id, m := range members {
		of, is := said.others[id]
		if !whole {
			m.seen = now
		}
		if of.state == stateLeft || !is && now.Sub(m.seen) >= life {
			delete(members, id)
			gone, changed = append(gone, m), true
		}
	}
	g.members.Store(&members)
	g.newer.Store(newer)
	g.older.Store(older)
	g.unreadable.Store(unreadable)
	for _, m := range gone {
		m.end()
	}
	if changed {
		for _, f := range g.changes {
			f()
		}
	}
}

// living is what Redis says of who lives.
type living struct {
	now    int64 // by the clock of the server, in milliseconds since 1970
	known  bool  // this replica was among them
	others map[ID]presence
}

// presence is what Redis says of one replica.
type presence struct {
	beat    string // when it was there last
	formats int
	state   string
	sealed  string // how it is reached
}

// readLiving reads the answer of beating.
func readLiving(reply redis.Reply) (said living, _ error) {
	found, err := reply.List()
	if err != nil {
		return said, err
	}
	if len(found) < 3 {
		return said, errors.New("it has fewer parts")
	}
	now, err1 := found[0].Int()
	known, err2 := found[1].Int()
	others, err3 := found[2].Fields()
	if err := errors.Join(err1, err2, err3); err != nil {
		return said, err
	}
	said.now, said.known, said.others = now, known == 1, make(map[ID]presence, len(others))
	for id, text := range others {
		if parts := strings.SplitN(text, " ", 4); len(parts) == 4 {
			formats, _ := strconv.Atoi(parts[1]) // the script has looked
			said.others[ID(id)] = presence{parts[0], formats, parts[2], parts[3]}
		}
	}
	return said, nil
}
