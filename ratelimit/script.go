package ratelimit

import (
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// The scripts. Each begins with the same two parts; tests put a clock of their own in the place of the first.
var (
	//go:embed clock.lua
	clockText string
	//go:embed bucket.lua
	bucketText string
	//go:embed take.lua
	takeText string
	//go:embed lease.lua
	leaseText string
)

// trip runs one script on the server. An error says that it is not known what was done.
type trip func(ctx context.Context, keys, args []string) (redis.Reply, error)

// newTrip returns what runs a script, with that clock.
func newTrip(store *redis.Store, clock, text string) trip {
	script := redis.NewScript(clock + bucketText + text)
	return func(ctx context.Context, keys, args []string) (redis.Reply, error) {
		return script.Run(ctx, store, keys, args)
	}
}

// errAnswer is of an answer that the scripts do not give.
var errAnswer = errors.New("the answer is not that of a limiter's script")

// want is what one call takes of one bucket: a Bucket, or several with the same key.
type want struct {
	*Bucket

	index  int // of the first Bucket
	tokens int // of all together
}

// merge adds up what goes to the same bucket, as mergeClaims does, and returns the refusal of the first that never has
// so many, nil for none. room spares an allocation.
func merge(buckets []Bucket, room []want) ([]want, *ExceededError) {
next:
	for i := range buckets {
		b := &buckets[i]
		for k := range room {
			if w := &room[k]; w.Key == b.Key && w.Group == b.Group {
				w.Bucket, w.tokens = b, w.tokens+b.tokens()
				continue next
			}
		}
		room = append(room, want{b, i, b.tokens()})
	}
	for _, w := range room {
		switch {
		case w.tokens > w.Limit.Burst:
			return nil, &ExceededError{Bucket: w.index}
		case w.Sharer != "" && !w.Limit.shares(float64(w.tokens), 0, 0, w.Limit.quiet(1)):
			return nil, &ExceededError{Bucket: w.index, Share: true}
		}
	}
	return room, nil
}

// terms returns the keys and the arguments of the script that takes what is wanted.
func terms(wants []want) (keys, args []string) {
	keys, args = make([]string, 0, 2*len(wants)), make([]string, 0, 4*len(wants))
	for i := range wants {
		w := &wants[i]
		digest := sha256.Sum256([]byte(w.Key))
		keys = append(keys, key(w.Group, "rate", digest))
		shared := "0"
		if w.Sharer != "" {
			shared = "1"
			keys = append(keys, key(w.Group, "part", sha256.Sum256(append(digest[:], w.Sharer...))))
		}
		args = append(args, number(w.Limit.Rate), strconv.Itoa(w.Limit.Burst), strconv.Itoa(w.tokens), shared)
	}
	return keys, args
}

// key returns the key of a bucket or of a part of it. It is a digest, because what it stands for has names of clients in
// it, which may be long, and which nobody should be able to read there.
func key(group, kind string, digest [sha256.Size]byte) string {
	return redis.Key(group, kind, base64.RawURLEncoding.EncodeToString(digest[:16]))
}

// number writes a rate for a script. An infinite one becomes the largest that is finite.
func number(rate float64) string {
	return strconv.FormatFloat(min(rate, math.MaxFloat64), 'g', -1, 64)
}

// state is what a script said of a bucket: its tokens, and what the sharer owes.
type state struct{ has, owed float64 }

// taken reads the answer of the script that takes. It returns the states of the wanted buckets if nothing was taken.
func taken(reply redis.Reply, wants int, room []state) (ok bool, states []state, err error) {
	answer, err := reply.List()
	if err != nil || len(answer) == 0 {
		return false, nil, errors.Join(errAnswer, err)
	}
	done, err := answer[0].Int()
	switch {
	case err != nil:
		return false, nil, errors.Join(errAnswer, err)
	case done == 1:
		return true, nil, nil
	case len(answer) != 1+2*wants:
		return false, nil, errAnswer
	}
	for i := 1; i < len(answer); i += 2 {
		has, errHas := amount(answer[i])
		owed, errOwed := amount(answer[i+1])
		if err := errors.Join(errHas, errOwed); err != nil {
			return false, nil, err
		}
		room = append(room, state{has, owed})
	}
	return false, room, nil
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

// leaseKey returns the key of a bucket that leases are taken of. It is kept in another form than the buckets of calls.
func leaseKey(w *want) string { return key(w.Group, "lease", sha256.Sum256([]byte(w.Key))) }

// leased reads the answer of the script of leases, which cannot be more than most tokens.
func leased(reply redis.Reply, most int) (got int, left float64, err error) {
	answer, err := reply.List()
	if err != nil || len(answer) != 2 {
		return 0, 0, errors.Join(errAnswer, err)
	}
	n, err := answer[0].Int()
	if err != nil || n < 0 || n > int64(most) {
		return 0, 0, errors.Join(errAnswer, err)
	}
	left, err = amount(answer[1])
	return int(n), left, err
}
