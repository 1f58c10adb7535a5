package signin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// reachEvery is how often providers are asked whether they answer.
const reachEvery = time.Minute

// Unreached is a provider that does not answer.
type Unreached struct {
	Provider string // its name
	Since    time.Time
	Err      error // why, when it was asked last
}

// Unreached returns the providers that cannot be reached now, in no order.
func (s *Server) Unreached() []Unreached {
	return slices.Collect(maps.Values(*s.core.unreached.Load()))
}

// reachAll asks each provider of the settings once whether it answers, so that an
// operator learns of one that does not before people do. The log says which answer no
// more, or again.
func (s *core) reachAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex // guards the last two below
	before, now, up := *s.unreached.Load(), map[string]Unreached{}, map[string]bool{}
	for _, l := range s.config.Settings().Logins {
		asked.Go(func() {
			name, err := l.Provider.Name(), l.Provider.Reach(ctx)
			mu.Lock()
			defer mu.Unlock()
			if up[name] = err == nil; err != nil {
				now[name] = Unreached{name, cmp.Or(before[name].Since, s.now()), err}
			}
		})
	}
	asked.Wait()
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // the gateway stops, and says nothing of providers
	}
	s.unreached.Store(&now)
	s.config.Records.Providers(up)
	for name, u := range now {
		if _, known := before[name]; !known {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a provider of sign-ins cannot be reached",
				slog.String("provider", name), slog.Any("error", u.Err))
		}
	}
	for name := range before {
		if up[name] {
			s.log.LogAttrs(ctx, slog.LevelInfo, "a provider of sign-ins is reached again",
				slog.String("provider", name))
		}
	}
}
