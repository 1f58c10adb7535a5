package interop_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// calculation is what the model is told to call, and its result.
const (
	calculation = `call toolbox__calculate {"expression":"6*7"}`
	calculated  = `{"result":"42","exact":true}`
)

// claudeHome is a home for Claude Code with a scripted model.
func claudeHome(t testing.TB) (*agentHome, *model) {
	t.Helper()
	m := newModel(t, anthropic{})
	bin := agentPackage(t, filepath.Join("@anthropic-ai", "claude-code-"+platform()))
	return newAgentHome(t, bin,
		"ANTHROPIC_BASE_URL="+m.url, "ANTHROPIC_API_KEY=scripted",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		// Otherwise it goes on without servers that are slow to connect, as they are on a
		// busy machine.
		"MCP_CONNECTION_NONBLOCKING=0", "MCP_TIMEOUT="+fmt.Sprint(patient.Milliseconds())), m
}

// addToClaude connects Claude Code with the page's command.
func addToClaude(t testing.TB, h *agentHome, g *gateway, token string) {
	t.Helper()
	h.env = append(h.env, "TOKEN="+token)
	if out, errs, exit := h.run(t, "sh", "-c", snippet(t, "Claude Code", g)); exit != 0 {
		t.Fatalf("the page's command ended with %d: %s%s", exit, out, errs)
	}
}

// health returns what claude mcp list says of an endpoint.
func health(t testing.TB, h *agentHome, url string) string {
	t.Helper()
	out, errs, _ := h.run(t, "claude", "mcp", "list")
	_, said, found := strings.Cut(out, url+" (HTTP) - ")
	if !found {
		t.Fatalf("claude mcp list = %s%s", out, errs)
	}
	return said
}

func TestAgentClaudeCode(t *testing.T) {
	t.Parallel()
	sheet := &agentSheet{}
	t.Run("with", func(t *testing.T) {
		t.Run("tools", func(t *testing.T) {
			t.Parallel()
			claudeUsesTools(t, sheet)
		})
		if testing.Short() { // Codex shows the same of the gateway
			return
		}
		t.Run("an old token", func(t *testing.T) {
			t.Parallel()
			claudeHasAnOldToken(t, sheet)
		})
		t.Run("what is down", func(t *testing.T) {
			t.Parallel()
			claudeMeetsWhatIsDown(t, sheet)
		})
	})
	sheet.keep(t, "claude", "Claude Code "+agentVersion(t, "@anthropic-ai/claude-code"))
}

// TestAgentGuardSeesWhatLeaves shows that the guard of an agent's home is asked for all
// that is not on this machine.
func TestAgentGuardSeesWhatLeaves(t *testing.T) {
	t.Parallel()
	h, _ := claudeHome(t)
	h.env = append(h.env, "ANTHROPIC_BASE_URL=https://model.invalid", "CLAUDE_CODE_MAX_RETRIES=0")
	h.run(t, "claude", "-p", "--", "Hello.")
	if left := h.leavings(); !slices.Contains(left, "CONNECT model.invalid:443") {
		t.Errorf("the guard saw %q, want a connection to model.invalid", left)
	}
}

// TestAgentClaudeCodeTakesTheLineOfDev types what drawbridge dev prints for Claude Code.
func TestAgentClaudeCodeTakesTheLineOfDev(t *testing.T) {
	t.Parallel()
	h, m := claudeHome(t)
	cmd := exec.CommandContext(context.Background(), drawbridge(t), "dev", "-listen", "127.0.0.1:0",
		"-operator", "127.0.0.1:0")
	cmd.Dir = t.TempDir()
	dev := start(t, cmd)
	eventually(t, "dev is ready",
		func() bool { return strings.Contains(dev.out.String(), "Stop with Ctrl-C.") })
	printed := regexp.MustCompile(`(?m)^claude mcp add .* (http://\S+) --header .*$`).FindStringSubmatch(
		dev.out.String())
	if printed == nil {
		t.Fatal("dev prints no line that starts with claude mcp add")
	}
	if out, errs, exit := h.run(t, "sh", "-c", printed[0]); exit != 0 {
		t.Fatalf("%s ended with %d: %s%s", printed[0], exit, out, errs)
	}
	if said := health(t, h, printed[1]); !strings.Contains(said, "✔ Connected") {
		t.Errorf("claude mcp list: %s", said)
	}
	out, _, _ := h.run(t, "claude", "-p", "--allowedTools", "mcp__drawbridge", "--", calculation)
	if got := m.last().result(); got.text != calculated || !strings.Contains(out, "42") {
		t.Errorf("the model was told %q and its user %q, want %s", got.text, out, calculated)
	}
}

func claudeUsesTools(t *testing.T, sheet *agentSheet) {
	h, m := claudeHome(t)
	upstream := goUpstream(t, false)
	g := serve(t, agentSections(upstream))
	token := g.token(t)
	addToClaude(t, h, g, token)
	said := health(t, h, g.url)
	sheet.note("connect", strings.Contains(said, "Connected"), "`claude mcp list`: %s", g.read(said))

	s := newClaudeSession(t, h)
	reply := s.say(t, calculation)
	sheet.note("revision", true, "%s", g.spoken(t))
	first := m.first()
	where := "name and definition"
	if slices.Contains(first.deferred, "mcp__drawbridge__toolbox__calculate") {
		where = "the name at first, the definition when the model asks for it"
	}
	sheet.note("list", m.offers("toolbox__calculate"), "`mcp__drawbridge__toolbox__calculate`: %s", where)
	result := m.last().result()
	sheet.note("call", result.text == calculated && strings.Contains(reply, "42"), "the model reads %s",
		g.read(result.text))

	s.say(t, "call go__test_error_handling {}")
	result = m.last().result()
	sheet.note("error", result.failed, "the model reads %s, marked as an error", g.read(result.text))

	s.say(t, "call go__test_image_content {}")
	result = m.last().result()
	sheet.note("picture", slices.Equal(result.images, []string{"image/png"}), "the model sees %s",
		strings.Join(result.images, ", "))

	s.say(t, `call go__test_elicitation {"message":"Who are you?"}`)
	driven := m.last().result().text
	answered := slices.Equal(s.asked, []string{"elicitation: Who are you?"}) &&
		strings.Contains(driven, "action=accept, content=map[username:ann]")
	h.run(t, "claude", "-p", "--allowedTools", "mcp__drawbridge", "--",
		`call go__test_elicitation {"message":"Who are you?"}`)
	alone := m.last().result().text
	sheet.note("ask", answered,
		"a program that drives it (`--input-format stream-json`) is asked; `claude -p` asks nobody: %s",
		g.read(alone))

	g.configure(t, agentSections(upstream, "later"))
	eventually(t, "the gateway has the new tool",
		func() bool { return slices.Contains(g.tools(t, token), "later__current_time") })
	seen := settles(func() bool {
		s.say(t, "Hello.")
		return m.offers("later__current_time")
	})
	s.say(t, `call later__current_time {"timezone":"UTC"}`)
	sheet.note("change", seen && !m.last().result().failed, "a tool that came is offered in the next turn")
	if unknown := m.strays(); len(unknown) > 0 {
		t.Errorf("requests that the model does not know: %q", unknown)
	}
}

// hint is what Claude Code advises before it quotes an error.
var hint = regexp.MustCompile(`(?s)Check that the token is valid .*? is set\.\s+Error`)

func claudeHasAnOldToken(t *testing.T, sheet *agentSheet) {
	h, m := claudeHome(t)
	g := serve(t, agentSections(goUpstream(t, false)))
	addToClaude(t, h, g, g.mint(who{subject: "alice", life: -leeway - time.Second}))
	listed := health(t, h, g.url)
	out, errs, _ := h.run(t, "claude", "-p", "--", calculation)
	silent := "says nothing of it, and goes on without the tools"
	if strings.Contains(out+errs, "401") || strings.Contains(out+errs, "token") ||
		m.offers("toolbox__calculate") {
		silent = g.read(out + errs)
	}
	sheet.note("expired", strings.Contains(listed, "The token has expired"),
		"`claude mcp list`: %s; `claude -p` %s",
		g.read(hint.ReplaceAllString(listed, "… Error")), silent)

	var s *claudeSession
	outlived(t, g, "https://issuer.test/", func(token string) (*model, func(string)) {
		h, m := claudeHome(t)
		addToClaude(t, h, g, token)
		s = newClaudeSession(t, h)
		return m, func(words string) { s.say(t, words) }
	}, func(m *model, say func(string)) {
		say(calculation)
		told := m.last().result()
		say("Hello.")
		sheet.note("expires", told.failed && strings.Contains(told.text, "Authorization"),
			"the model reads %s; its status is `%s`", g.read(told.text), s.status)
	})
}

func claudeMeetsWhatIsDown(t *testing.T, sheet *agentSheet) {
	h, m := claudeHome(t)
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	upstream := goUpstreamAt(t, addr, false)
	g := serve(t, agentSections("http://"+addr+"/mcp"))
	addToClaude(t, h, g, g.token(t))
	s := newClaudeSession(t, h)
	s.say(t, calculation)

	upstream.stop(t)
	g.upstreamDown(t)
	s.say(t, "call go__test_simple_text {}")
	result := m.last().result()
	sheet.note("down", result.failed && strings.Contains(result.text, "not available now"),
		"the model reads %s", g.read(result.text))

	g.stop(t)
	s.say(t, calculation)
	away := m.last().result()
	g.launch(t) // at once: Claude Code tries to connect a few times only
	sheet.note("back", settles(func() bool {
		s.say(t, calculation)
		return m.last().result().text == calculated
	}), "calls are answered again")

	g.stop(t)
	sheet.note("away", away.failed, "the model reads %s; `claude mcp list`: %s", g.read(away.text),
		g.read(health(t, h, g.url)))
}
