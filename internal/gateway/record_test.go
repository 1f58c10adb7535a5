package gateway

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// refusedFor runs a call that fails, and returns its error.
func (b *bench) refusedFor(t *testing.T) *mcp.Error {
	t.Helper()
	_, err := b.Handle(t.Context(), b.caller(t, alice), request("box__plain", `{}`))
	return asError(t, err)
}

// TestCallThatCannotBeRecordedIsNotMade shows that nothing of a call happens when its
// record cannot be written, and that the client is told so: it may come back.
func TestCallThatCannotBeRecordedIsNotMade(t *testing.T) {
	b := newBench(t)
	b.config.Audit = closedLog(t, b.config.Metrics.AuditDropped)
	r := request("box__plain", `{}`)
	_, err := b.Handle(t.Context(), b.caller(t, alice), r)
	failure := asError(t, err)
	if failure.StableCode() != "DB-AUDIT-FULL" || failure.Code != mcp.CodeUnavailable ||
		failure.RetryAfter <= 0 {
		t.Errorf("got %v, want DB-AUDIT-FULL of 503 with a time", failure)
	}
	if r.Ended != "unrecordable" { // for the log
		t.Errorf("it ended as %q, want unrecordable", r.Ended)
	}
	if b.calls != 0 {
		t.Errorf("the tool ran %d times, want never", b.calls)
	}
	b.Refuse(t.Context(), audit.Record{Outcome: "unauthenticated"})
	for name, want := range map[string]float64{
		"drawbridge_audit_records_dropped_total": 2,
		"drawbridge_refusals_total":              2, "drawbridge_calls_total": 0,
	} {
		if got := metricstest.Sum(t, b.metrics, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestCallThatIsNotOnRecordIsNotRepeated shows what is told of a call that was made when
// its record fails after all: not that it may be repeated. The next one is not made.
func TestCallThatIsNotOnRecordIsNotRepeated(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	b := newBench(t)
	b.config.Audit = logAt(t, audit.Config{File: "/dev/full"})
	failure := b.refusedFor(t)
	if failure.StableCode() != "DB-AUDIT" || failure.Code != mcp.CodeInternal || failure.RetryAfter != 0 {
		t.Errorf("got %v, want DB-AUDIT of an internal error without a time", failure)
	}
	for range 20 {
		if failure := b.refusedFor(t); failure.StableCode() != "DB-AUDIT-FULL" {
			t.Errorf("the next: got %v, want DB-AUDIT-FULL", failure)
		}
	}
	if b.calls != 1 {
		t.Errorf("the tool ran %d times, want once", b.calls)
	}
}

// TestRecordsSayWhoDecided shows that the record of a refusal says which rule refused it
// and which scopes were missing, while the client reads one answer for all of them.
func TestRecordsSayWhoDecided(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Position: Position{File: "drawbridge.yaml", Line: 10},
		Rules: []Rule{
			{Allow: []string{"box__echo", "box__slow"}, Line: 1},
			{Allow: []string{"box__plain"}, Scopes: []string{"tools.write", "tools.read"}, Line: 2},
			{Deny: []string{"box__slow"}, Line: 3},
		},
	})
	b.SetPolicy("0123456789abcdef",
		[]TenantConfig{b.tenants.Load().byID["acme"].config})
	const known = `"scopes":["tools.read"],"client":"inspector","client_version":"2","remote":"192.0.2.1","session":"p1-abc"`
	told := map[string]bool{}
	for tool, want := range map[string]string{
		"box__echo":   `"server":"box","item":"box__echo","outcome":"ok","arguments"`,
		"box__plain":  `"server":"box","item":"box__plain","outcome":"forbidden","reason":"missing_scope","rule":"drawbridge.yaml:12","missing":["tools.write"],`,
		"box__slow":   `"server":"box","item":"box__slow","outcome":"forbidden","reason":"denied","rule":"drawbridge.yaml:13",`,
		"box__hidden": `"server":"box","item":"box__hidden","outcome":"forbidden","reason":"no_rule",`,
		"box__none":   `"item":"box__none","outcome":"unknown",`,
	} {
		r := request(tool, `{"message":"x"}`)
		r.From = From{Remote: "192.0.2.1", Session: "p1-abc", Name: "inspector", Version: "2"}
		_, err := b.Handle(t.Context(), b.caller(t, alice), r)
		lines := strings.Split(strings.TrimSpace(b.records(t)), "\n")
		line := lines[len(lines)-1]
		for _, part := range []string{want, known, `"config":"0123456789ab"`} {
			if !strings.Contains(line, part) {
				t.Errorf("%s: got %s, want %s in it", tool, line, part)
			}
		}
		if tool == "box__echo" {
			if !strings.Contains(line, `"upstream_seconds":`) || r.Ended != "ok" {
				t.Errorf("%s: got %s, ended as %+v", tool, line, r.Ended)
			}
			continue
		}
		failure := asError(t, err)
		told[strings.ReplaceAll(failure.Error(), tool, "X")] = true
		if strings.Contains(string(failure.Data), "tools.write") || r.Ended == "" {
			t.Errorf("%s: the client is told %s; ended as %+v", tool, failure.Data, r.Ended)
		}
	}
	if len(told) != 1 {
		t.Errorf("clients are told %d different things: %v", len(told), told)
	}
}

// TestRecordsSayWhichConfigDecided replaces the tenants while a call is under way.
func TestRecordsSayWhichConfigDecided(t *testing.T) {
	for config, next := range map[string]TenantConfig{
		"before": everything(), // the call goes on
		"after":  elsewhere(),  // and is revoked
	} {
		b, l := newLibrary(t)
		b.SetPolicy("before", []TenantConfig{everything()})
		l.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
			b.SetPolicy("after", []TenantConfig{next})
			b.Reauthorize(func(p auth.Principal) (Caller, bool) {
				c, err := b.Resolve(p)
				return c, err == nil
			})
			return object(subjects[0].answer("done")), nil
		}
		_, _ = b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params))
		if line := b.records(t); !strings.Contains(line, `"config":"`+config+`"`) {
			t.Errorf("got %s, want the config %s in it", line, config)
		}
	}
}

// TestACallerKeepsNoOtherTenant has a caller for as long as a stream may, over a reload.
func TestACallerKeepsNoOtherTenant(t *testing.T) {
	b, _ := newLibrary(t, everything())
	caller := b.caller(t, alice)
	before := weak.Make(b.tenants.Load())
	b.SetPolicy("after", []TenantConfig{elsewhere()})
	runtime.GC()
	if before.Value() != nil {
		t.Error("the tenants before the reload are kept")
	}
	runtime.KeepAlive(&caller)
}

// TestRecordsSayWhichArgumentDoesNotFit shows that the record of refused arguments has
// the place, of names that the schema has alone, and no value.
func TestRecordsSayWhichArgumentDoesNotFit(t *testing.T) {
	b := newBench(t)
	for _, arguments := range []string{`{"message":7}`, `{"secret":"x"}`} {
		_, _, failure := b.run(t, "box__echo", arguments)
		lines := strings.Split(strings.TrimSpace(b.records(t)), "\n")
		line := lines[len(lines)-1]
		const want = `"outcome":"invalid_arguments","wrong_argument":"/message",`
		if !strings.Contains(line, want) || strings.Contains(line, "secret") || failure != nil {
			t.Errorf("%s: got %s, want %s; %v", arguments, line, want, failure)
		}
	}
}

// TestDropMakesCallsThatAreNotRecorded shows that with Drop every call is made.
func TestDropMakesCallsThatAreNotRecorded(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	b := newBench(t)
	b.config.Audit = logAt(t, audit.Config{File: "/dev/full", Drop: true})
	for range 20 {
		if _, _, failure := b.run(t, "box__plain", `{}`); failure != nil {
			t.Errorf("got %v, want a result", failure)
		}
	}
	if b.calls != 20 {
		t.Errorf("the tool ran %d times, want 20", b.calls)
	}
}

// logAt opens a log whose file may be unable to take anything.
func logAt(t *testing.T, cfg audit.Config) *audit.Log {
	t.Helper()
	record, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() }) // what could not be written is lost
	return record
}

// closedLog returns a log that can write nothing any more.
func closedLog(t *testing.T, dropped func(int)) *audit.Log {
	t.Helper()
	record := logAt(t, audit.Config{File: filepath.Join(t.TempDir(), "closed.jsonl"), Dropped: dropped})
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	return record
}

// TestDigestOfLongArguments shows that the digest on record is that of the whole
// arguments, however many pieces it is made in.
func TestDigestOfLongArguments(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 128 << 10, 128<<10 + 1, 900_000} {
		b := newBench(t)
		arguments := `{"message":"` + strings.Repeat("x", size) + `"}`
		b.run(t, "box__echo", arguments)
		want := digestsOfTests().Digest("acme", []byte(arguments))
		if want == "" || !strings.Contains(b.records(t), want) {
			t.Errorf("%d bytes: %s is not in %.500s", size, want, b.records(t))
		}
	}
}

// TestNamedArgumentsAreOnRecord shows which arguments are on record, and in which form:
// those that the operator names, without what looks like a secret or is hidden.
func TestNamedArgumentsAreOnRecord(t *testing.T) {
	const key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	b := newBench(t)
	b.config.Recorded = []Recorded{
		{Pattern: "box__e*", Names: []string{"repo", "message", "absent"}},
		{Pattern: "box__echo", Names: []string{"n", "list", "object", "repo"}},
		{Pattern: "prompt:box__echo", Names: []string{"other"}},
		{Pattern: "box__slow", Names: []string{"other"}},
	}
	for arguments, want := range map[string]string{
		`{"repo":"acme/web","message":"` + key + `","other":"o"}`:                     `"named_arguments":{"repo":"acme/web","message":"[REDACTED:github-pat]"}`,
		`{"message":"\u0067hp_16C7e42F292c69` + "\u200b" + `12E7710c838347Ae178B4a"}`: `"named_arguments":{"message":"[REDACTED:github-pat]"}`,
		`{"n":7,"list":["` + key + `"],"object":{"a":1},"repo":null}`:                 `"named_arguments":{"repo":"null","n":"7","list":"[…]","object":"{…}"}`,
		`{"message":"` + strings.Repeat("é", 100) + `"}`:                              `"named_arguments":{"message":"` + strings.Repeat("é", 64) + `"}`,
		`{"message":"` + strings.Repeat("x", 120) + " " + key + `"}`:                  `"named_arguments":{"message":"` + strings.Repeat("x", 120) + ` [REDACT"}`,
		`{"other":"o"}`: `"outcome":"`,
		`7`:             `"outcome":"`,
	} {
		before := len(b.records(t))
		_, _, _ = b.run(t, "box__echo", arguments)
		line := b.records(t)[before:]
		if !strings.Contains(line, want) || strings.Contains(line, "ghp_") ||
			strings.Contains(line, "named") != strings.Contains(want, "named") {
			t.Errorf("%s: got %s, want %s in it", arguments, line, want)
		}
	}
}

// TestRecordsSayForWhatACallWaited shows that the record has the sum of what door, desk
// and source waited for, and the word for the longest; and that a call which waited for
// nothing worth a word has neither. In a bubble no call waits for a processor.
func TestRecordsSayForWhatACallWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, test := range []struct {
			waited Waited
			want   string
		}{
			{Waited{}, ""},
			{Waited{Queue: time.Microsecond}, ""},
			{Waited{Queue: 2 * time.Second, Limit: time.Second}, "queue"},
			{Waited{Queue: time.Second, Limit: 2 * time.Second}, "limit"},
			{Waited{Waited: registry.Waited{Slot: 3 * time.Second, Process: time.Second}}, "slot"},
			{Waited{Queue: time.Second, Waited: registry.Waited{Process: 2 * time.Second}}, "process"},
		} {
			r := request("box__plain", `{}`)
			r.Waited = test.waited
			if _, err := b.Handle(t.Context(), b.caller(t, alice), r); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(b.records(t)), "\n")
			line := lines[len(lines)-1]
			_, after, told := strings.Cut(line, `"wait_seconds":`)
			if told != (test.want != "") || told && !strings.Contains(after, `,"waited_for":"`+test.want+`"`) {
				t.Errorf("%+v: got %s, want %q", test.waited, line, test.want)
			}
			if r.Waited != (Waited{}) {
				t.Errorf("%+v is left for the next round", r.Waited)
			}
		}
	})
}

// TestRecordsOfLimitedCallsHaveTheServer shows that the record of a call which a limit
// of tools refused names the server of the tool.
func TestRecordsOfLimitedCallsHaveTheServer(t *testing.T) {
	none := ratelimit.Limit{}
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"box__plain"}}},
		Limits: Limits{Tools: map[string]ratelimit.Limit{"box__*": none}},
	})
	for tool, want := range map[string]string{
		"box__plain": `"server":"box","item":"box__plain","outcome":"limited","reason":"DB-LIMIT-TOOL"`,
		"box__echo":  `"server":"box","item":"box__echo","outcome":"forbidden","reason":"no_rule"`,
	} {
		if _, _, err := b.run(t, tool, `{}`); err == nil || !strings.Contains(b.records(t), want) {
			t.Errorf("%s: got %v and %s, want %s in it", tool, err, b.records(t), want)
		}
	}
}
