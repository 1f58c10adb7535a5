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

	// What a trip that was answered has brought.
	got  int     // tokens of those ahead
	left float64 // that the bucket has afterwards
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

// readAnswer reads the answer to those asks: whether what is needed was taken, and what
// each bucket gave, which it notes.
func readAnswer(reply redis.Reply, asks []ask) (taken bool, err error) {
	answer, err := reply.List()
	if err != nil || len(answer) != 1+2*len(asks) {
		return false, errors.Join(errAnswer, err)
	}
	done, err := answer[0].Int()
	for i := range asks {
		a := &asks[i]
		got, err1 := answer[1+2*i].Int()
		text, err2 := answer[2+2*i].Text()
		left, err3 := strconv.ParseFloat(text, 64)
		err = errors.Join(err, err1, err2, err3)
		if err != nil || got < 0 || got > int64(a.ahead) || !(left >= 0 && left <= math.MaxFloat64) {
			return false, errors.Join(errAnswer, err)
		}
		a.got, a.left = int(got), left
	}
	return done == 1, nil
}
