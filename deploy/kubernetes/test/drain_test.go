package kubernetes_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
)

// parts are the durations in the gateway's source that a stop consists of, by file, and
// how often each may be waited for in full.
var parts = map[string]map[string]int{
	"cmd/drawbridge/serve.go": {
		"drainDelay": 1, "callPatience": 1,
		// calls that were cut off, the clients' listener, again when they are cancelled,
		// their streams and what other replicas have forwarded, the operator's listener
		"closeTimeout": 5,
	},
	"cmd/drawbridge/refuse.go": {"acceptTime": 1},
	"cmd/drawbridge/log.go":    {"logPatience": 1},
	"internal/audit/audit.go":  {"closePatience": 1},
	// of all servers that are commands, at the same time
	"registry/upstream/wire/stdio.go": {"eofGrace": 1, "termGrace": 1},
	// until what they started is given up
	"registry/upstream/process/keeper.go": {"sweepLimit": 1},
}

// partingTimes are the durations of which a replica lets the others go, in the same way.
// That goes on beside the end of the servers that are commands.
var partingTimes = map[string]map[string]int{
	// what they asked is answered, the listener closes; they learn of the end
	"internal/replica/group.go": {"grace": 2, "beat": 1},
	"internal/redis/redis.go":   {"defaultPatience": 1, "connectTimeout": 1}, // to tell Redis of it
}

// TestReplicasPartWhileCommandsEnd shows that no time of the stop is missing in parts.
func TestReplicasPartWhileCommandsEnd(t *testing.T) {
	commands := map[string]map[string]int{}
	for _, file := range []string{"registry/upstream/wire/stdio.go", "registry/upstream/process/keeper.go"} {
		commands[file] = parts[file]
	}
	if parting, ending := sumOf(t, partingTimes), sumOf(t, commands); parting > ending {
		t.Errorf("replicas take %v to part, and commands %v to end: parts has to have the rest", parting, ending)
	}
}

// drainTime adds up how long the gateway may take to stop.
func drainTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	sum = sumOf(t, parts)
	serve, err := os.ReadFile("../../../cmd/drawbridge/serve.go")
	if err != nil {
		t.Fatal(err)
	}
	// A stop comes once to each of the three bounds, but to that of shutDown three times:
	// for the clients, again for them by closeHTTP, and for the operator by closeHTTP.
	// calls, and what is called
	for text, want := range map[string]int{", closeTimeout)": 3, "shutDown(": 3, "closeHTTP(": 3} {
		if got := strings.Count(string(serve), text); got != want {
			t.Errorf("serve.go has %q %d times, not %d: count again how many closeTimeouts a stop may take",
				text, got, want)
		}
	}
	return sum
}

// sumOf adds up durations in the gateway's source.
func sumOf(t *testing.T, times map[string]map[string]int) (sum time.Duration) {
	t.Helper()
	for file, names := range times {
		found := durations(t, "../../../"+file)
		for name, n := range names {
			if found[name] == 0 {
				t.Fatalf("%s has no duration %s any more: say here what a stop consists of now", file, name)
			}
			sum += time.Duration(n) * found[name]
		}
	}
	return sum
}

// TestTheGraceFitsTheDrain compares how long the gateway may take to stop with what the
// chart demands and examples grant. The rest is for a machine that is busy.
func TestTheGraceFitsTheDrain(t *testing.T) {
	drain := drainTime(t)
	const checked = 60 * time.Second // what the chart demands beside preStopSeconds
	if drain > checked {
		t.Errorf(
			"the gateway may take %v to stop, and the chart is content with %v: change both checks in templates/_checks.tpl, the schema and the values, docker-compose.yml and docs/replicas.md", drain, checked)
	}
	for _, name := range values {
		all := rendered(t, example(t, name))
		pod := the[*apps.Deployment](t, all).Spec.Template.Spec
		grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		sleep := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if sleep < 5*time.Second || grace < sleep+drain {
			t.Errorf("%s: the grace is %v; sleep %v and drain %v do not fit", name, grace, sleep, drain)
		}
		if name == "single" {
			continue
		}
		down := the[*autoscaling.HorizontalPodAutoscaler](t, all).Spec.Behavior.ScaleDown
		if period := time.Duration(down.Policies[0].PeriodSeconds) * time.Second; len(down.Policies) != 1 ||
			down.Policies[0].Value != 1 || period < grace {
			t.Errorf(
				"the autoscaler takes away %v, want one replica in the time that one may take to go (%v)",
				down.Policies, grace)
		}
	}
}

// durations returns the constants of a file that are durations.
func durations(t *testing.T, path string) map[string]time.Duration {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	units := types.NewPackage("time", "time")
	for name, unit := range map[string]time.Duration{
		"Millisecond": time.Millisecond, "Second": time.Second,
		"Minute": time.Minute,
	} {
		units.Scope().Insert(types.NewConst(token.NoPos, units, name, types.Typ[types.UntypedInt],
			constant.MakeInt64(int64(unit))))
	}
	here := types.NewPackage("main", "main")
	here.Scope().Insert(types.NewPkgName(token.NoPos, here, "time", units))
	found := make(map[string]time.Duration)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			value, err := types.Eval(positions, here, token.NoPos, types.ExprString(spec.Values[i]))
			if err != nil || value.Value == nil {
				continue // no constant, or no duration
			}
			if n, exact := constant.Int64Val(constant.ToInt(value.Value)); exact {
				found[name.Name] = time.Duration(n)
			}
		}
		return true
	})
	return found
}
