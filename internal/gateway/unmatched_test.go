package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestPatternsThatMatchNothingAreWarnedOf has a tenant with the server lib, whose lists
// are known, and with the server away, which never came.
func TestPatternsThatMatchNothingAreWarnedOf(t *testing.T) {
	tests := []struct {
		pattern string
		want    string // what it may have meant; "-": there is no warning
	}{
		{"lib__ask", "-"},
		{"lib__a*", "-"},
		{"*other", "-"},
		{"*", "-"},
		{"prompt:**", "-"},
		{"resource:*", "-"},
		{"lib__aks", "lib__ask"},
		{"lib__othe", "lib__other"},
		{"prompt:lib__x*", ""},
		{"lib__othre*", "lib__other"},
		{"lib__delete_*", ""},
		{"prompt:lib__greet", "-"},
		{"prompt:lib__greeet", "prompt:lib__greet"},
		{"prompt:lib__ask", ""},
		{"resource:lib:file:///nowhere", "-"}, // it can be read, although it is in no list
		{"*elephant", "-"},                    // away may have one
		{"away__ask", "-"},
		{"aw*ask", "-"},
		{"lib__*elephant*", ""},
	}
	for _, deny := range []bool{true, false} {
		for _, test := range tests {
			rule := Rule{Deny: []string{test.pattern}}
			if !deny {
				rule = Rule{Allow: []string{test.pattern}}
			}
			b, _ := newLibrary(t, TenantConfig{
				ID: "acme", Servers: []string{"lib", "away"},
				Rules: []Rule{{Allow: []string{"*"}}, rule},
			})
			b.registry.Lose("away", "away")
			got := b.Unmatched()
			if test.want == "-" {
				if len(got) > 0 {
					t.Errorf("%s: got %v, want no warning", test.pattern, got)
				}
				continue
			}
			want := Unmatched{
				PatternPosition{Tenant: "acme", Rule: 2, Deny: deny, Pattern: test.pattern},
				test.want,
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("%s: got %v, want %v", test.pattern, got, want)
			}
		}
	}
}

func TestPatternOfResourcesOfAServerWithoutAnyIsWarnedOf(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"},
		Rules: []Rule{{Deny: []string{"resource:box:file:///secret/*"}}},
	})
	if got := b.Unmatched(); len(got) != 1 || got[0].Pattern != "resource:box:file:///secret/*" {
		t.Errorf("got %v, want the pattern of resources", got)
	}
}

// TestServerWithAnotherPrefixMayHaveWhatAPatternNames: the names of tools begin with the
// prefix, not with the server's name.
func TestServerWithAnotherPrefixMayHaveWhatAPatternNames(t *testing.T) {
	for prefix, want := range map[string]int{"": 0, "lib": 0, "other": 1} {
		b, _ := newLibrary(t, TenantConfig{
			ID: "acme", Servers: []string{"lib", "away"},
			Rules: []Rule{{Deny: []string{"lib__elephant"}}},
		})
		b.registry.Lose("away", prefix)
		if got := b.Unmatched(); len(got) != want {
			t.Errorf("away with the prefix %q: got %v, want %d warnings", prefix, got, want)
		}
	}
}

func TestPatternsThatAreMeantToMatchNothingAreNoWarning(t *testing.T) {
	for _, meant := range []bool{false, true} {
		b, _ := newLibrary(t, TenantConfig{
			ID: "acme", Servers: []string{"lib"}, MayMatchNothing: meant,
			Rules:  []Rule{{Deny: []string{"lib__delete_*"}, MayMatchNothing: meant}},
			Limits: Limits{Tools: map[string]ratelimit.Limit{"lib__asks": {}}},
		})
		got := strings.Join(b.Warnings(), "\n")
		for _, want := range []string{
			`tenant acme: rule 1 denies "lib__delete_*", which matches nothing that its servers offer; correct it or`,
			`tenant acme: limits has tools "lib__asks", which matches nothing that its servers offer (did you mean lib__ask?)`,
		} {
			if strings.Contains(got, want) == meant {
				t.Errorf("meant %v: got %q, want %q in it: %v", meant, got, want, !meant)
			}
		}
	}
}

// TestWarningOfAPatternGoesWhenItMatches follows a server's list through its changes: the
// warning is there while the list is known and lacks what the pattern names. It is logged
// once, until it was wrong.
func TestWarningOfAPatternGoesWhenItMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t, TenantConfig{
			ID: "acme", Servers: []string{"later"},
			Rules: []Rule{{Allow: []string{"*"}}, {Deny: []string{"later__ask"}}},
		})
		var log bytes.Buffer
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		with, without := l.source("later"), l.source("later")
		with.Prefix, without.Prefix = "later", "later"
		without.Tools = without.Tools[1:]
		unread := without
		unread.Unread = []registry.Kind{registry.KindTool}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		steps := []struct {
			name      string
			change    func()
			unmatched int
			logged    int // so far
		}{
			{"before the server was there", func() {}, 0, 0},
			{"its list not read", func() { b.replace(t, unread) }, 0, 0},
			{"its list without the tool", func() { b.replace(t, without) }, 1, 1},
			{"the server away", func() { b.registry.Remove("later") }, 0, 1},
			{"there again", func() { b.replace(t, without) }, 1, 1},
			{"with the tool", func() { b.replace(t, with) }, 0, 1},
			{"without it again", func() { b.replace(t, without) }, 1, 2},
		}
		for _, step := range steps {
			step.change()
			time.Sleep(reportAfter) // in a bubble
			synctest.Wait()
			if got := len(b.Unmatched()); got != step.unmatched {
				t.Errorf("%s: %d patterns match nothing, want %d", step.name, got, step.unmatched)
			}
			if got := metricstest.Sum(t, b.metrics,
				"drawbridge_config_warnings"); got != float64(step.unmatched) {
				t.Errorf("%s: %v are counted, want %d", step.name, got, step.unmatched)
			}
			if got := strings.Count(log.String(), "code=no-match"); got != step.logged {
				t.Errorf("%s: logged %d times, want %d:\n%s", step.name, got, step.logged, log.String())
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := "tenant=acme rule=2 deny=true pattern=later__ask"; !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want %s in it", log.String(), want)
		}
	})
}

// TestReloadTellsNoPassingWarning changes the rules before the server, as a reload does:
// what matches nothing in between is not told.
func TestReloadTellsNoPassingWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := func(pattern string) []TenantConfig {
			return []TenantConfig{{
				ID: "acme", Servers: []string{"lib"},
				Rules: []Rule{{Deny: []string{pattern}}},
			}}
		}
		b, l := newLibrary(t, rules("lib__ask")...)
		var log bytes.Buffer
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		time.Sleep(3 * reportAfter)
		for _, name := range []string{"more", "yet-more"} {
			b.SetPolicy("", rules("lib__"+name))
			synctest.Wait()
			s := l.source("lib")
			s.Tools[0].Definition = s.Tools[0].Definition.With("name", mcp.String(name))
			b.replace(t, s)
			time.Sleep(3 * reportAfter)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", log.String())
		}
	})
}

// TestManySlipsAreGuessedWithinBounds: a whole file of slips costs no more than some.
func TestManySlipsAreGuessedWithinBounds(t *testing.T) {
	var deny []string
	for i := range 3 * maxWarnings {
		deny = append(deny, fmt.Sprintf("lib__ask%d", i%10)+strings.Repeat("x", i/10))
	}
	b, _ := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib"}, Rules: []Rule{{Deny: deny}}})
	got := b.Unmatched()
	guessed := slices.DeleteFunc(slices.Clone(got), func(u Unmatched) bool { return u.Nearest == "" })
	if len(got) != len(deny) || len(guessed) == 0 || len(guessed) > maxGuesses {
		t.Errorf("%d of %d patterns, %d with a guess; want all, and 1 to %d", len(got), len(deny),
			len(guessed), maxGuesses)
	}
	if warnings := b.Warnings(); len(warnings) != maxWarnings+1 {
		t.Errorf("%d warnings, want %d and how many more", len(warnings), maxWarnings)
	}
}

// TestAPatternIsLoggedBesideManyThatWereLogged adds one to a whole file of slips.
func TestAPatternIsLoggedBesideManyThatWereLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deny := make([]string, 0, maxWarnings+10)
		for i := range cap(deny) - 1 {
			deny = append(deny, fmt.Sprint("lib__none", i))
		}
		rules := func() []TenantConfig {
			return []TenantConfig{{
				ID: "acme", Servers: []string{"lib"}, Rules: []Rule{{Deny: slices.Clone(deny)}},
			}}
		}
		b, _ := newLibrary(t, rules()...)
		var log bytes.Buffer
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		for _, want := range []int{maxWarnings, maxWarnings + 1} {
			time.Sleep(3 * reportAfter)
			synctest.Wait()
			if got := strings.Count(log.String(), "code=no-match"); got != want {
				t.Errorf("%d patterns: logged %d times, want %d", len(deny), got, want)
			}
			deny = append(deny, "lib__another")
			b.SetPolicy("", rules())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestTheLogNamesCollisionsOnceAndNotWithoutABound has two tenants with the same servers.
func TestTheLogNamesCollisionsOnceAndNotWithoutABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box", "twin"}},
			TenantConfig{ID: "globex", Servers: []string{"box", "twin"}})
		var log bytes.Buffer
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		box, twin := b.source("box"), b.source("twin")
		twin.Prefix, twin.Tools = "box", box.Tools[:1]
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		named := func() int {
			time.Sleep(reportAfter) // in a bubble
			synctest.Wait()
			return strings.Count(log.String(), "its name is taken")
		}
		b.registry.Replace(twin)
		synctest.Wait()
		b.registry.Remove("twin")
		if got := named(); got != 0 {
			t.Errorf("a collision of a moment: %d lines, want none", got)
		}
		b.registry.Replace(twin)
		if got := named(); got != 1 {
			t.Errorf("one collision: %d lines, want one", got)
		}
		for i := range maxWarnings + 10 {
			more := box.Tools[0]
			more.Definition = more.Definition.With("name", mcp.String(fmt.Sprint("t", i)))
			box.Tools = append(box.Tools, more)
		}
		twin.Tools = box.Tools
		b.registry.Replace(box)
		b.registry.Replace(twin)
		many := named()
		if many > maxWarnings+1 || many < maxWarnings-1 {
			t.Errorf("many collisions: %d lines, want about %d", many, maxWarnings)
		}
		more := box.Tools[0]
		more.Definition = more.Definition.With("name", mcp.String("another"))
		box.Tools = append(box.Tools, more)
		twin.Tools = box.Tools
		b.registry.Replace(box)
		b.registry.Replace(twin)
		if got := named() - many; got != 1 {
			t.Errorf("one more: %d lines, want one", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
