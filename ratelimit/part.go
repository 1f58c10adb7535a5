package ratelimit

import (
	"math"
	"sort"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

// How a bucket is shared. Those who share it are at odds in two ways: one who is alone
// should get most of the bucket, and one who was quiet should find tokens at once,
// although what others took cannot be had back.
//
//	├──────────────── 3/4 of Burst ─────────────────┼─ 1/4: reserve ─┤
//	│ a sharer owes at most 2 × what is left of it  │ for the quiet  │
//
// What a sharer owes is what it took lately. It grows by what it takes and fades by
// Rate/Burst of itself a second, so that whoever takes evenly owes its part of Burst: all
// who take together as much as Rate gives owe Burst together. It is never more than the
// bucket lacks, so nobody owes a full bucket anything. One sharer alone therefore takes
// half of Burst at once, and all of Rate in the long run. Several that take all they can
// owe the same, and leave the more the fewer they are.
//
// Whoever owes at most 1/64 of Burst is quiet, and takes out of the reserve too. Others
// can only use up the reserve by being quiet themselves, each for 1/64 of Burst, and the
// reserve has room for 16. So 15 others, in whatever order they take, cannot keep a quiet
// one from its tokens. With a Burst below 64 it is Burst/4 - 1 others, since a token
// cannot be cut.
//
// The rule is that of package share, for what fades instead of being given back. It needs
// the state of the bucket, and two numbers of the sharer that asks; so a limiter outside
// this process can apply it in one step too.
const (
	reservePart     = 4  // the reserve is Burst divided by this
	quietPart       = 64 // a sharer that owes at most Burst divided by this is quiet
	thresholdFactor = 2

	// slack is how many tokens a sum of what was taken may be wrong by, since it fades by
	// multiplying.
	slack = 1e-6
)

// part is what one sharer of a bucket owes to it. The lock of its shard guards it.
type part struct {
	owed    float64 // tokens, at that time
	at      time.Time
	claimed bool // the Take that holds the lock uses it, so forgetPart must leave it alone
}

// partKey names a part: the key of its bucket, and the sharer.
type partKey struct{ bucket, sharer string }

// owes returns how much of the part is still owed, if the bucket lacks so many tokens
// now.
func (p *part) owes(limit Limit, lacks float64, now time.Time) float64 {
	if lacks <= 0 {
		return 0
	}
	return min(p.owed*math.Exp(-now.Sub(p.at).Seconds()*limit.Rate/float64(limit.Burst)), lacks)
}

// quiet returns how much a sharer may owe that is quiet, where that many replicas count
// what it owes for themselves. Of several replicas each allows its part, but two tokens
// if a single one does: who asks twice in a row is not loud.
func (l Limit) quiet(replicas int) float64 {
	whole := max(float64(l.Burst)/quietPart, 1)
	return max(whole/float64(replicas), min(whole, 2))
}

// shares tells whether a sharer that owes so much may take so many tokens of a bucket
// that lacks so many, and in which one that owes at most quiet is quiet.
func (l Limit) shares(tokens, owed, lacks, quiet float64) bool {
	burst := float64(l.Burst)
	left := burst - lacks - tokens
	owed += tokens
	switch {
	case left < -slack:
		return false
	case owed <= quiet+slack:
		return true
	}
	return owed <= thresholdFactor*(left-math.Floor(burst/reservePart))+slack
}

// Most returns how many tokens of a full bucket one sharer may take at once.
func (l Limit) Most() int {
	half := thresholdFactor * (l.Burst - l.Burst/reservePart) / (thresholdFactor + 1)
	return max(half, min(l.Burst, 1))
}

// waitPart tells whether the sharer p may take so many tokens now, of a bucket that lacks
// so many. If it may not, the duration says when it may, if nobody else takes any until
// then; 0 means never.
func (l Limit) waitPart(tokens, lacks, quiet float64, p *part, now time.Time) (time.Duration, bool) {
	may := func(after time.Duration) bool {
		left := max(lacks-after.Seconds()*l.Rate, 0)
		return l.shares(tokens, p.owes(l, left, now.Add(after)), left, quiet)
	}
	switch {
	case may(0):
		return 0, true
	case !l.shares(tokens, 0, 0, quiet):
		return 0, false
	}
	// Once it may, it may until others take. When the bucket is full nothing is owed, so
	// it may by then at the latest.
	full := int(min(lacks/l.Rate, maxRetry.Seconds())*1000) + 1
	millis := sort.Search(full, func(n int) bool { return may(time.Duration(n) * time.Millisecond) })
	return time.Duration(millis) * time.Millisecond, false
}

// take adds what the sharer takes to what it owes. The bucket must not have lost the
// tokens yet.
func (p *part) take(b *bucket, tokens int, now time.Time) {
	lacks := float64(b.limit.Burst) - b.limiter.TokensAt(now)
	p.owed, p.at = p.owes(b.limit, lacks, now)+float64(tokens), now
}

// claimPart returns the part that want names, and makes it if there is none. size is the
// most parts that the shard may remember. A part that is forgotten owes nothing when its
// sharer comes back, so those that owe least go first.
func (s *shard) claimPart(want *Bucket, now time.Time, size int) *part {
	key := partKey{want.Key, want.Sharer}
	p := s.parts[key]
	if p == nil {
		for len(s.parts) >= size && s.forgetPart(now) {
		}
		p = &part{at: now}
		s.parts[key] = p
	}
	p.claimed = true
	return p
}

// forgetPart makes room: the smaller the part of its bucket is that a sharer owes, the
// less is lost with it.
func (s *shard) forgetPart(now time.Time) bool {
	return evict.One(s.parts, sampleSize, func(key partKey, p *part) (worth float64, may bool) {
		b := s.buckets[key.bucket]
		if b == nil { // it is full
			return 0, !p.claimed
		}
		burst := float64(b.limit.Burst)
		return p.owes(b.limit, burst-b.limiter.TokensAt(now), now)/burst - slack, !p.claimed
	})
}
