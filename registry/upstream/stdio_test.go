package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// TestStdioErasAreFoundByProbing starts servers that answer the first question in every
// way, and calls them.
func TestStdioErasAreFoundByProbing(t *testing.T) {
	t.Parallel()
	for kind, revision := range map[string]string{
		"modern":          mcp.Revision2607,
		"legacy":          mcp.Revision2511,
		"old":             mcp.Revision2024,
		"both-but-legacy": mcp.Revision2511,
		"unsupported":     mcp.Revision2511,
		"upset":           mcp.Revision2511,
		"silent":          mcp.Revision2511,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(kind))
			r.untilTool("echo")
			if got := r.last().Revision; got != revision {
				t.Errorf("revision: got %s, want %s", got, revision)
			}
			if got := len(r.tools()); got != 23 {
				t.Errorf("tools of all pages: got %d, want 23", got)
			}
			sent := parse(t, text(parse(t, r.must("echo", `{"name":"up__echo","arguments":{"a":1.50},"vendor":[1],
				"_meta":{"x.y/z":"kept","progressToken":9,"io.modelcontextprotocol/logLevel":"debug",
				"io.modelcontextprotocol/clientInfo":{"name":"the client"}}}`))))
			params := sent.Object("params")
			if got := params.Text("name"); got != "echo" {
				t.Errorf("name sent: got %q, want the server's own", got)
			}
			if got := string(params.Value("arguments")); got != `{"a":1.50}` {
				t.Errorf("arguments sent: got %s", got)
			}
			if !params.Has("vendor") {
				t.Error("an unknown member did not survive")
			}
			checkMeta(t, params.Object("_meta"), sent.Value("id"), revision)
		})
	}
}

func checkMeta(t *testing.T, meta mcp.Object, id mcp.RawJSON, revision string) {
	t.Helper()
	if got := meta.Text("x.y/z"); got != "kept" {
		t.Errorf("another _meta member: got %q, want it kept", got)
	}
	if got := string(meta.Value("progressToken")); got != string(id) {
		t.Errorf("progress token sent: got %s, want the request's own id %s", got, id)
	}
	if meta.Has(mcp.MetaLogLevel) {
		t.Error("the client's log level was passed on")
	}
	if revision != mcp.Revision2607 {
		if meta.Len() != 2 {
			t.Errorf("_meta to a legacy server: got %s, want nothing reserved", meta.JSON())
		}
		return
	}
	if got := meta.Text(mcp.MetaProtocolVersion); got != mcp.Revision2607 {
		t.Errorf("protocol version: got %q", got)
	}
	if got := meta.Object(mcp.MetaClientInfo).Text("name"); got != "drawbridge" {
		t.Errorf("client info: got %q, want the gateway's", got)
	}
	if got := string(meta.Value(mcp.MetaClientCapabilities)); got != "{}" {
		t.Errorf("capabilities: got %s, want none", got)
	}
}

// TestUnknownMembersSurvive shows that results are not decoded on their way.
func TestUnknownMembersSurvive(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("echo")
	if got := r.must("echo", `{}`); !strings.Contains(got, `"x-future":9007199254740993`) {
		t.Errorf("result: got %s, want the unknown member as it was", got)
	}
	if got := string(r.tool("echo").Definition.Value("x-vendor")); got != "1.0" {
		t.Errorf("definition's unknown member: got %s, want 1.0", got)
	}
}

// TestResultForms shows what becomes of the forms of results that servers send.
func TestResultForms(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("echo")
	for tool, want := range map[string]string{
		"old":     `{"content":[{"type":"text","text":"{\"answer\":42}"}],"structuredContent":{"answer":42}}`,
		"neither": `{"isError":false,"content":[]}`,
	} {
		if got := r.must(tool, `{}`); got != want {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
	}
	for _, tool := range []string{"task", "broken", "badresult"} {
		_, err := r.call(t.Context(), tool, `{}`, nil)
		if got := kindOf(mcp.Object{}, err); got != "protocol" {
			t.Errorf("%s: got error %v, want *registry.ProtocolError", tool, err)
		}
	}
	_, err := r.call(t.Context(), "fail", `{}`, nil)
	var answered *mcp.Error
	if !errors.As(err, &answered) || answered.Code != -32602 || string(answered.Data) != `{"reason":"x"}` {
		t.Errorf("an error the server answered: got %v", err)
	}
}

// TestProgressKeepsTokenAndOrder shows that progress comes before the result, in order,
// under the client's own token.
func TestProgressKeepsTokenAndOrder(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("progress")
	for _, token := range []string{`"7"`, `7`, `"a\u0062"`} {
		var got []string
		result, err := r.call(t.Context(), "progress", `{"arguments":{"n":100},"_meta":{"progressToken":`+
			token+`}}`, func(n mcp.Notification) {
			if n.Method != mcp.NotifyProgress || n.Params.Text("x-note") != "kept" {
				t.Errorf("notification: got %s %s", n.Method, n.Params.JSON())
			}
			got = append(got, string(n.Params.Value("progressToken"))+" "+string(n.Params.Value("progress")))
		})
		if err != nil || text(result) != "done" {
			t.Fatalf("progress: got %v, %v", result, err)
		}
		for i := range 100 {
			if want := fmt.Sprint(token, " ", i); i >= len(got) || got[i] != want {
				t.Fatalf("token %s: got %q, want 100 in order", token, got)
			}
		}
	}
	heard := 0
	if _, err := r.call(t.Context(), "progress", `{"arguments":{"n":3}}`,
		func(mcp.Notification) { heard++ }); err != nil || heard > 0 {
		t.Errorf("without a token: got %d notifications and error %v, want none", heard, err)
	}
}

// TestCallsShareAConnection runs calls at once and finds each answer with its own call.
func TestCallsShareAConnection(t *testing.T) {
	t.Parallel()
	r := start(t, command("modern"))
	r.untilTool("echo")
	tool := r.tool("echo")
	failures := make(chan error, 50)
	for i := range cap(failures) {
		call := request(t, fmt.Sprintf(`{"arguments":{"i":%d}}`, i), nil)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			result, err := tool.Call(ctx, call)
			if err == nil && !strings.Contains(text(result), fmt.Sprintf(`{"i":%d}`, i)) {
				err = fmt.Errorf("call %d got another's answer: %s", i, result.JSON())
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		if err := await(t, failures); err != nil {
			t.Error(err)
		}
	}
}

// TestCancelReachesAChild leaves a call; its caller gets the context's error at once and
// the server learns of it.
func TestCancelReachesAChild(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"legacy", "modern"} {
		r := start(t, command(kind))
		r.untilTool("slow")
		r.must("echo", `{}`) // the session is open
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err := r.call(ctx, "slow", `{}`, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > limit/2 {
			t.Errorf("%s: got error %v after %v, want the deadline's at once", kind, err, time.Since(began))
		}
		// The held call prints nothing when released; a server that still answers shows
		// that it goes on.
		r.must("echo", `{}`)
	}
}

// TestListChangeIsFollowed shows that a new tool is in the catalogue once it was
// announced.
func TestListChangeIsFollowed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"legacy", "modern"} {
		r := start(t, shared(command(kind)))
		r.untilTool("change")
		began := time.Now()
		r.must("change", `{"arguments":{"name":"fresh"}}`)
		r.untilTool("fresh")
		if took := time.Since(began); took > soon { // the next check comes later
			t.Errorf("%s: the new tool took %v", kind, took)
		}
	}
}

// TestServerRequestsAreAnswered shows that a child which asks back gets an answer: to
// ping an empty result, to everything else that the method is unknown.
func TestServerRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("ask")
	got := text(parse(t, r.must("ask", `{}`)))
	want := `{"jsonrpc":"2.0","id":"ping-1","result":{}}{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`
	if got != want {
		t.Errorf("answers: got %s, want %s", got, want)
	}
}

// TestGarbageHurtsNobody sends lines that are no messages, answers to nobody and answers
// twice.
func TestGarbageHurtsNobody(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("garbage")
	for tool, want := range map[string]string{
		"garbage": "after garbage", "foreign": "yours",
		"twice": "first", "flood": "flooded", "stderr": "said much",
	} {
		if got := text(parse(t, r.must(tool, `{}`))); got != want {
			t.Errorf("%s: got %q, want %q", tool, got, want)
		}
	}
	r.must("echo", `{}`)
	if got := r.count(upstream.Garbage); got != 5 {
		t.Errorf("garbage counted: got %d, want 5", got)
	}
	// An answer that the probe of the start did not wait for is one more.
	r.until("foreign answers are counted", func() bool { return r.count(upstream.Foreign) >= 3 })
	if got := text(parse(t, r.must("badutf8", `{}`))); got != "half \uFFFD\uFFFD\uFFFD and \uFFFD" &&
		got != "half \uFFFD and \uFFFD" {
		t.Errorf("broken characters: got %q, want replacement characters", got)
	}
	if r.count(upstream.Mended) == 0 {
		t.Error("mended characters were not counted")
	}
	heard := 0
	if _, err := r.call(t.Context(), "batch", `{"_meta":{"progressToken":1}}`,
		func(mcp.Notification) { heard++ }); err != nil || heard != 1 {
		t.Errorf("array of messages: got %d notifications, error %v", heard, err)
	}
}

// TestOversizedAnswerFailsItsCallOnly sends an answer over the limit.
func TestOversizedAnswerFailsItsCallOnly(t *testing.T) {
	t.Parallel()
	r := start(t, command("legacy"))
	r.untilTool("huge")
	_, err := r.call(t.Context(), "huge", `{}`, nil)
	var broken *registry.ProtocolError
	if !errors.As(err, &broken) || r.count(upstream.Oversized) != 1 {
		t.Errorf("a line over the limit: got error %v, count %d, want *registry.ProtocolError, 1", err,
			r.count(upstream.Oversized))
	}
	r.must("echo", `{}`)
}

// TestNobodyWaitsForADeafChild stops reading its input; neither callers nor the end wait
// for it.
func TestNobodyWaitsForADeafChild(t *testing.T) {
	t.Parallel()
	r := start(t, shared(command("legacy")))
	r.untilTool("deaf")
	r.must("deaf", `{}`)
	tool, long := r.tool("echo"), strings.Repeat("x", 200_000)
	began := time.Now()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := tool.Call(ctx, request(t, `{"arguments":{"long":"`+long+`"}}`, nil)); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("call of a deaf child: got %v, want the deadline's error", err)
		}
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("calls of a deaf child took %v, want their deadline", took)
	}
	began = time.Now()
	r.stop()
	if took := time.Since(began); took > limit/2 {
		t.Errorf("the end took %v", took)
	}
}

// TestKilledChildComesBack kills a child in the middle of a call and while idle. The call
// fails and is not repeated; the tools come back as they were.
func TestKilledChildComesBack(t *testing.T) {
	t.Parallel()
	r := start(t, shared(command("legacy")))
	r.untilTool("crash")
	old := r.tool("echo")
	_, err := r.call(t.Context(), "crash", `{}`, nil)
	var unavailable *registry.UnavailableError
	if !errors.As(err, &unavailable) || !unavailable.Sent {
		t.Fatalf("killed in a call: got %v, want *registry.UnavailableError that was sent", err)
	}
	r.until("it is back", func() bool { return r.last().Restarts >= 1 && r.last().Up })
	if _, err = old.Call(t.Context(), request(t, `{}`, nil)); err != nil {
		t.Errorf("call of a tool that was there before and is again: got %v, want its result", err)
	}
	seen := surroundings(t, r)
	if err := syscall.Kill(seen.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.until("it is back again", func() bool { return r.last().Restarts == 2 && r.last().Up })
	r.must("echo", `{}`)
	if alive(seen.PID) {
		t.Errorf("process %d is still there, want it reaped", seen.PID)
	}
}

type view struct {
	Dir  string   `json:"dir"`
	Env  []string `json:"env"`
	FDs  []string `json:"fds"`
	Args []string `json:"args"`
	PGID int      `json:"pgid"`
	PID  int      `json:"pid"`
}

func surroundings(t *testing.T, r *rig) view {
	t.Helper()
	var v view
	if err := json.Unmarshal([]byte(text(parse(t, r.must("env", `{}`)))), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// alive tells whether there is a process with that id, zombies included.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestT48ChildSeesNothingOfTheGateway lets a child tell its environment, open files and
// arguments.
func TestT48ChildSeesNothingOfTheGateway(t *testing.T) {
	t.Parallel()
	secret, err := os.Create(t.TempDir() + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, secret.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno) // now it would pass to a child
	}
	cfg := command("legacy", "a b", "$(touch /tmp/x); echo", "*", "${HOME}")
	cfg.Env["OWN"], cfg.Env["TZ"] = "configured", "UTC"
	r := start(t, cfg)
	r.untilTool("env")
	seen := surroundings(t, r)
	for _, variable := range seen.Env {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TZ", "OWN", fakeServer, "GORACE"}, name) {
			t.Errorf("variable of the gateway in the child: %s", name)
		}
	}
	if !slices.Contains(seen.Env, "TZ=UTC") || !slices.Contains(seen.Env, "OWN=configured") {
		t.Errorf("environment: got %q, want what is configured", seen.Env)
	}
	for _, file := range seen.FDs {
		number, target, _ := strings.Cut(file, "=")
		// Go's own
		if fd, _ := strconv.Atoi(number); fd > 2 && !strings.HasPrefix(target, "/sys/fs/cgroup/") {
			t.Errorf("open file of the gateway in the child: %s", file)
		}
	}
	if !slices.Equal(seen.Args, cfg.Args) {
		t.Errorf("arguments: got %q, want %q as they are", seen.Args, cfg.Args)
	}
	if seen.PGID != seen.PID {
		t.Errorf("process group: got %d, want its own %d", seen.PGID, seen.PID)
	}
}

// TestCommandRunsInItsDirectory starts a child in a directory of its own, by a path that
// starts there.
func TestCommandRunsInItsDirectory(t *testing.T) {
	t.Parallel()
	cfg := command("legacy")
	cfg.Dir = t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, cfg.Dir+"/server"); err != nil {
		t.Fatal(err)
	}
	cfg.Command = "./server"
	r := start(t, cfg)
	r.untilTool("env")
	want, err := os.Stat(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := surroundings(t, r)
	if got, err := os.Stat(seen.Dir); err != nil || !os.SameFile(got, want) {
		t.Errorf("directory of the child: got %s, %v, want %s", seen.Dir, err, cfg.Dir)
	}
	for command, found := range map[string]bool{
		"./server": true, "./nothing": false, "sh": true,
		"server": false, "/bin/sh": true,
	} {
		if err := process.Check(command, cfg.Dir); (err == nil) != found {
			t.Errorf("Check(%q): got %v, want found: %t", command, err, found)
		}
	}
}

// TestChildrenEndWithTheUpstream ends upstreams whose children ignore every polite
// request or have children of their own, and finds nothing left.
func TestChildrenEndWithTheUpstream(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"legacy", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(kind))
			r.untilTool("fork")
			pid := surroundings(t, r).PID
			grandchild, err := strconv.Atoi(text(parse(t, r.must("fork", `{}`))))
			if err != nil || !alive(grandchild) {
				t.Fatalf("grandchild: got %d, %v", grandchild, err)
			}
			r.stop()
			if alive(pid) {
				t.Errorf("child %d is left", pid)
			}
			for deadline := time.Now().Add(limit); running(grandchild); {
				if time.Now().After(deadline) {
					t.Fatalf("grandchild %d is left", grandchild)
				}
			}
			if got := r.tools(); len(got) > 0 {
				t.Errorf("tools after the end: got %q, want none", got)
			}
		})
	}
}

// running tells whether the process runs. A grandchild's zombie is for init to reap, not
// for us.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestHopelessChildrenAreDown starts what cannot work and finds the reason in the status.
func TestHopelessChildrenAreDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  upstream.Config
		want string
	}{
		"exits at once": {command("exit"), "exit status 3"},
		"not there":     {upstream.Config{Command: "/nonexistent/server"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, test.cfg)
			r.until("an attempt ended", func() bool { return r.last().Tried })
			if s := r.last(); s.Up || !strings.Contains(s.Problem, test.want) {
				t.Errorf("status: got %+v, want down because of %q", s, test.want)
			}
		})
	}
}

// TestHangingUpstreamDelaysNobody runs a server that never answers beside one that does.
func TestHangingUpstreamDelaysNobody(t *testing.T) {
	t.Parallel()
	hanging := start(t, command("mute"))
	good := newRig(t, withName(command("legacy"), "good"), hanging.reg)
	good.run()
	good.untilTool("echo")
	good.must("echo", `{}`)
	if hanging.last().Tried {
		t.Error("the healthy upstream was up only after the attempt with the other had ended")
	}
	hanging.stop()
	if got := good.tools(); len(got) == 0 {
		t.Error("the end of one upstream took the tools of the other")
	}
}

// shared makes one session serve everyone.
func shared(cfg upstream.Config) upstream.Config {
	cfg.Shared = true
	return cfg
}

func withName(cfg upstream.Config, name string) upstream.Config {
	cfg.Name = name
	return cfg
}

// TestProbe connects once and leaves nothing behind but the names of what is offered.
func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, command("legacy"), nil)
	s, err := r.up.Probe(t.Context())
	if err != nil || !s.Up || s.Tools != 23 || s.Revision != mcp.Revision2511 {
		t.Errorf("probe: got %+v, %v", s, err)
	}
	if got := r.tools(); len(got) != s.Tools {
		t.Errorf("catalogue after a probe: got %q, want %d tools", got, s.Tools)
	}
	r = newRig(t, command("exit"), nil)
	if s, err = r.up.Probe(t.Context()); err == nil || s.Up || s.Problem == "" {
		t.Errorf("probe of a dead server: got %+v, %v", s, err)
	}
}

// TestToolTimeouts shows which time limit a tool gets.
func TestToolTimeouts(t *testing.T) {
	t.Parallel()
	cfg := command("legacy")
	cfg.Timeout = 5 * time.Second
	cfg.ToolTimeouts = map[string]time.Duration{"slow": time.Minute}
	r := start(t, cfg)
	r.untilTool("slow")
	if got := r.tool("slow").Timeout; got != time.Minute {
		t.Errorf("own limit: got %v, want 1m", got)
	}
	if got := r.tool("echo").Timeout; got != 5*time.Second {
		t.Errorf("limit of the upstream: got %v, want 5s", got)
	}
}
