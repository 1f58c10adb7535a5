package kubernetes_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
)

// TestTheGraceFitsTheDrain adds up how long the gateway may take to stop, from the constants of its source: the delay, the
// last connections, the patience with calls, what telling and closing may take (calls that were cut off, the clients'
// listener, their streams, the operator's listener), and the log's last lines. The rest of what the chart demands is for
// servers that run as commands, and for a machine that is busy.
func TestTheGraceFitsTheDrain(t *testing.T) {
	serve := durations(t, "../../../cmd/drawbridge/serve.go")
	log := durations(t, "../../../cmd/drawbridge/log.go")
	last := durations(t, "../../../cmd/drawbridge/lastcall.go")
	drain := serve["drainDelay"] + last["acceptTime"] + serve["callPatience"] + 4*serve["closeTimeout"] + log["logPatience"]
	if last["acceptTime"] == 0 {
		t.Fatal("lastcall.go has no duration acceptTime any more")
	}
	for _, name := range []string{"drainDelay", "callPatience", "closeTimeout"} {
		if serve[name] == 0 {
			t.Fatalf("serve.go has no duration %s any more: say here what its drain consists of now", name)
		}
	}
	if log["logPatience"] == 0 {
		t.Fatal("log.go has no duration logPatience any more")
	}
	const checked = 45 * time.Second // what the chart demands beside preStopSeconds
	if drain > checked {
		t.Errorf("the gateway may take %v to stop, and the chart is content with %v: change both checks in templates/_checks.tpl, the schema and the values", drain, checked)
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
		if period := time.Duration(down.Policies[0].PeriodSeconds) * time.Second; len(down.Policies) != 1 || down.Policies[0].Value != 1 || period < grace {
			t.Errorf("the autoscaler takes away %v, want one replica in the time that one may take to go (%v)", down.Policies, grace)
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
	for name, unit := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute} {
		units.Scope().Insert(types.NewConst(token.NoPos, units, name, types.Typ[types.UntypedInt], constant.MakeInt64(int64(unit))))
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
