package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// Command is one command to the server. It has one key, which decides in a cluster which node gets it.
type Command struct {
	Name string
	Key  string
	Args []string // what follows the key
}

// Reply is what the server answered. Its methods return an error for an answer of another form, which somebody else must
// have written: a type of key that the gateway does not use under that name, for example.
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

// Map returns the fields of a hash.
func (r Reply) Map() (map[string]Reply, error) {
	messages, err := r.message.AsMap()
	if err != nil {
		return nil, err
	}
	replies := make(map[string]Reply, len(messages))
	for name := range messages {
		replies[name] = Reply{messages[name]}
	}
	return replies, nil
}

// Entry is one entry of a stream.
type Entry struct {
	ID     string
	Fields map[string]string
}

// Entries returns the entries that XRANGE answers with.
func (r Reply) Entries() ([]Entry, error) {
	found, err := r.message.AsXRange()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found))
	for i, e := range found {
		entries[i] = Entry{e.ID, e.FieldValues}
	}
	return entries, nil
}

// Do runs one command. Errors wrap ErrDown, unless it is that of ctx.
func (s *Store) Do(ctx context.Context, c Command) (Reply, error) {
	if err := s.breaker.problem(); err != nil {
		return Reply{}, err
	}
	return s.do(ctx, c)
}

// do is Do past the breaker, which it opens if there is no answer.
func (s *Store) do(ctx context.Context, c Command) (Reply, error) {
	replies, err := s.doAll(ctx, []Command{c})
	if err != nil {
		return Reply{}, err
	}
	return replies[0], nil
}

// DoAll runs several commands in one round trip, or in a cluster one to each node. They are not done together: others may
// come between. An error says that at least one of them failed.
func (s *Store) DoAll(ctx context.Context, commands ...Command) ([]Reply, error) {
	if err := s.breaker.problem(); err != nil {
		return nil, err
	}
	return s.doAll(ctx, commands)
}

func (s *Store) doAll(ctx context.Context, commands []Command) ([]Reply, error) {
	client := s.client.Load()
	if client == nil {
		return nil, s.Up()
	}
	built := make([]rueidis.Completed, len(commands))
	for i, c := range commands {
		built[i] = (*client).B().Arbitrary(c.Name).Keys(c.Key).Args(c.Args...).Build()
	}
	patient, stop := context.WithTimeout(ctx, s.config.Patience)
	defer stop()
	results := (*client).DoMulti(patient, built...)
	replies := make([]Reply, len(results))
	for i, result := range results {
		message, err := result.ToMessage()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, s.failed(ctx, err)
		}
		replies[i] = Reply{message}
	}
	return replies, nil
}

// failed returns the error of a call that failed, and opens the breaker unless the caller itself gave up.
func (s *Store) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	down := fmt.Errorf("%w: %w", ErrDown, err)
	if _, said := rueidis.IsRedisErr(err); !said {
		s.breaker.set(down)
	}
	return down
}

// Script is a Lua script that the server runs as one step. It may touch only keys that are named to it, which in a cluster
// all have the same tag; see Key.
type Script struct{ lua *rueidis.Lua }

// NewScript returns a script. It is loaded when it is first run.
func NewScript(text string) *Script { return &Script{rueidis.NewLuaScript(text)} }

// Run runs the script in one round trip, but for the first time. Errors are those of Store.Do.
func (p *Script) Run(ctx context.Context, s *Store, keys, args []string) (Reply, error) {
	if err := s.breaker.problem(); err != nil {
		return Reply{}, err
	}
	client := s.client.Load()
	if client == nil {
		return Reply{}, s.Up()
	}
	patient, stop := context.WithTimeout(ctx, s.config.Patience)
	defer stop()
	message, err := p.lua.Exec(patient, *client, keys, args).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return Reply{}, s.failed(ctx, err)
	}
	return Reply{message}, nil
}

// ReadStream waits until a stream has entries after the one with that id, and returns them, at most count. It returns
// none if nothing comes within about a second. It waits on a connection of its own.
func (s *Store) ReadStream(ctx context.Context, key, after string, count int) ([]Entry, error) {
	if err := s.breaker.problem(); err != nil {
		return nil, err
	}
	client := s.client.Load()
	if client == nil {
		return nil, s.Up()
	}
	wait := strconv.FormatInt(streamWait.Milliseconds(), 10)
	read := (*client).B().Arbitrary("XREAD").Args("COUNT", strconv.Itoa(count), "BLOCK", wait, "STREAMS").Keys(key).Args(after).Blocking()
	patient, stop := context.WithTimeout(ctx, streamWait+s.config.Patience)
	defer stop()
	found, err := (*client).Do(patient, read).AsXRead()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, nil
	case err != nil:
		return nil, s.failed(ctx, err)
	}
	entries := make([]Entry, len(found[key]))
	for i, e := range found[key] {
		entries[i] = Entry{e.ID, e.FieldValues}
	}
	return entries, nil
}
