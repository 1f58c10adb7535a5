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

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// stories holds, for each stage of the chain, what breaks without it, whatever the
// method. A story returns an error when it finds the stage missing.
var stageTests = map[string]func(*testing.T, *methodStages) error{
	"audited": func(t *testing.T, s *methodStages) error {
		s.fails(&registry.UnavailableError{Server: "lib", Err: errors.New("gone")})
		_, err := s.run(t, s.params)
		for _, want := range []string{`"outcome":"unavailable"`, `"server":"lib"`, `"method":"` + s.method +
			`"`} {
			if !strings.Contains(s.records(t), want) {
				return errors.New("the call is not on record")
			}
		}
		return asTold(err)
	},
	"measured": func(t *testing.T, s *methodStages) error {
		_, _ = s.run(t, s.params) // counted either way
		if metricstest.Sum(t, s.metrics, "drawbridge_calls_total") == 0 {
			return errors.New("the call is not counted")
		}
		return nil
	},
	"resumed": func(t *testing.T, s *methodStages) error {
		_, _ = s.run(t, strings.Replace(s.params, "{", `{"requestState":"forged",`, 1)) // however it ends
		if len(s.uses) > 0 {
			return errors.New("a state of nobody reaches the source")
		}
		return nil
	},
	"limited": func(t *testing.T, s *methodStages) error {
		var err error
		for range 3 {
			_, err = s.run(t, s.params)
		}
		if err == nil {
			return errors.New("calls beyond the limit pass")
		}
		return nil
	},
	"resolved": func(t *testing.T, s *methodStages) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("no item was found: %v", r)
			}
		}()
		if _, err = s.run(t, s.unknown); err == nil {
			return errors.New("an unknown item is used")
		}
		_, err = s.run(t, s.params)
		return err
	},
	"revocable": func(t *testing.T, s *methodStages) error {
		s.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
			s.Reauthorize(func(auth.Principal) (Caller, bool) { return Caller{}, false })
			return object(s.answer("a")), nil
		}
		if _, err := s.run(t, s.params); err == nil {
			return errors.New("a caller whose token counts no more gets an answer")
		}
		return nil
	},
	"validated": func(t *testing.T, s *methodStages) error {
		if s.wrong == "" {
			return errors.New("nothing can be wrong")
		}
		_, _ = s.run(t, s.wrong) // a result or an error
		if len(s.uses) > 0 {
			return errors.New("wrong arguments reach the source")
		}
		return nil
	},
	"bulkheaded": func(t *testing.T, s *methodStages) error {
		s.bulkhead = newBulkhead(1)
		var second error
		s.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
			_, second = s.run(t, s.params) // while the first is under way
			return object(s.answer("a")), nil
		}
		_, err := s.run(t, s.params)
		if second == nil {
			return errors.New("one server has all places")
		}
		return err
	},
	"timed": func(t *testing.T, s *methodStages) error {
		var deadline time.Time
		s.reply = func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
			deadline, _ = ctx.Deadline()
			return object(s.answer("a")), nil
		}
		_, _ = s.run(t, s.params) // the source's context is what counts
		if deadline.IsZero() || time.Until(deadline) > libraryTime {
			return errors.New("the item has no time limit of its own")
		}
		return nil
	},
	"conformed": func(t *testing.T, s *methodStages) error {
		s.says(`{"resultType":"task","taskId":"1"}`)
		if _, err := s.run(t, s.params); err == nil {
			return errors.New("a result that nobody understands passes")
		}
		return nil
	},
	"sanitized": func(t *testing.T, s *methodStages) error {
		s.says(s.answer("pay\u202Eload"))
		result, err := s.run(t, s.params)
		if err != nil {
			return err
		}
		if got := string(result.JSON()); !strings.Contains(got, "payload") {
			return fmt.Errorf("the output is %s", got)
		}
		return nil
	},
}

// methodStages is one method and the chain that it takes.
type methodStages struct {
	subject
	*bench
	*library
	chain Handler
}

func (s *methodStages) run(t *testing.T, params string) (mcp.Object, error) {
	t.Helper()
	return s.chain(t.Context(), s.newCall(s.caller(t, alice), ask(s.method, params), s.methods[s.method]))
}

func asTold(err error) error {
	if _, ok := errors.AsType[*mcp.Error](err); !ok {
		return fmt.Errorf("the client would be told %w", err)
	}
	return nil
}

func TestEveryStageOfTheCallChainIsNeeded(t *testing.T) {
	names := stageNames(New(Config{}))
	for _, name := range names {
		if stageTests[name] == nil {
			t.Fatalf("no story shows what breaks without %s", name)
		}
	}
	for i, name := range names {
		for _, subject := range subjects {
			if name == "validated" && subject.wrong == "" {
				continue
			}
			t.Run(name+" "+subject.method, func(t *testing.T) {
				s := newMethodStages(t, subject)
				s.chain = stack(s.stages(), invoke)
				if err := stageTests[name](t, s); err != nil {
					t.Errorf("with the whole chain: %v", err)
				}
				s = newMethodStages(t, subject)
				s.chain = stack(slices.Delete(s.stages(), i, i+1), invoke)
				if err := stageTests[name](t, s); err == nil {
					t.Error("its story does not notice when the stage is left out")
				}
			})
		}
	}
}

// newStory returns a story in which a user has two calls.
func newMethodStages(t *testing.T, subject subject) *methodStages {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 2}
	b, l := newLibrary(t, tenant)
	l.says(subject.answer("a"))
	return &methodStages{subject: subject, bench: b, library: l}
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

func TestTrap07_InvalidArgumentsAreResults(t *testing.T) {
	b := newBench(t)
	text, isError, failure := b.run(t, "box__echo", `{}`)
	if failure != nil || !isError || !strings.Contains(text, "message") {
		t.Errorf("missing argument: %q, isError %v, %v; want a tool error that names message", text, isError,
			failure)
	}
}

func TestSanitizedCleansNotificationsAndErrors(t *testing.T) {
	b := newBench(t)
	r := request("box__tells", `{}`)
	r.Params = r.Params.With("_meta", mcp.RawJSON(`{"progressToken":1}`))
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

func TestTimedSaysThatTheToolWasTooSlow(t *testing.T) {
	b := newBench(t)
	_, err := b.Handle(t.Context(), b.caller(t, alice), request("box__slow", `{}`))
	var failure *mcp.Error
	if !errors.As(err, &failure) || failure.StableCode() != "DB-TIMEOUT" ||
		!strings.Contains(failure.Message, "The server box did not answer in time, which is ") {
		t.Errorf("got %v, want DB-TIMEOUT", err)
	}
}

func TestCallThatPanicsIsCounted(t *testing.T) {
	b := newBench(t)
	_, _ = b.Handle(t.Context(), b.caller(t, alice), request("box__panics", `{}`)) // counted whatever it says
	for name, want := range map[string]float64{
		"drawbridge_calls_total": 1, "drawbridge_panics_total": 1,
		"drawbridge_calls_in_flight": 0,
	} {
		if got := metricstest.Sum(t, b.metrics, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// seriesOf returns how many series a metric has.
func seriesOf(t *testing.T, metrics prometheus.Gatherer, name string) int {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return len(family.GetMetric())
		}
	}
	return 0
}
