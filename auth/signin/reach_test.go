package signin_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// reachable is a provider that says so when it is away.
type reachable struct{ *idp }

func (p reachable) Reach(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}

// TestProvidersThatDoNotAnswerAreKnown shows that it is known within a minute which
// provider answers no more, since when, and when it does again. One that a reload takes
// away is not asked any more.
func TestProvidersThatDoNotAnswerAreKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
			s.Logins[0].Provider = reachable{s.Logins[0].Provider.(*idp)}
		})
		ctx, end := contextOf(t)
		var running sync.WaitGroup
		running.Go(func() { _ = w.server.Run(ctx) })
		defer running.Wait()
		defer end()
		synctest.Wait()
		if got := w.server.Unreached(); len(got) != 0 || w.counts.get("reached", "corp", "true") != 1 {
			t.Errorf("at the start: unreached %v, counted %v", got, w.counts.of)
		}
		w.idp.set(func() { w.idp.away = errors.New("no such host") })
		time.Sleep(time.Minute)
		synctest.Wait()
		since := time.Now()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		got := w.server.Unreached()
		if len(got) != 1 || got[0].Provider != "corp" || !got[0].Since.Equal(since) || got[0].Err.Error() != "no such host" {
			t.Errorf("away: got %v, want corp since %v", got, since)
		}
		w.idp.set(func() { w.idp.away = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.server.Unreached(); len(got) != 0 {
			t.Errorf("back: unreached %v", got)
		}
		w.idp.set(func() { w.idp.away = errors.New("gone") })
		time.Sleep(time.Minute)
		synctest.Wait()
		settings := *w.settings.Load()
		settings.Logins = nil
		w.settings.Store(&settings)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.server.Unreached(); len(got) != 0 {
			t.Errorf("after a reload without it: unreached %v", got)
		}
		for said, times := range map[string]int{"cannot be reached": 2, "is reached again": 1} {
			if got := strings.Count(w.log.String(), said); got != times {
				t.Errorf("the log says %q %d times, want %d: %s", said, got, times, w.log)
			}
		}
	})
}
