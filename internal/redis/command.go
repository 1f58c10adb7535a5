package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// Command is one command to the server. It has one key, which decides in a cluster which
// node gets it.
type Command struct {
	Name string
	Key  string
	Args []string // what follows the key
	// Answer is how many bytes the answer may have, where that may be more than a few.
	Answer int
}

// Reply is what the server answered. Its methods return an error for an answer of another
// form, which somebody else must have written: a type of key that the gateway does not
// use under that name, for example.
type Reply struct{ message rueidis.RedisMessage }

// Nil tells whether the answer is that there is nothing.
func (r Reply) Nil() bool { return r.message.IsNil() }

// Int returns a number.
func (r Reply) Int() (int64, error) { return r.message.AsInt64() }

// Text returns a text, which may be any bytes.
func (r Reply) Text() (string, error) { return r.message.ToString() }

// List returns the parts of an array.
func (r Reply) List() ([]Reply, error) {
	messages, err := r.message.ToArray()
	if err != nil {
		return nil, err
	}
	replies := make([]Reply, len(messages))
	for i := range messages {
		replies[i] = Reply{messages[i]}
	}
	return replies, nil
}

// Fields returns the fields of a hash, or the pairs of texts in an array.
func (r Reply) Fields() (map[string]string, error) { return r.message.AsStrMap() }

// Entry is one entry of a stream: its ID, and its FieldValues by name.
type Entry = rueidis.XRangeEntry

// Entries returns the entries that XRANGE answers with.
func (r Reply) Entries() ([]Entry, error) { return r.message.AsXRange() }

// Outcome is how a call came out.
type Outcome string

// The outcomes.
const (
	OutcomeDone      Outcome = "done"      // answered
	OutcomeRefused   Outcome = "refused"   // the server answered with an error
	OutcomeLate      Outcome = "late"      // no answer in time
	OutcomeBroken    Outcome = "broken"    // the connection ended, or could not be made
	OutcomeAbandoned Outcome = "abandoned" // the caller gave up
	OutcomeSkipped   Outcome = "skipped"   // not made, because the server was not well
)

// Do runs one command. Errors wrap ErrDown, unless it is that of ctx: then nothing is
// known of the command.
func (s *Store) Do(ctx context.Context, c Command) (Reply, error) {
	replies, err := s.DoAll(ctx, c)
	if err != nil {
		return Reply{}, err
	}
	return replies[0], nil
}

// size returns how many bytes the command and its answer carry.
func (c *Command) size() int { return bytesOf(c.Args) + c.Answer }

// build returns the command as the library wants it. If it is dedicated, it goes on a
// connection of its own.
func (c *Command) build(client rueidis.Client, dedicated bool) rueidis.Completed {
	command := client.B().Arbitrary(c.Name).Keys(c.Key).Args(c.Args...)
	if dedicated {
		return command.Blocking()
	}
	return command.Build()
}

// batch is how many commands go in one round trip: the server does nothing else
// meanwhile.
const batch = 256

// DoAll runs several commands, if any, a batch in one round trip, or in a cluster one to
// each node. They are not done together: others may come between. An error says that at
// least one of them failed, and that those of later batches were not made. The replies to
// the batches before it are returned with it.
func (s *Store) DoAll(ctx context.Context, commands ...Command) ([]Reply, error) {
	replies := make([]Reply, 0, len(commands))
	for some := range slices.Chunk(commands, batch) {
		if err := s.admit(kindOf(some[0].Key)); err != nil {
			return replies, err
		}
		answers, err := s.each(ctx, some)
		if err != nil {
			return replies, s.failed(ctx, err)
		}
		for _, a := range answers {
			replies = append(replies, a.Reply)
		}
	}
	return replies, nil
}

// admit returns why no call is made; nil: it is.
func (s *Store) admit(kind string) error {
	err := s.breaker.problem()
	if err != nil {
		s.config.Called(kind, OutcomeSkipped, -1)
	}
	return err
}

// answer is what the server has said to one command.
type answer struct {
	Reply
	err error // that the server has said, or why it has said nothing
}

// answerOf takes a result of the library.
func answerOf(r rueidis.RedisResult) answer {
	message, err := r.ToMessage()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return answer{Reply{message}, err}
}

// each runs commands past the breaker, and returns the answer to each, and the first
// error. If the server has said that error, there are answers all the same.
func (s *Store) each(ctx context.Context, commands []Command) ([]answer, error) {
	size := 0
	for i := range commands {
		size += commands[i].size()
	}
	var answers []answer // of the goroutine, until that is over
	over, err := s.askSized(ctx, commands[0].Key, size,
		func(ctx context.Context, client rueidis.Client, dedicated bool) error {
			built := make([]rueidis.Completed, len(commands))
			for i := range commands {
				built[i] = commands[i].build(client, dedicated)
			}
			answers = make([]answer, len(built))
			var first error
			for i, result := range client.DoMulti(ctx, built...) {
				answers[i] = answerOf(result)
				if first == nil {
					first = answers[i].err
				}
			}
			return first
		})
	if !over {
		return nil, err
	}
	return answers, err
}

// outcomeOf says how a call came out that its caller waited for.
func outcomeOf(err error) Outcome {
	if err == nil || rueidis.IsRedisNil(err) {
		return OutcomeDone
	}
	switch state, _ := stateOf(err); {
	case errorCode(err) != "":
		return OutcomeRefused
	case state == StateSlow:
		return OutcomeLate
	default:
		return OutcomeBroken
	}
}

// failed returns the error of a call that failed, and opens the breaker unless the caller
// itself gave up, or the error is about that call alone. A call that ended together with
// its link says nothing of the server, of which more is known then. Nor does one that had
// no answer in time: it may have waited in this process, or behind a large answer to
// somebody else. A probe finds out, at once.
func (s *Store) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	down := explain(err)
	known := errors.Is(err, context.Canceled) && s.Up() != nil
	switch state, all := stateOf(err); {
	case known || !all:
	case state == StateSlow && errorCode(err) == "":
		pace.Signal(s.wake)
	default:
		s.fail(down)
	}
	return down
}

// Script is a Lua script that the server runs as one step. It may touch only keys that
// are named to it, which in a cluster all have the same tag; see Key.
type Script struct {
	lua  *rueidis.Lua
	text string
}

// NewScript returns a script. It is loaded when it is first run.
func NewScript(text string) *Script { return &Script{rueidis.NewLuaScript(text), text} }

// Run runs the script in one round trip, but for the first time. There is at least one
// key. Errors are those of Store.Do.
func (p *Script) Run(ctx context.Context, s *Store, keys, args []string) (Reply, error) {
	return p.runFor(ctx, s, 0, keys, args)
}

// RunSized is Run for an answer that may be large, and whose size nobody knows before.
// The script has as its last argument how many bytes the answer may have. Where that
// needs more, it answers with how many: then it is run again for these, unless they are
// more than most.
func (p *Script) RunSized(ctx context.Context, s *Store, answer, most int, keys,
	args []string,
) (Reply, error) {
	for {
		reply, err := p.runFor(ctx, s, answer, keys, append(args, strconv.Itoa(answer)))
		needs, other := reply.Int()
		if err != nil || other != nil || needs <= int64(answer) || needs > int64(most) {
			return reply, err
		}
		answer = int(needs)
	}
}

// runFor is Run for an answer that may have so many bytes.
func (p *Script) runFor(ctx context.Context, s *Store, answer int, keys, args []string) (Reply, error) {
	if err := s.admit(kindOf(keys[0])); err != nil {
		return Reply{}, err
	}
	reply, err := p.run(ctx, s, answer, keys, args)
	if err != nil {
		return Reply{}, s.failed(ctx, err)
	}
	return reply, nil
}

// run is Run past the breaker. While a slot moves to another node of a cluster, scripts
// that have some of their keys there and some not are refused, and have done nothing:
// those are run again until they succeed or the time is over.
func (p *Script) run(ctx context.Context, s *Store, size int, keys, args []string) (Reply, error) {
	var said answer // of the goroutine, until that is over
	_, err := s.askSized(ctx, keys[0], bytesOf(args)+size,
		func(ctx context.Context, client rueidis.Client, dedicated bool) error {
			said = answerOf(p.exec(ctx, client, dedicated, keys, args))
			for errorCode(said.err) == "TRYAGAIN" && pace.Wait(ctx, againAfter) {
				said = answerOf(p.exec(ctx, client, dedicated, keys, args))
			}
			return said.err
		})
	if err != nil {
		return Reply{}, err
	}
	return said.Reply, nil
}

// exec runs the script once. A dedicated one is sent with its text, over a connection of
// its own.
func (p *Script) exec(ctx context.Context, client rueidis.Client, dedicated bool, keys,
	args []string,
) rueidis.RedisResult {
	if dedicated {
		return client.Do(ctx, client.B().Arbitrary("EVAL").Args(p.text,
			strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Blocking())
	}
	return p.lua.Exec(ctx, client, keys, args)
}
