package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// readyAfter is how long the gateway waits at its start for what clients need. Then it is
// ready all the same, or one broken server would keep every tenant out.
const readyAfter = 10 * time.Second

// keylessAtMost is how long the gateway may stay not ready because no issuer has keys.
// Then it is ready all the same: in an outage of all issuers, replicas that start are no
// worse than none, and who waits for them waits no longer.
const keylessAtMost = 5 * time.Minute

// status answers how the process is, for /readyz on the operator's listener. It is safe
// for concurrent use: several requests, the goroutine of reloads and the drain use it at
// once.
type status struct {
	parts *parts
	start time.Time
	// ready is true once await has returned: what is missing later, such as a server that
	// a reload adds, does not take readiness back.
	ready atomic.Bool
	// keyed stays true once an issuer had keys, or keylessAtMost has passed.
	keyed   atomic.Bool
	drain   atomic.Bool              // true from the beginning of the stop
	refused atomic.Pointer[string]   // why the newest config was refused; nil: it was not
	restart atomic.Pointer[[]string] // names of settings that differ from what runs until a restart
}

// newStatus returns the status of parts whose other fields have been set.
func newStatus(p *parts) *status {
	s := &status{parts: p, start: time.Now()}
	s.restart.Store(new([]string))
	return s
}

// await returns when there is all that clients need: an attempt to reach each server has
// ended, Redis is used, and the store was asked which sign-ins have ended. It returns
// after readyAfter all the same, or when ctx ends. Whoever asks before waits meanwhile. A
// load balancer that asks nobody, such as nginx, sends requests as soon as the address is
// listened on, and they would be refused.
func (s *status) await(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, readyAfter)
	defer cancel()
	p := s.parts
	for limited.Err() == nil && (!p.fleet.tried() || !p.sharing.begun() || !p.signIns.begun()) {
		pace.Wait(limited, pollInterval)
	}
	s.ready.Store(ctx.Err() == nil)
}

// delayedUntil has requests wait until a channel is closed. Those for the keys of
// identities do not wait: a server that is told who calls asks for them before it answers
// the gateway, and the gateway would wait for the server.
func delayedUntil(awaited <-chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != server.KeysPath {
			_ = pace.Await(r.Context(), awaited) // who is gone gets its answer, too, which nobody reads
		}
		next.ServeHTTP(w, r)
	})
}

// view returns what /readyz shows now.
func (s *status) view() admin.View {
	view := admin.View{
		Ready: s.ready.Load() && !s.drain.Load(), Draining: s.drain.Load(),
		Servers: s.parts.fleet.loads(),
	}
	view.Overload = strings.Trim(overload(s.parts.memory, maxBody(s.parts.started.Limits))+"; "+
		s.parts.limits.overload(), "; ")
	if reason := s.refused.Load(); reason != nil {
		view.Warnings = append(view.Warnings,
			"the newest config is refused and the one before it is in force: "+*reason)
	}
	for _, name := range *s.restart.Load() {
		view.Warnings = append(view.Warnings, "restart to change "+name)
	}
	s.judgeAudit(&view)
	s.judgeKeys(&view)
	s.parts.sharing.judge(&view)
	s.parts.storing.judge(&view)
	judgeIssuers(&view, s.parts.issuers.current.Load())
	s.parts.signIns.judge(&view)
	view.Warnings = append(view.Warnings, s.parts.fleet.warnings()...)
	view.Warnings = append(view.Warnings, s.parts.gateway.Warnings()...)
	return view
}

// judgeIssuers adds to view what the verifier in force knows of the issuers: how it fares
// to fetch their keys, and which claims that an issuer names no token of an hour had.
func judgeIssuers(view *admin.View, issuers *auth.Verifier) {
	view.Issuers, view.Warnings = viewKeys(issuers.KeySets(), view.Warnings)
	for _, m := range issuers.MissingClaims() {
		view.Warnings = append(view.Warnings,
			fmt.Sprintf("issuer %s: none of the %d tokens of an hour had the claim %q: %s", m.Issuer,
				m.Tokens, m.Claim, m.Advice))
	}
}

// viewKeys returns how it fares to fetch the issuers' keys, and the warnings with those
// that follow from it: keys that could not be fetched, with the time until which the last
// ones serve, and keys that are refused.
func viewKeys(sets []auth.KeySet, warnings []string) (map[string]admin.Issuer, []string) {
	issuers := make(map[string]admin.Issuer, len(sets))
	for _, set := range sets {
		whole := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
		issuers[set.Issuer] = admin.Issuer{
			Fetched: whole(set.Fetched), Until: whole(set.Until),
			Failing: whole(set.Failing),
		}
		if set.Problem != nil {
			warnings = append(warnings,
				fmt.Sprintf("issuer %s: its keys cannot be fetched: %s (since %s); %s",
					set.Issuer, set.Problem, set.Failing.UTC().Format(time.RFC3339), meanwhile(set)))
		}
		for _, key := range set.Refused {
			warnings = append(warnings, fmt.Sprintf("issuer %s: refused %s", set.Issuer, key))
		}
	}
	return issuers, warnings
}

// meanwhile says what it means that the keys of an issuer cannot be fetched.
func meanwhile(set auth.KeySet) string {
	if set.Until.IsZero() {
		return "there are none, so its tokens are refused"
	}
	return "the last ones serve until " + set.Until.UTC().Format(time.RFC3339) +
		", also those that it has removed"
}

// judgeKeys adds that no issuer has had keys since the start, so that every token is
// refused. A rollout must not replace replicas that have keys by such ones. As soon as
// one issuer has some, its tenants are served.
func (s *status) judgeKeys(view *admin.View) {
	if s.keyed.Load() {
		return
	}
	if s.parts.issuers.current.Load().HasKeys() || time.Since(s.start) > keylessAtMost {
		s.keyed.Store(true)
		return
	}
	view.Problems = append(view.Problems, "no issuer has keys yet, so every token is refused")
}

// judgeAudit adds what it means that audit records cannot be written. By default every
// call is then refused, and a gateway that refuses all calls is not ready. With
// when_full: drop the calls go on, and it is only a warning.
func (s *status) judgeAudit(view *admin.View) {
	problem := s.parts.audit.Problem()
	switch {
	case problem == nil:
	case s.parts.started.Audit.Drop:
		view.Warnings = append(view.Warnings,
			"audit records cannot be written; calls go on, and records beyond 4096 are lost: "+
				problem.Error())
	default:
		view.Problems = append(view.Problems, "audit records cannot be written, so calls are refused: "+
			problem.Error())
	}
}
