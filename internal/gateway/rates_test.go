package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// asked is a limiter that allows everything, and remembers what it was asked.
type asked struct {
	trips  [][]ratelimit.Bucket
	before func() // each answer; nil: nothing
}

func (a *asked) Take(_ context.Context, buckets ...ratelimit.Bucket) error {
	a.trips = append(a.trips, slices.Clone(buckets))
	if a.before != nil {
		a.before()
	}
	return nil
}

// kinds returns the first part of the key of each bucket, trip by trip, and forgets them.
func (a *asked) kinds() string {
	var trips []string
	for _, buckets := range a.trips {
		var kinds []string
		for _, b := range buckets {
			kind, _, _ := strings.Cut(b.Key, "\x00")
			kinds = append(kinds, kind)
		}
		trips = append(trips, strings.Join(kinds, " "))
	}
	a.trips = nil
	return strings.Join(trips, ", ")
}

func newAsked(t *testing.T) (*bench, *asked) {
	t.Helper()
	limit := ratelimit.Limit{Rate: 1, Burst: 10}
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"box__plain", "box__echo"}}},
		Limits: Limits{Tools: map[string]ratelimit.Limit{"box__*": limit, "*plain": limit, "*new": limit}},
	})
	limiter := &asked{}
	b.config.Limiter = limiter
	return b, limiter
}

// TestACallAsksTheLimiterOnce shows that tenant, user and tool are asked in one go, which
// may be a round trip to another machine, and that names which only the client has said
// are no keys.
func TestACallAsksTheLimiterOnce(t *testing.T) {
	b, limiter := newAsked(t)
	for name, want := range map[string]string{
		"box__plain": "calls user tool tool",
		"box__echo":  "calls user tool",
		"box__fails": "calls user", // the caller may not use it
		"nothing":    "calls user",
	} {
		c := b.caller(t, alice)
		limiter.trips = nil // without what the request costs
		_, _ = b.handleAs(t, c, request(name, `{"message":"x"}`))
		for _, trip := range limiter.trips {
			for _, bucket := range trip {
				if bucket.Group != "acme" || strings.Contains(bucket.Key, "nothing") ||
					strings.Contains(bucket.Key, "fails") {
					t.Errorf("%s: asked for %q of %q", name, bucket.Key, bucket.Group)
				}
			}
		}
		if got := limiter.kinds(); got != want {
			t.Errorf("%s: asked for %q, want %q", name, got, want)
		}
	}
	c := b.caller(t, alice)
	limiter.trips = nil
	_, _ = b.handleAs(t, c, ask(mcp.MethodPromptsGet, `{"name":"box__plain"}`))
	if got := limiter.kinds(); got != "calls user" {
		t.Errorf("a prompt: asked for %q, want that of tenant and user", got)
	}
}

// TestAToolThatComesMeanwhileIsCharged shows that the limit of a tool holds also where
// the tool comes into the catalogue while tenant and user are asked.
func TestAToolThatComesMeanwhileIsCharged(t *testing.T) {
	b, limiter := newAsked(t)
	b.replace(t, registry.Source{Name: "box", Prefix: "box"})
	c := b.caller(t, alice)
	limiter.trips, limiter.before = nil, func() {
		limiter.before = nil
		b.replace(t, b.source("box"))
	}
	_, _ = b.handleAs(t, c, request("box__plain", `{}`))
	if got, want := limiter.kinds(), "calls user, tool tool"; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestRequestsAndCallsAreCountedApart shows that request tokens are taken of a bucket of
// their own.
func TestRequestsAndCallsAreCountedApart(t *testing.T) {
	b, limiter := newAsked(t)
	c := b.caller(t, alice)
	limiter.trips = nil
	if err := b.Charge(t.Context(), c, 3); err != nil {
		t.Fatal(err)
	}
	_, _ = b.handleAs(t, c, request("box__plain", `{}`))
	if got := limiter.kinds(); got != "requests, calls user tool tool" {
		t.Errorf("asked for %q", got)
	}
}

// TestACallThatEndsIsNoFaultOfTheLimits shows that a limiter that gave up because the
// client did is no fault.
func TestACallThatEndsIsNoFaultOfTheLimits(t *testing.T) {
	for err, want := range map[error]string{
		context.Canceled:                          "DB-CANCELLED",
		context.DeadlineExceeded:                  "DB-TIMEOUT",
		errors.New("no answer"):                   "DB-LIMITER",
		&ratelimit.ExceededError{RetryAfter: 1e9}: "DB-LIMIT-TENANT",
	} {
		got := failureOf(limitError{err, []rate{{CodeTenantLimit, "calls"}}})
		if got.rpcErr.StableCode() != want || got.rpcErr.Message == "" ||
			got.inside != (want == "DB-LIMITER") {
			t.Errorf("%v: told %v, into the log: %v; want %s", err, got.rpcErr, got.inside, want)
		}
	}
}
