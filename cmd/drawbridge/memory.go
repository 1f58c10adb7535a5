package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/cgroup"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// How much of the container's memory Go's memory limit leaves to others: the pages of the
// program's file, what the kernel keeps for connections and files, and what Go takes
// beyond its limit before it has collected. All this does not shrink with the container,
// so a small one leaves a larger part.
const (
	reservePart  = 10       // one in so many bytes of the container
	reserveLeast = 32 << 20 // but so many bytes at least
	reserveMost  = 4        // and one in so many at most
)

// budgetOf returns what requests may hold under a memory limit of Go: two thirds. The
// rest is for the program itself, for stacks and connections, and for garbage that is not
// collected yet.
func budgetOf(limit int64) int64 { return limit / 3 * 2 }

// ceilingOf returns Go's memory limit, where its collector begins to work harder, for a
// container's limit.
func ceilingOf(container int64) int64 {
	return container - max(container/reservePart, min(reserveLeast, container/reserveMost))
}

// memoryPlan is how the memory of the process is used. All sizes are in bytes.
type memoryPlan struct {
	budget  int64  // for all that is held for clients
	ceiling int64  // to be set as Go's memory limit; zero: the one in force stays
	limit   int64  // Go's memory limit then; zero: there is none
	source  string // what decided the budget, for the log
	most    int64  // what the budget should be at most; zero: nothing bounds it
	bound   string // what decided most
}

// planMemory makes the plan. setting is limits.memory, container the limit of the control
// group, both zero if there is none; runtime is Go's own limit, from GOMEMLIMIT,
// math.MaxInt64 if there is none. The setting decides; otherwise the tighter of the two
// limits; otherwise the default. GOMEMLIMIT is never overruled.
func planMemory(setting, container, runtime int64) memoryPlan {
	plan := memoryPlan{budget: share.DefaultMemory, source: "default"}
	limited := int64(math.MaxInt64) // what Go's limit is, or will be
	if runtime < math.MaxInt64 {
		limited, plan.source = runtime, "GOMEMLIMIT"
	}
	if container > 0 {
		if ceiling := ceilingOf(container); ceiling <= limited { // equal: a plan made before has set it
			limited, plan.source = ceiling, "the container's limit"
		}
		if runtime == math.MaxInt64 {
			plan.ceiling = limited
		}
	}
	if limited < math.MaxInt64 {
		plan.limit, plan.budget = limited, budgetOf(limited)
		plan.most, plan.bound = plan.budget, plan.source
	}
	if setting > 0 {
		plan.budget, plan.source = setting, "limits.memory"
	}
	return plan
}

// budgetFor returns the budget of a plan, without what the slots among the calls cover:
// each request may hold so much without an allocation, at most half of the budget in all.
func budgetFor(l config.Limits, plan memoryPlan) *share.Budget {
	covered := int64(cmp.Or(l.MaxRequests, server.DefaultMaxRequests)) * share.Covered
	return share.New(plan.budget - min(covered, plan.budget/2))
}

// planHere makes the plan for this process, on this machine.
func planHere(l config.Limits) memoryPlan {
	return planMemory(l.Memory, cgroup.MemoryLimit(os.DirFS("/")), debug.SetMemoryLimit(-1))
}

// warnOfMemory adds a warning to the config if requests may hold more than the process
// has, and one if a single request may be larger than the share of its user ever is.
func warnOfMemory(cfg *config.Config, plan memoryPlan) {
	cfg.WarnOfMemory(plan.most, plan.bound, maxBody(cfg.Limits), budgetFor(cfg.Limits, plan).Most())
}

// tellMemory logs the plan.
func tellMemory(ctx context.Context, plan memoryPlan, log *slog.Logger) {
	log.InfoContext(ctx, "memory", slog.Int64("budget_bytes", plan.budget), slog.String("from", plan.source))
}

func maxBody(l config.Limits) int64 { return cmp.Or(l.MaxBody, server.DefaultMaxBody) }

// maxHolders is how many tenants the metrics name, those that hold most.
const maxHolders = 20

// tellHeld tells the metrics who holds how much of a budget.
func tellHeld(b *share.Budget, tell metrics.Tell) {
	others := b.InUse()
	for _, h := range b.Top(maxHolders) {
		if h.TenantID != "" {
			others -= h.InUse
			tell(h.TenantID, float64(h.InUse))
		}
	}
	tell("", float64(max(others, 0)))
}

// overload returns what /readyz says while a request of the largest size could be refused
// although its tenant holds nothing, "" otherwise. Whoever has used up only its own share
// does not overload the gateway.
func overload(b *share.Budget, maxBody int64) string {
	top := b.Top(1)
	if b.Available() >= min(maxBody, b.Most()) || len(top) == 0 {
		return ""
	}
	return fmt.Sprintf("memory: requests hold %d %% of what they may, most of it tenant %q with %d %%",
		percent(b.InUse(), b.Total()), top[0].TenantID, percent(top[0].InUse, b.Total()))
}

func percent(part, whole int64) int64 { return int64(math.Round(100 * float64(part) / float64(whole))) }
