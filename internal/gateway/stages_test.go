package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// stories holds, for each stage of the chain, what breaks without it. A story returns an error when it finds the stage
// missing.
var stories = map[string]func(*testing.T, *bench, Handler) error{
	"audited": func(t *testing.T, b *bench, chain Handler) error {
		_, err := chain(t.Context(), b.newCall(t, "box__lost", `{}`))
		if !strings.Contains(b.records(t), `"outcome":"unavailable"`) {
			return errors.New("the call is not on record")
		}
		return asTold(err)
	},
	"measured": func(t *testing.T, b *bench, chain Handler) error {
		_, _ = chain(t.Context(), b.newCall(t, "box__plain", `{}`)) // counted either way
		families, err := b.metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			if family.GetName() == "drawbridge_calls_total" && len(family.GetMetric()) > 0 {
				return nil
			}
		}
		return errors.New("the call is not counted")
	},
	"limited": func(t *testing.T, b *bench, chain Handler) error {
		var err error
		for range 3 {
			_, err = chain(t.Context(), b.newCall(t, "box__plain", `{}`))
		}
		if err == nil {
			return errors.New("calls beyond the limit pass")
		}
		return nil
	},
	"resolved": func(t *testing.T, b *bench, chain Handler) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("no tool was found: %v", r)
			}
		}()
		_, err = chain(t.Context(), b.newCall(t, "box__plain", `{}`))
		return err
	},
	"validated": func(t *testing.T, b *bench, chain Handler) error {
		ran := b.calls
		result, err := chain(t.Context(), b.newCall(t, "box__echo", `{"message":5}`))
		if err != nil {
			return err
		}
		if b.calls != ran || string(result.Value("isError")) != "true" {
			return errors.New("arguments that break the schema reach the tool")
		}
		return nil
	},
	"timed": func(t *testing.T, b *bench, chain Handler) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = chain(ctx, b.newCall(t, "box__plain", `{}`)) // the tool's context is what counts
		if b.deadline.IsZero() || time.Until(b.deadline) > 2*time.Second {
			return errors.New("the tool has no time limit of its own")
		}
		return nil
	},
	"sanitized": func(t *testing.T, b *bench, chain Handler) error {
		result, err := chain(t.Context(), b.newCall(t, "box__hidden", `{}`))
		if err != nil {
			return err
		}
		if text := firstText(result); text != "payload" {
			return fmt.Errorf("the output is %q", text)
		}
		return nil
	},
}

func asTold(err error) error {
	if _, ok := errors.AsType[*mcp.Error](err); !ok {
		return fmt.Errorf("the client would be told %w", err)
	}
	return nil
}

func (b *bench) newCall(t *testing.T, tool, arguments string) *call {
	t.Helper()
	return b.Gateway.newCall(b.caller(t, alice), request(tool, arguments))
}

func TestEveryStageOfTheCallChainIsNeeded(t *testing.T) {
	names := stageNames(New(Config{}))
	for _, name := range names {
		if stories[name] == nil {
			t.Errorf("no story shows what breaks without %s", name)
		}
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			b := newStageBench(t)
			if err := stories[name](t, b, stack(b.stages(), invoke)); err != nil {
				t.Errorf("with the whole chain: %v", err)
			}
			b = newStageBench(t)
			if err := stories[name](t, b, stack(slices.Delete(b.stages(), i, i+1), invoke)); err == nil {
				t.Error("its story does not notice when the stage is left out")
			}
		})
	}
}

// newStageBench returns a bench in which a user has two calls.
func newStageBench(t *testing.T) *bench {
	return newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}},
		Limits: Limits{UserCalls: &ratelimit.Limit{Rate: 0.001, Burst: 2}},
	})
}

// stageNames returns the names of the chain's methods, outermost first.
func stageNames(g *Gateway) []string {
	var names []string
	for _, stage := range g.stages() {
		full := runtime.FuncForPC(reflect.ValueOf(stage).Pointer()).Name()
		names = append(names, strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm"))
	}
	return names
}

func TestValidatedNamesTheArgument(t *testing.T) {
	b := newBench(t)
	text, isError, failure := b.run(t, "box__echo", `{}`)
	if failure != nil || !isError || !strings.Contains(text, "message") {
		t.Errorf("missing argument: %q, isError %v, %v; want a tool error that names message", text, isError, failure)
	}
}

func TestSanitizedCleansNotificationsAndErrors(t *testing.T) {
	b := newBench(t)
	r := request("box__tells", `{}`)
	var told string
	r.Notify = func(_ context.Context, n mcp.Notification) error {
		told = n.Params.Text("message")
		return nil
	}
	if _, err := b.Handle(t.Context(), b.caller(t, alice), r); err != nil {
		t.Fatal(err)
	}
	if told != "halfway" {
		t.Errorf("progress message = %q, want halfway", told)
	}
	if _, _, failure := b.run(t, "box__words", `{}`); failure.Message != "upstream says no" {
		t.Errorf("error message = %q, want it cleaned", failure.Message)
	}
}

func TestOutputThatBreaksItsSchemaIsAToolError(t *testing.T) {
	b := newBench(t)
	if _, isError, failure := b.run(t, "box__counts", `{}`); isError || failure != nil {
		t.Errorf("good output: isError %v, %v", isError, failure)
	}
	for _, tool := range []string{"box__miscounts", "box__silent"} {
		text, isError, failure := b.run(t, tool, `{}`)
		if failure != nil || !isError || !strings.Contains(text, "output schema") {
			t.Errorf("%s: %q, isError %v, %v; want a tool error", tool, text, isError, failure)
		}
	}
}

func TestToolsOwnErrorIsAResult(t *testing.T) {
	b := newBench(t)
	text, isError, failure := b.run(t, "box__fails", `{}`)
	if failure != nil || !isError || text != "it did not work" {
		t.Errorf("got %q, isError %v, %v", text, isError, failure)
	}
	if records := b.records(t); !strings.Contains(records, `"outcome":"tool_error"`) {
		t.Errorf("audit = %s, want tool_error", records)
	}
}

func TestCallThatCannotBeRecordedIsRefused(t *testing.T) {
	b := newBench(t)
	b.config.Audit = closedLog(t)
	_, err := b.Handle(t.Context(), b.caller(t, alice), request("box__plain", `{}`))
	var failure *mcp.Error
	if !errors.As(err, &failure) || failure.StableCode() != "DB-AUDIT" {
		t.Errorf("got %v, want DB-AUDIT", err)
	}
	b.Refuse(t.Context(), audit.Record{Outcome: "unauthenticated"})
	if got := counted(t, b.metrics, "drawbridge_audit_records_dropped_total"); got != 2 {
		t.Errorf("%v records counted as lost, want 2: the alert depends on it", got)
	}
}

func TestTimedSaysThatTheToolWasTooSlow(t *testing.T) {
	b := newBench(t)
	_, err := b.Handle(t.Context(), b.caller(t, alice), request("box__slow", `{}`))
	var failure *mcp.Error
	if !errors.As(err, &failure) || failure.StableCode() != "DB-TIMEOUT" {
		t.Errorf("got %v, want DB-TIMEOUT", err)
	}
}

// counted returns the sum of a metric's series.
func TestCallThatPanicsIsCounted(t *testing.T) {
	b := newBench(t)
	_, _ = b.Handle(t.Context(), b.caller(t, alice), request("box__panics", `{}`)) // counted whatever it says
	for name, want := range map[string]float64{"drawbridge_calls_total": 1, "drawbridge_panics_total": 1, "drawbridge_calls_in_flight": 0} {
		if got := counted(t, b.metrics, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func counted(t *testing.T, metrics prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return sum
}
