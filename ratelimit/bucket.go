package ratelimit

import (
	"math"
	"sort"
	"time"

	"golang.org/x/time/rate"

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

	// partsMost is how many sharers of a bucket are remembered. Of more, those are
	// forgotten who owe least, and they would be quiet in any case.
	partsMost   = 1024
	partsSample = 8 // that are looked at to find some to forget

	// slack is how many tokens a sum of what was taken may be wrong by, since it fades by
	// multiplying.
	slack = 1e-6
)

// bucket is what is known of the tokens of one key. A Memory counts them, and a Redis
// knows what it was told by the last trip.
type bucket struct {
	limit   Limit
	limiter *rate.Limiter // of a Memory; nil: of a Redis
	// of a Redis: tokens at that time; zero: there was no trip, and the bucket counts as
	// full
	left  float64
	at    time.Time
	parts map[string]part // by sharer
}

// part is what one sharer of a bucket owed to it at some time. The zero part owes
// nothing.
type part struct {
	owed float64 // tokens
	at   time.Time
}

// has returns how many tokens the bucket has now.
func (b *bucket) has(now time.Time) float64 {
	if b.limiter != nil {
		return b.limiter.TokensAt(now)
	}
	gained := max(now.Sub(b.at).Seconds(), 0) * float64(b.limit.perSecond())
	return min(b.left+gained, float64(b.limit.Burst))
}

// view is a bucket as a call finds it.
type view struct {
	limit Limit
	lacks float64 // tokens that are missing to a full bucket
	quiet float64 // tokens that a sharer may owe who is quiet
	now   time.Time
	parts map[string]part
}

// view returns the bucket as it is now, where that many replicas count what sharers owe
// for themselves. ahead is how many more tokens are not missing.
func (b *bucket) view(now time.Time, ahead, replicas int) view {
	lacks := max(float64(b.limit.Burst)-b.has(now)-float64(ahead), 0)
	return view{b.limit, lacks, b.limit.quiet(replicas), now, b.parts}
}

// owe adds what a call takes, which sees the bucket like that, to what its sharer owes.
// The tokens are not taken yet.
func (b *bucket) owe(w *want, v view) {
	if w.Sharer == "" {
		return
	}
	if _, known := b.parts[w.Sharer]; !known {
		b.forgetParts(v)
	}
	if b.parts == nil {
		b.parts = make(map[string]part)
	}
	b.parts[w.Sharer] = part{v.owes(w.Sharer) + float64(w.tokens), v.now}
}

// forgetParts forgets sharers: of a sample those that owe nothing any more and, if there
// are too many and all owe something, the one that owes least.
func (b *bucket) forgetParts(v view) {
	evict.One(b.parts, partsSample, func(_ string, p part) (worth float64, may bool) {
		return v.fade(p) - slack, len(b.parts) >= partsMost
	})
}

// owes returns how much a sharer owes.
func (v view) owes(sharer string) float64 { return v.fade(v.parts[sharer]) }

// fade returns how much of a part is still owed.
func (v view) fade(p part) float64 {
	if v.lacks <= 0 {
		return 0
	}
	faded := p.owed * math.Exp(-v.now.Sub(p.at).Seconds()*v.limit.Rate/float64(v.limit.Burst))
	return min(faded, v.lacks)
}

// isQuiet tells whether all tokens of the bucket are for the one who wants some, the
// reserve included.
func (v view) isQuiet(w *want) bool {
	return w.Sharer == "" || float64(w.tokens)+v.owes(w.Sharer) <= v.quiet+slack
}

// refusal returns the refusal of a bucket that will have enough after wait, or has, for
// the reason that holds for longer; nil for none. A quiet sharer is refused only if there
// are too few tokens for anybody.
func (v view) refusal(w *want, wait time.Duration, enough bool) *ExceededError {
	if !v.isQuiet(w) {
		share, ok := v.waitShare(w)
		if !ok && (enough || share > wait+minRetry) { // a share waits for whole milliseconds
			return &ExceededError{Bucket: w.index, Share: true, RetryAfter: share}
		}
	}
	if enough {
		return nil
	}
	return &ExceededError{Bucket: w.index, RetryAfter: max(upToMicros(wait), minRetry)}
}

// waitShare tells whether the share of the sharer allows what is wanted, which that of a
// full bucket does. If not, the duration says when it will, if nobody else takes any
// until then.
func (v view) waitShare(w *want) (time.Duration, bool) {
	may := func(after time.Duration) bool {
		then := v
		then.lacks, then.now = max(v.lacks-after.Seconds()*v.limit.Rate, 0), v.now.Add(after)
		return v.limit.shares(float64(w.tokens), then.owes(w.Sharer), then.lacks, v.quiet)
	}
	if may(0) {
		return 0, true
	}
	// Once it may, it may until others take. When the bucket is full nothing is owed, so
	// it may by then at the latest.
	full := int(min(v.lacks/v.limit.Rate, maxRetry.Seconds())*1000) + 1
	millis := sort.Search(full, func(n int) bool { return may(time.Duration(n) * time.Millisecond) })
	return time.Duration(millis) * time.Millisecond, false
}

// perSecond returns how many tokens a bucket gains. An infinite Rate would give no number
// in no time; the largest is rate.Inf.
func (l Limit) perSecond() rate.Limit { return rate.Limit(min(l.Rate, math.MaxFloat64)) }

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

// most returns how many tokens of a full bucket one may take at once who shares it with
// others, or "" for one whose bucket it is.
func (l Limit) most(sharer string) int {
	if sharer == "" {
		return l.Burst
	}
	return l.Most()
}

// wait tells whether a bucket of this limit that has so many tokens has as many as are
// wanted, of which there are no more than its Burst. If it has not, the duration says
// when it will.
func (l Limit) wait(tokens int, has float64) (time.Duration, bool) {
	seconds := (float64(tokens) - has) / l.Rate
	switch {
	case seconds*float64(time.Second) < 1: // as the script and a rate.Limiter have it
		return 0, true
	case seconds > maxRetry.Seconds():
		return maxRetry, false
	}
	return max(time.Duration(seconds*float64(time.Second)), minRetry), false
}

// upToMicros rounds up to what the server's clock can tell apart.
func upToMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
