package signin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// reachEvery is how often providers are asked whether they answer.
const reachEvery = time.Minute

// reachAll asks each provider of the settings once whether it answers, so that an operator
// learns of one that does not before people do.
func (s *core) reachAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex // guards the two below
	state, up := map[string]*Unreached{}, map[string]bool{}
	for _, l := range s.config.Settings().Logins {
		reacher, can := l.Provider.(Reacher)
		if !can {
			continue
		}
		name := l.Provider.Name()
		asked.Go(func() {
			err := reacher.Reach(ctx)
			mu.Lock()
			defer mu.Unlock()
			up[name], state[name] = err == nil, nil
			if err != nil {
				state[name] = &Unreached{Provider: name, Since: s.now(), Err: err}
			}
		})
	}
	asked.Wait()
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // the gateway stops, and says nothing of providers
	}
	s.reach.mu.Lock()
	before := s.reach.state
	for name, u := range state {
		if old := before[name]; u != nil && old != nil {
			u.Since = old.Since
		}
	}
	s.reach.state = state
	s.reach.mu.Unlock()
	s.config.Records.Providers(up)
	s.tellReach(ctx, before, state)
}

// tellReach says in the log which providers answer no more, or again.
func (s *core) tellReach(ctx context.Context, before, now map[string]*Unreached) {
	for name, u := range now {
		switch old := before[name]; {
		case u != nil && old == nil:
			s.log.LogAttrs(ctx, slog.LevelWarn, "a provider of sign-ins cannot be reached",
				slog.String("provider", name), slog.Any("error", u.Err))
		case u == nil && old != nil:
			s.log.LogAttrs(ctx, slog.LevelInfo, "a provider of sign-ins is reached again",
				slog.String("provider", name))
		}
	}
}
