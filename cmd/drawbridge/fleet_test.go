package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

func TestToolTimeoutsGoForBuiltInToolsToo(t *testing.T) {
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	f.apply(t.Context(), []config.Server{{
		Name: "box", Prefix: "box", Builtin: []string{"calculate", "current_time"},
		Timeout: 5 * time.Second, ToolTimeouts: map[string]time.Duration{"calculate": time.Second},
	}})
	view := catalogue.Catalogue().View([]string{"box"})
	for name, want := range map[string]time.Duration{
		"box__calculate":    time.Second,
		"box__current_time": 5 * time.Second,
	} {
		tool, err := view.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if tool.Timeout != want {
			t.Errorf("%s: got %s, want %s", name, tool.Timeout, want)
		}
	}
}

// TestAServerThatIsSlowToStopDelaysNoOther changes two servers and adds one, while the
// first takes its time to end.
func TestAServerThatIsSlowToStopDelaysNoOther(t *testing.T) {
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	box := func(name string, timeout time.Duration) config.Server {
		return config.Server{Name: name, Prefix: name, Builtin: []string{"calculate"}, Timeout: timeout}
	}
	f.apply(t.Context(), []config.Server{box("quick", time.Second), box("slow", time.Second)})
	slow, ends := f.running["slow"], make(chan struct{})
	f.running["slow"] = runningServer{slow.config, slow.end, func() { <-ends; slow.stop() }}
	applied := startTask(t.Context(), func(context.Context) error {
		f.apply(t.Context(), []config.Server{
			box("quick", time.Minute), box("slow", time.Minute), box("new", time.Minute),
		})
		return nil
	})
	isThere := func(name string) bool {
		tool, err := catalogue.Catalogue().View([]string{name}).Lookup(name + "__calculate")
		return err == nil && tool.Down() == nil && tool.Timeout == time.Minute
	}
	eventually(t, "the others are there", func() bool { return isThere("quick") && isThere("new") })
	if isThere("slow") {
		t.Error("the slow one started before it had ended")
	}
	close(ends)
	applied.stop()
	if !isThere("slow") {
		t.Error("the slow one is not there after it ended")
	}
}

// TestWhatMayBeLetInNoMoreIsNotKept changes a server that does not come back. What it
// offered stays known, unless the new config might let it in no more.
func TestWhatMayBeLetInNoMoreIsNotKept(t *testing.T) {
	definition, err := mcp.ParseObject([]byte(`{"name":"tool","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	offers := []registry.Offer{{Definition: definition, Timeout: time.Second}}
	for name, test := range map[string]struct {
		change func(s *config.Server)
		kept   bool
	}{
		"another timeout":               {func(s *config.Server) { s.Timeout = time.Minute }, true},
		"a release more":                {func(s *config.Server) { s.Released = []string{"used", "idle", "new"} }, true},
		"a release that let nothing in": {func(s *config.Server) { s.Released = []string{"used"} }, true},
		"a release less":                {func(s *config.Server) { s.Released = []string{"idle"} }, false},
		"pinned":                        {func(s *config.Server) { s.Pinned = true }, false},
	} {
		catalogue := registry.New()
		f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
		before := config.Server{
			Name: "s", Prefix: "s", URL: "http://127.0.0.1:1", Released: []string{"used", "idle"},
		}
		catalogue.Replace(registry.Source{Name: "s", Prefix: "s", Tools: offers})
		f.note(t.Context(), upstream.Status{Server: "s", Up: true, Idle: []string{"idle"}})
		f.running["s"] = runningServer{before, func() {}, func() { catalogue.Lose("s", "s") }}
		next := before
		test.change(&next)
		f.apply(t.Context(), []config.Server{next})
		view := catalogue.Catalogue().View([]string{"s"})
		if _, err := view.Lookup("s__tool"); (err == nil) != test.kept {
			t.Errorf("%s: got %v for the tool, want it known: %v", name, err, test.kept)
		}
		if !test.kept && view.Unreached(registry.KindTool, "s__tool") == nil {
			t.Errorf("%s: the tool is unknown, want its server down", name)
		}
		f.close()
	}
}

func TestRefusalsOfAServerThatComesBackAreForgotten(t *testing.T) {
	registerer := prometheus.NewRegistry()
	f := newFleet(registry.New(), metrics.New(registerer), slog.New(slog.DiscardHandler))
	defer f.close()
	box := config.Server{Name: "box", Prefix: "box", Builtin: []string{"calculate"}}
	f.apply(t.Context(), []config.Server{box})
	f.note(t.Context(), upstream.Status{
		Server: "box", Up: true,
		Refused: []registry.Refusal{{Server: "box", Item: "a", Reason: "schema"}},
	})
	if got := metricstest.Sum(t, registerer, "drawbridge_upstream_items_refused"); got != 1 {
		t.Fatalf("%v items refused before, want 1", got)
	}
	box.Timeout = time.Second
	f.apply(t.Context(), []config.Server{box})
	if got := metricstest.Sum(t, registerer, "drawbridge_upstream_items_refused"); got != 0 {
		t.Errorf("%v items refused after the server came back whole, want 0", got)
	}
}

// TestLeftOutToolsAreLoggedOnce changes a server's list again and again.
func TestLeftOutToolsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()),
		slog.New(slog.NewTextHandler(&log, nil)))
	defer f.close()
	refusal := func(tool, reason string) registry.Refusal {
		return registry.Refusal{Server: "box", Item: tool, Reason: reason}
	}
	var many []registry.Refusal
	for i := range 3 * maxRefusalsShown {
		many = append(many, refusal(fmt.Sprint("m", i), "schema"))
	}
	for _, test := range []struct {
		name    string
		refused []registry.Refusal
		want    int
	}{
		{"the first", []registry.Refusal{refusal("a", "schema")}, 1},
		{"the same", []registry.Refusal{refusal("a", "schema")}, 0},
		{"one more", []registry.Refusal{refusal("b", "name"), refusal("a", "schema")}, 1},
		{"one less", []registry.Refusal{refusal("b", "name")}, 0},
		{"another reason", []registry.Refusal{refusal("b", "schema")}, 1},
		{"twice the same", []registry.Refusal{refusal("c", "name"), refusal("c", "name")}, 1},
		{"many", many, maxRefusalsShown},
		{"none, as of a server that is lost", nil, 0},
		{"one that was there before", []registry.Refusal{refusal("a", "schema")}, 0},
	} {
		log.Reset()
		f.note(t.Context(), upstream.Status{Server: "box", Up: true, Tried: true, Refused: test.refused})
		if got := strings.Count(log.String(), "item left out"); got != test.want {
			t.Errorf("%s: %d items were logged, want %d", test.name, got, test.want)
		}
	}
	log.Reset()
	for i := range 3 * maxLogged {
		other := []registry.Refusal{refusal(fmt.Sprint("n", i), "schema")}
		f.note(t.Context(), upstream.Status{Server: "box", Up: true, Tried: true, Refused: other})
	}
	if got := strings.Count(log.String(), "item left out"); got > maxLogged {
		t.Errorf("%d items were logged of a server that always breaks another", got)
	}
	f.note(t.Context(), upstream.Status{
		Server: "box", Up: true, Tried: true, Refused: []registry.Refusal{heldTool("a", "sha256:1")},
	})
	if !strings.Contains(log.String(), "definition quarantined") {
		t.Error("what is broken has used up the lines of what is hidden")
	}
}

func TestWarningsNameWhatIsLeftOut(t *testing.T) {
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	refused := []registry.Refusal{
		{Server: "box", Kind: registry.KindPrompt, Reason: "list"},
		{
			Server: "box", Kind: registry.KindResource, Item: "file:///a", Reason: "duplicate",
			Err: errors.New("an earlier\nhas\u200b it"),
		},
	}
	for i := range maxRefusalsShown {
		refused = append(refused, registry.Refusal{
			Server: "box", Kind: registry.KindTool,
			Item: fmt.Sprint("t", i), Reason: "schema",
		})
	}
	f.note(t.Context(), upstream.Status{
		Server: "box", Tried: true, Problem: "gone", Refused: refused,
		Since: time.Date(2026, 11, 22, 4, 53, 32, 0, time.UTC),
	})
	got := f.warnings()
	if len(got) != maxRefusalsShown+2 {
		t.Fatalf("got %d warnings, want %d", len(got), maxRefusalsShown+2)
	}
	for i, want := range map[int]string{
		0:            "server box is down: gone (since 2026-11-22T04:53:32Z)",
		1:            "server box: its list of prompts cannot be read",
		2:            `server box: resource "file:///a" is left out: duplicate, an earlier has� it`,
		len(got) - 1: "server box: 2 more items are left out",
	} {
		if got[i] != want {
			t.Errorf("warning %d: got %q, want %q", i, got[i], want)
		}
	}
}

// TestServerIsStartingUntilItWasTried shows /readyz's line for a server that had no time
// to answer yet.
func TestServerIsStartingUntilItWasTried(t *testing.T) {
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	if f.tried() {
		t.Error("servers that nobody has started yet count as tried")
	}
	f.apply(t.Context(), []config.Server{{
		Name: "slow", Prefix: "slow", Command: "sh",
		Args: []string{"-c", "read line; read never"},
	}})
	got := f.warnings()
	if len(got) != 1 || !regexp.MustCompile(`^server slow is starting \(since [0-9T:-]+Z\)$`).MatchString(
		got[0]) {
		t.Errorf("got %q, want that it is starting", got)
	}
	if f.tried() {
		t.Error("a server that is starting counts as tried")
	}
}

// TestLoadOfAServerIsShownAsLongAsTheConfigHasIt runs a child that never answers, and
// takes it out of the config.
func TestLoadOfAServerIsShownAsLongAsTheConfigHasIt(t *testing.T) {
	registerer := prometheus.NewRegistry()
	f := newFleet(registry.New(), metrics.New(registerer), slog.New(slog.DiscardHandler))
	defer f.close()
	f.apply(t.Context(), []config.Server{
		{Name: "slow", Prefix: "slow", Command: "sh", Args: []string{"-c", "read line; read never"}},
		{Name: "box", Prefix: "box", Builtin: []string{"calculate"}},
	})
	one := map[string]admin.Server{"slow": {Processes: 1}}
	eventually(t, "the child counts", func() bool { return maps.Equal(f.loads(), one) })
	if got, want := gauges(t, registerer, "drawbridge_upstream_processes"),
		map[string]float64{"slow": 1}; !maps.Equal(got, want) {
		t.Errorf("processes: got %v, want %v", got, want)
	}
	if got, want := gauges(t, registerer, "drawbridge_upstream_sessions"),
		map[string]float64{"slow": 0}; !maps.Equal(got, want) {
		t.Errorf("sessions: got %v, want %v", got, want)
	}
	f.apply(t.Context(), nil)
	if got := f.loads(); len(got) != 0 {
		t.Errorf("shown without the server: got %v, want nothing", got)
	}
	if got := gauges(t, registerer, "drawbridge_upstream_processes"); len(got) != 0 {
		t.Errorf("series without the server: got %v, want none", got)
	}
}

// counted is a server that is counted in its own way.
type counted func() upstream.Load

func (c counted) Load() upstream.Load { return c() }
func (counted) Reread()               {}

// TestCountingALoadHoldsUpNobody counts a server that tells its status at that moment.
func TestCountingALoadHoldsUpNobody(t *testing.T) {
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	f.connected["slow"] = counted(func() upstream.Load {
		told := make(chan struct{})
		go func() {
			defer close(told)
			f.note(t.Context(), upstream.Status{Server: "slow", Up: true})
		}()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Error("the status waited for the count")
		}
		return upstream.Load{Sessions: 3}
	})
	if got, want := f.loads(), (map[string]admin.Server{"slow": {Sessions: 3}}); !maps.Equal(got,
		want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// gauges returns the values of a metric by server.
func gauges(t *testing.T, gatherer prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name {
				out[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
			}
		}
	}
	return out
}

// TestWarningsNameWhatMendsAServerThatIsUp shows /readyz's line for a server whose tool
// was refused to ask.
func TestWarningsNameWhatMendsAServerThatIsUp(t *testing.T) {
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	f.note(t.Context(), upstream.Status{
		Server: "desk", Up: true, Tried: true,
		Advice: "say revision: 2025-11-25",
	})
	if got := f.warnings(); len(got) != 1 || got[0] != "server desk: say revision: 2025-11-25" {
		t.Errorf("got %q, want the advice with the server's name", got)
	}
}

// TestServersReachUpstreamsAsTheConfigSays reads servers and shows what an upstream is
// told of each.
func TestServersReachUpstreamsAsTheConfigSays(t *testing.T) {
	tests := []struct {
		server   string
		kind     string
		children int
		shared   bool
		grace    time.Duration
		revision string
	}{
		{`{url: "https://example.com/mcp"}`, "", 0, false, 30 * time.Second, ""},
		{`{url: "https://example.com/sse", type: sse}`, "sse", 0, false, 30 * time.Second, ""},
		{`{url: "https://example.com/mcp", type: http, grace: 1ms}`, "http", 0, false, time.Millisecond, ""},
		{
			`{url: "https://example.com/mcp", type: streamable-http, shared: true}`, "streamable-http", 0, true,
			30 * time.Second, "",
		},
		{
			`{command: x, type: stdio, max_children: 3, shared: false, grace: 5m}`, "", 3, false,
			5 * time.Minute, "",
		},
		{`{command: x, max_children: 1, shared: true}`, "", 1, true, 30 * time.Second, ""},
		{`{url: "https://example.com/mcp", revision: auto}`, "", 0, false, 30 * time.Second, ""},
		{
			`{url: "https://example.com/mcp", revision: 2026-07-28}`, "", 0, false, 30 * time.Second,
			"2026-07-28",
		},
		{`{command: x, revision: "2025-11-25"}`, "", 0, false, 30 * time.Second, "2025-11-25"},
	}
	for _, test := range tests {
		cfg := parse(t, minimal+"  tested: "+test.server+"\n")
		got := upstreamConfig(cfg.Servers[1], slog.New(slog.DiscardHandler))
		if got.Type != test.kind || got.MaxChildren != test.children || got.Shared != test.shared ||
			got.Grace != test.grace {
			t.Errorf("%s: got type %q, %d children, shared %v, grace %v", test.server, got.Type,
				got.MaxChildren, got.Shared, got.Grace)
		}
		if got.Revision != test.revision {
			t.Errorf("%s: got revision %q, want %q", test.server, got.Revision, test.revision)
		}
	}
}

// TestStartTimeoutReachesUpstreams reads commands with and without one of their own.
func TestStartTimeoutReachesUpstreams(t *testing.T) {
	for server, want := range map[string]time.Duration{
		`{command: npx}`:                       time.Minute,
		`{command: npx, start_timeout: 2m30s}`: 150 * time.Second,
	} {
		cfg := parse(t, minimal+"  tested: "+server+"\n")
		if got := upstreamConfig(cfg.Servers[1], slog.New(slog.DiscardHandler)).StartTimeout; got != want {
			t.Errorf("%s: got %v, want %v", server, got, want)
		}
	}
}

// TestRightsReachUpstreams shows that a child gets a keeper, and the user and limits of
// the config, and that a reload which changes them says so.
func TestRightsReachUpstreams(t *testing.T) {
	before, after := parse(t, minimal+"  tested: {command: x}\n"),
		parse(t, minimal+"  tested: {command: x, user: '12:34', limits: {files: 99}}\n")
	got := upstreamConfig(after.Servers[1], slog.New(slog.DiscardHandler))
	want := process.Rights{User: process.User{UID: 12, GID: 34}, Limits: process.Limits{Files: 99}}
	if got.Rights != want || (got.Keeper != nil) != (runtime.GOOS == "linux") {
		t.Errorf("got rights %+v and keeper %q, want %+v", got.Rights, got.Keeper, want)
	}
	if got, want := changes(before, before, after), "server tested changed (limits, user)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNamesStayTakenAsLongAsTheConfigSays applies one config after the other with a
// server that never answers, and with one whose tools the fleet has itself.
func TestNamesStayTakenAsLongAsTheConfigSays(t *testing.T) {
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	down := func(tool string) bool {
		view := catalogue.Catalogue().View([]string{"far", "box"})
		if found, err := view.Lookup(tool); err == nil {
			return found.Down() != nil
		}
		return view.Unreached(registry.KindTool, tool) != nil
	}
	far := config.Server{Name: "far", Prefix: "far", URL: "http://127.0.0.1:1/mcp", Grace: time.Hour}
	box := config.Server{Name: "box", Prefix: "box", Builtin: []string{"calculate"}}
	broken := box
	broken.Builtin = []string{"there is none of this name"}
	other := far
	other.Prefix = "other"
	mended := far
	mended.Timeout = time.Second
	for _, step := range []struct {
		name    string
		servers []config.Server
		down    []string // of the tools below
	}{
		{"at once after the start", []config.Server{far, box}, []string{"far__x"}},
		{"with another setting", []config.Server{mended, box}, []string{"far__x"}},
		{"with another prefix", []config.Server{other, box}, []string{"other__x"}},
		{"without one server", []config.Server{box}, nil},
		{"with one that cannot start", []config.Server{broken}, []string{"box__calculate"}},
		{"with one that can again", []config.Server{box}, nil},
		{"without any", nil, nil},
	} {
		f.apply(t.Context(), step.servers)
		for _, tool := range []string{"far__x", "other__x", "box__calculate"} {
			if got, want := down(tool), slices.Contains(step.down, tool); got != want {
				t.Errorf("%s: %s down: got %v, want %v", step.name, tool, got, want)
			}
		}
	}
}

func TestServerUpIsLoggedWithWhatItOffers(t *testing.T) {
	var log bytes.Buffer
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()),
		slog.New(slog.NewTextHandler(&log, nil)))
	defer f.close()
	status := upstream.Status{
		Server: "box", Up: true, Tried: true, Revision: "2024-11-05",
		Offered: registry.Offered{Tools: 4, Prompts: 3, Resources: 2, Templates: 1},
	}
	f.note(t.Context(), status)
	if want := "server=box revision=2024-11-05 tools=4 prompts=3 resources=2 templates=1"; !strings.Contains(
		log.String(), want) {
		t.Errorf("got %s, want %s", log.String(), want)
	}
	for _, test := range []struct {
		status upstream.Status
		want   string
	}{
		{status, "4 tools, 3 prompts, 2 resources, 1 template"},
		{upstream.Status{}, "0 tools"},
		{upstream.Status{Offered: registry.Offered{Tools: 1, Prompts: 1}}, "1 tool, 1 prompt"},
		{upstream.Status{Offered: registry.Offered{Skills: 2}}, "0 tools, 2 skills"},
	} {
		if got := offered(test.status); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestARestartIsLoggedWithItsReason loses a server and lets it come back, once, at the
// third attempt, and then offer something.
func TestARestartIsLoggedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registerer := prometheus.NewRegistry()
		f := newFleet(registry.New(), metrics.New(registerer),
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		began := time.Now()
		f.note(t.Context(), upstream.Status{Server: "box", Since: began})
		time.Sleep(2 * time.Second)
		for _, step := range []struct {
			status upstream.Status
			want   string
		}{
			{
				upstream.Status{Up: true, Tried: true},
				`level=INFO msg="server up" server=box revision="" tools=0 prompts=0 resources=0 templates=0 attempt=1 after_seconds=2`,
			},
			{
				upstream.Status{Tried: true, Problem: "child ended", Lost: "child ended", Since: began},
				`level=WARN msg="server down" server=box problem="child ended"`,
			},
			{
				upstream.Status{Tried: true, Problem: "no such program", Failed: 1, Since: began},
				`level=WARN msg="server down" server=box problem="no such program" attempt=1`,
			},
			{
				upstream.Status{Tried: true, Problem: "no such program", Failed: 2, Since: began},
				`level=DEBUG msg="server still down" server=box problem="no such program" attempt=2`,
			},
			{
				upstream.Status{Up: true, Tried: true, Restarts: 1, Failed: 2, Lost: "child ended"},
				`level=INFO msg="server restarted" server=box revision="" tools=0 prompts=0 resources=0 templates=0 attempt=3 after_seconds=2 restarts=1 reason="child ended"`,
			},
			{
				upstream.Status{Up: true, Tried: true, Restarts: 1, Offered: registry.Offered{Tools: 2}},
				`level=INFO msg="server offers more or less than before" server=box revision="" tools=2 prompts=0 resources=0 templates=0`,
			},
			{upstream.Status{Up: true, Tried: true, Restarts: 1, Offered: registry.Offered{Tools: 2}}, ""},
		} {
			log.Reset()
			step.status.Server = "box"
			f.note(t.Context(), step.status)
			if _, got, _ := strings.Cut(strings.TrimSpace(log.String()), " "); got != step.want {
				t.Errorf("got  %s\nwant %s", got, step.want)
			}
		}
		if got := metricstest.Sum(t, registerer, "drawbridge_upstream_reconnects_total"); got != 1 {
			t.Errorf("the metric counts %v returns, want one", got)
		}
	})
}
