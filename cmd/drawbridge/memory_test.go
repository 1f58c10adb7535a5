package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

func TestPlanOfMemory(t *testing.T) {
	t.Parallel()
	const mib, none = 1 << 20, math.MaxInt64
	for _, test := range []struct {
		name                        string
		setting, container, runtime int64
		budget, ceiling             int64 // in MiB
		source                      string
	}{
		{"nothing says how much there is", 0, 0, none, 512, 0, "default"},
		{"a container", 0, 1000 * mib, none, 600, 900, "the container's limit"},
		{
			"a small container leaves more to the kernel and the program's file", 0, 152 * mib, none, 80, 120,
			"the container's limit",
		},
		{"a very small container is no reserve alone", 0, 64 * mib, none, 32, 48, "the container's limit"},
		{"GOMEMLIMIT", 0, 0, 900 * mib, 600, 0, "GOMEMLIMIT"},
		{"GOMEMLIMIT below the container's limit", 0, 1000 * mib, 450 * mib, 300, 0, "GOMEMLIMIT"},
		{
			"GOMEMLIMIT above the container's limit", 0, 1000 * mib, 5000 * mib, 600, 0,
			"the container's limit",
		},
		{"a setting", 100 * mib, 1000 * mib, none, 100, 900, "limits.memory"},
		{"a setting alone", 2000 * mib, 0, none, 2000, 0, "limits.memory"},
	} {
		got := planMemory(test.setting, test.container, test.runtime)
		if near := func(n, want int64) bool { return n <= want*mib && n > want*mib-1000 }; !near(got.budget,
			test.budget) || !near(got.ceiling, test.ceiling) || got.source != test.source {
			t.Errorf("%s: got %+v, want a budget of %d MiB, a ceiling of %d MiB, from %s", test.name, got,
				test.budget, test.ceiling, test.source)
		}
	}
}

func TestSlotsAreTakenFromTheBudget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits       config.Limits
		budget, want int64 // in MiB
	}{
		{config.Limits{}, 600, 584},
		{config.Limits{MaxRequests: 64}, 600, 599},
		{config.Limits{MaxRequests: 1 << 20}, 600, 300},
	} {
		if got := budgetFor(test.limits,
			memoryPlan{budget: test.budget << 20}).Total() >> 20; got != test.want {
			t.Errorf("%+v: got %d MiB of %d, want %d", test.limits, got, test.budget, test.want)
		}
	}
}

// TestABodyLargerThanAShareIsAWarning asks validate about bodies that never fit into what
// one user may hold.
func TestABodyLargerThanAShareIsAWarning(t *testing.T) {
	for limits, want := range map[string]string{
		"":                        "",
		"limits: {memory: 64MiB}": "",
		"limits: {memory: 8MiB}":  "1:18: warning: a body of 4 MiB, the largest that limits.max_body allows, never fits into what one user may hold, 1032 KiB; ",
		"limits: {memory: 8MiB, max_body: 512KiB}":          "",
		"limits: {memory: 64MiB, max_body: 50MiB}":          "1:35: warning: a body of 50 MiB, ",
		"limits: {memory: 8MiB}\nacknowledge: [large-body]": "",
	} {
		cfg := parse(t, limits+"\n"+minimal)
		warnOfMemory(cfg, planHere(cfg.Limits))
		found := findings{File: "x.yaml"}
		found.judge(t.Context(), cfg, false)
		got := ""
		for _, w := range found.Warnings {
			if w.Code == "large-body" {
				got += w.String()
			}
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", limits, got, want)
		}
	}
}

// TestMoreMemoryThanThereIsIsAWarning asks validate -strict about a limits.memory that
// the kernel would not let the process have; it was accepted in silence.
func TestMoreMemoryThanThereIsIsAWarning(t *testing.T) {
	t.Parallel()
	const none = math.MaxInt64
	for _, test := range []struct {
		limits             string
		container, runtime int64
		want               string
	}{
		{
			"limits: {memory: 512MiB}", 128 << 20, none,
			"1:18: warning: limits.memory of 512 MiB is more than requests may hold here by the container's limit, 64 MiB: ",
		},
		// in a reload
		{"limits: {memory: 512MiB}", 128 << 20, ceilingOf(128 << 20), "by the container's limit, 64 MiB: "},
		{"limits: {memory: 64MiB}", 128 << 20, none, ""},
		{
			"limits: {memory: 512MiB}", 0, 150 << 20,
			"1:18: warning: limits.memory of 512 MiB is more than requests may hold here by GOMEMLIMIT, 100 MiB: ",
		},
		{"limits: {memory: 512MiB}", 0, none, ""},
		{"limits: {max_body: 1MiB}", 128 << 20, none, ""},
		{"limits: {memory: 512MiB}\nacknowledge: [much-memory]", 128 << 20, none, ""},
	} {
		cfg := parse(t, test.limits+"\n"+minimal)
		warnOfMemory(cfg, planMemory(cfg.Limits.Memory, test.container, test.runtime))
		found := findings{File: "x.yaml", strict: true}
		found.judge(t.Context(), cfg, false)
		got := ""
		for _, w := range found.Warnings {
			if w.Code == "much-memory" {
				got += w.String()
			}
		}
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || found.OK &&
			test.want != "" {
			t.Errorf("%q in %d, GOMEMLIMIT %d: got %q, OK %t, want %q", test.limits, test.container,
				test.runtime, got, found.OK, test.want)
		}
	}
}

// TestThePageOnSizingHasTheSharesOfContainers works out what the gateway does with the
// memory of containers, and looks for that in the table of the page.
func TestThePageOnSizingHasTheSharesOfContainers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	const message = 16 << 20 // of a server, at most
	for _, container := range []int64{128, 256, 512, 1024} {
		plan := planMemory(0, container<<20, math.MaxInt64)
		b := budgetFor(config.Limits{}, plan)
		user := b.Most()
		for i := range 64 { // so many that their tenant has all that it may have
			holder := share.User{TenantID: "acme", Subject: strconv.Itoa(i)}
			for b.Take(holder, share.Step) == nil {
			}
		}
		cells := []int64{
			container, plan.limit >> 20, plan.budget >> 20, b.Total() >> 20, b.InUse() >> 20,
			user >> 20, min(user/2, message) >> 20,
		}
		row := strings.ReplaceAll(strings.Trim(fmt.Sprint(cells), "[]"), " ", " | ")
		if !strings.Contains(string(page), "\n| "+row+" |\n") {
			t.Errorf("docs/sizing.md has no row | %s |", row)
		}
	}
}

// TestOverloadNamesTheHolder fills a budget and looks at what the operator is told,
// before and after.
func TestOverloadNamesTheHolder(t *testing.T) {
	t.Parallel()
	b := share.New(64 << 20)
	tell := func() string { return overload(b, 4<<20) }
	if got := tell(); got != "" {
		t.Errorf("nothing is held: got %q", got)
	}
	take := func(tenant, subject string) {
		for range 64 {
			_ = b.Take(share.User{TenantID: tenant, Subject: subject}, 1<<20) // until its share is used up
		}
	}
	take("acme", "alice")
	if got := tell(); got != "" {
		t.Errorf("one user holds its share: got %q", got)
	}
	for _, subject := range []string{"bob", "carol", "dave", "erin"} {
		take("acme", subject)
		take("globex", subject)
	}
	want := `memory: requests hold 61 % of what they may, most of it tenant "acme" with 39 %`
	if got := tell(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	held, sum := map[string]float64{}, 0.0
	tellHeld(b, func(tenant string, values ...float64) {
		held[tenant] = values[0]
		sum += values[0]
	})
	if diff := cmp.Diff([]string{"", "acme", "globex"}, slices.Sorted(maps.Keys(held))); diff != "" ||
		sum != float64(b.InUse()) {
		t.Errorf("got %v, which comes to %v of %v (-want +got):\n%s", held, sum, b.InUse(), diff)
	}
}
