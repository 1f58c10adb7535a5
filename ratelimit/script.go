package ratelimit

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// The script. Tests put a clock of their own in the place of its first part.
var (
	//go:embed clock.lua
	clockText string
	//go:embed bucket.lua
	bucketText string
	//go:embed take.lua
	takeText string
)

// trip runs the script on the server. An error says that it is not known what was done.
type trip func(ctx context.Context, keys, args []string) (redis.Reply, error)

// newTrip returns what runs the script, with that clock.
func newTrip(store *redis.Store, clock string) trip {
	script := redis.NewScript(clock + bucketText + takeText)
	return func(ctx context.Context, keys, args []string) (redis.Reply, error) {
		return script.Run(ctx, store, keys, args)
	}
}

// errAnswer is of an answer that the script does not give.
var errAnswer = errors.New("the answer is not that of a limiter's script")

// ask is what a trip asks of one bucket.
type ask struct {
	prefetch   *prefetch
	limit      Limit   // of the prefetch when the trip began
	need       int     // tokens to take now
	owed       float64 // by the sharer that needs them; below zero: there is none, or a quiet one
	ahead      int     // more tokens that are wanted
	prefetched int     // tokens that the prefetch has, those that are kept aside included
	got        int     // of ahead, what the trip has brought
}

// outcome is what a trip has brought of one bucket.
type outcome struct {
	ahead int
	left  float64 // tokens that the bucket has afterwards
}

// terms returns the keys and the arguments of a trip.
func terms(replica string, asks []ask) (keys, args []string) {
	keys, args = make([]string, 0, len(asks)), make([]string, 0, 2+6*len(asks))
	args = append(args, replica, strconv.Itoa(int(prefetchLife/time.Second)))
	for i := range asks {
		a := &asks[i]
		keys = append(keys, a.prefetch.key)
		args = append(args, number(a.limit.Rate), strconv.Itoa(a.limit.Burst), strconv.Itoa(a.need),
			number(a.owed),
			strconv.Itoa(a.ahead), strconv.Itoa(a.prefetched))
	}
	return keys, args
}

// keyOf returns the key of a bucket. It is a digest, because what it stands for has names
// of clients in it, which may be long, and which nobody should be able to read there.
func keyOf(b *Bucket) string {
	digest := sha256.Sum256([]byte(b.Key))
	return redis.Key(b.Group, "rate", base64.RawURLEncoding.EncodeToString(digest[:16]))
}

// number writes a number for the script. An infinite one becomes the largest that is
// finite.
func number(n float64) string {
	return strconv.FormatFloat(min(n, math.MaxFloat64), 'g', -1, 64)
}

// readOutcomes reads the answer to those asks: whether what is needed was taken, and what each
// bucket gave.
func readOutcomes(reply redis.Reply, asks []ask) (taken bool, outcomes []outcome, err error) {
	answer, err := reply.List()
	if err != nil || len(answer) != 1+2*len(asks) {
		return false, nil, errors.Join(errAnswer, err)
	}
	done, err := answer[0].Int()
	if err != nil {
		return false, nil, errors.Join(errAnswer, err)
	}
	outcomes = make([]outcome, len(asks))
	for i := range asks {
		ahead, err := answer[1+2*i].Int()
		if err != nil || ahead < 0 || ahead > int64(asks[i].ahead) {
			return false, nil, errors.Join(errAnswer, err)
		}
		left, err := amount(answer[2+2*i])
		if err != nil {
			return false, nil, err
		}
		outcomes[i] = outcome{int(ahead), left}
	}
	return done == 1, outcomes, nil
}

// amount reads a number that is finite and not negative.
func amount(reply redis.Reply) (float64, error) {
	text, err := reply.Text()
	if err != nil {
		return 0, errors.Join(errAnswer, err)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= math.MaxFloat64) {
		return 0, errAnswer
	}
	return n, nil
}
