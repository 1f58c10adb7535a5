package interop_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// geminiHome is a home for Gemini CLI with a scripted model, connected with the snippet
// of docs/clients.md.
func geminiHome(t testing.TB, g *gateway, token string) (*agentHome, *model) {
	t.Helper()
	m := newModel(t, google{})
	h := newAgentHome(t, nodeAgent(t, filepath.Join("@google", "gemini-cli")),
		"DRAWBRIDGE_TOKEN="+token, "GEMINI_API_KEY=scripted", "GOOGLE_GEMINI_BASE_URL="+m.url,
		"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true")
	var settings map[string]any
	if err := json.Unmarshal([]byte(snippet(t, "Gemini CLI", g)), &settings); err != nil {
		t.Fatalf("the page's settings: %v", err)
	}
	settings["security"] = map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}}
	settings["privacy"] = map[string]any{"usageStatisticsEnabled": false}
	settings["general"] = map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, ".gemini/settings.json", string(text))
	return h, m
}

// geminiAlone has Gemini CLI do one thing without a person, and returns what a person
// would read.
func geminiAlone(t testing.TB, h *agentHome, wish string, options ...string) string {
	t.Helper()
	out, errs, exit := h.run(t, "gemini", append(options, "-m", "gemini-2.5-flash", "-p", wish)...)
	if exit != 0 {
		t.Errorf("gemini -p ended with %d: %s", exit, errs)
	}
	return out + errs
}

// geminiList returns what gemini mcp list says of the gateway.
func geminiList(t testing.TB, h *agentHome) string {
	t.Helper()
	out, errs, _ := h.run(t, "gemini", "mcp", "list")
	_, said, found := strings.Cut(out+errs, "drawbridge: ")
	if !found {
		t.Fatalf("gemini mcp list = %s%s", out, errs)
	}
	return said
}

// geminiTalk is a conversation with Gemini CLI as editors have it. See
// https://agentclientprotocol.com.
type geminiTalk struct {
	*editor
	session string
}

func newGeminiTalk(t testing.TB, h *agentHome) *geminiTalk {
	t.Helper()
	allows := func(string, json.RawMessage) any {
		return map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": "proceed_once"}}
	}
	e := openEditor(t, h, allows, "gemini", "--acp", "-m", "gemini-2.5-flash")
	e.request("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}})
	var begun struct{ SessionID string }
	if err := json.Unmarshal(e.request("session/new", map[string]any{"cwd": h.dir, "mcpServers": []any{}}),
		&begun); err != nil {
		t.Fatal(err)
	}
	return &geminiTalk{e, begun.SessionID}
}

// say says something as its user and waits until Gemini CLI has answered.
func (c *geminiTalk) say(words string) {
	c.t.Helper()
	c.request("session/prompt", map[string]any{
		"sessionId": c.session,
		"prompt":    []any{map[string]string{"type": "text", "text": words}},
	})
}

func TestAgentGeminiCLI(t *testing.T) {
	t.Parallel()
	sheet := &agentSheet{}
	t.Run("with", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *agentSheet){
			"tools": geminiUsesTools, "an old token": geminiHasAnOldToken,
			"what is down": geminiMeetsWhatIsDown,
		} {
			if testing.Short() && name != "tools" { // Codex shows the same of the gateway
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, sheet)
			})
		}
	})
	sheet.keep(t, "gemini", "Gemini CLI "+agentVersion(t, "@google/gemini-cli"))
}

func geminiUsesTools(t *testing.T, sheet *agentSheet) {
	upstream := goUpstream(t, false)
	g := serve(t, agentSections(upstream))
	h, m := geminiHome(t, g, g.token(t))
	listed := geminiList(t, h)
	sheet.note("connect", strings.Contains(listed, "Connected"), "`gemini mcp list`: %s", g.read(listed))

	talk := newGeminiTalk(t, h)
	talk.say(calculation)
	told := m.last().result()
	sheet.note("list", m.offers("mcp_drawbridge_toolbox__calculate"), "`mcp_drawbridge_toolbox__calculate`")
	geminiAlone(t, h, calculation)
	alone := "`gemini -p` offers no tool that nobody can allow, and all with `--approval-mode yolo`"
	if m.offers("toolbox__calculate") {
		alone = "with `gemini -p`, too"
	}
	sheet.note("call", told.text == calculated, "the model reads %s; %s", g.read(told.text), alone)
	sheet.note("revision", true, "%s", g.spoken(t))

	geminiAlone(t, h, "call go__test_error_handling {}\ncall go__test_image_content {}\n"+
		`call go__test_elicitation {"message":"Who are you?"}`,
		"--approval-mode", "yolo")
	answers := m.last().answers
	if len(answers) != 3 {
		t.Fatalf("got %d answers, want 3: %+v", len(answers), answers)
	}
	sheet.note("error", answers[0].failed, "the model reads %s, marked as an error", g.read(answers[0].text))
	sheet.note("picture", slices.Equal(answers[1].images, []string{"image/png"}), "the model sees %s",
		strings.Join(answers[1].images, ", "))
	sheet.note("ask", !answers[2].failed, "it does not know questions: the model reads %s",
		g.read(answers[2].text))

	g.configure(t, agentSections(upstream, "later"))
	seen := settles(func() bool {
		talk.say("Hello.")
		return m.offers("later__current_time")
	})
	sheet.note("change", seen, "a tool that came is offered in the next turn")
	if unknown := m.strays(); len(unknown) > 0 {
		t.Errorf("requests that the model does not know: %q", unknown)
	}
}

func geminiHasAnOldToken(t *testing.T, sheet *agentSheet) {
	g := serveHandedOut(t, agentSections(goUpstream(t, false)))
	h, m := geminiHome(t, g, g.mint(who{issuer: handedOut, subject: "alice", life: -leeway - time.Second}))
	listed := geminiList(t, h)
	read := geminiAlone(t, h, calculation, "--approval-mode", "yolo")
	silent := "says nothing of it, and goes on without the tools"
	if m.offers("toolbox__calculate") || strings.Contains(read, "drawbridge") {
		silent = g.read(read)
	}
	wordy := regexp.MustCompile(
		`MCP server 'drawbridge' requires authentication using: /mcp auth drawbridge`).FindString(
		geminiAlone(t, h, calculation, "--debug"))
	sheet.note("expired", strings.Contains(read+listed+wordy, "expired"),
		"`gemini mcp list`: %s; `gemini -p` %s, with `--debug`: %s", g.read(listed), silent, g.read(wordy))

	outlived(t, g, handedOut, func(token string) (*model, func(string)) {
		h, m := geminiHome(t, g, token)
		return m, newGeminiTalk(t, h).say
	}, func(m *model, say func(string)) {
		say(calculation)
		told := m.last().result()
		sheet.note("expires", strings.Contains(told.text, "The token has expired"), "the model reads %s",
			g.read(told.text))
	})
}

func geminiMeetsWhatIsDown(t *testing.T, sheet *agentSheet) {
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	upstream := goUpstreamAt(t, addr, false)
	g := serve(t, agentSections("http://"+addr+"/mcp"))
	h, m := geminiHome(t, g, g.token(t))
	talk := newGeminiTalk(t, h)
	talk.say(calculation)

	upstream.stop(t)
	g.upstreamDown(t)
	talk.say("call go__test_simple_text {}")
	told := m.last().result()
	sheet.note("down", told.failed && strings.Contains(told.text, "not available now"), "the model reads %s",
		g.read(told.text))

	g.stop(t)
	talk.say(calculation)
	told = m.last().result()
	sheet.note("away", told.failed, "the model reads %s", g.read(told.text))

	g.launch(t)
	talk.say(calculation)
	talk.say(calculation)
	told = m.last().result()
	sheet.note("back", told.text == calculated,
		"the conversation stays with the session that is gone: every call gets %s; a new conversation is answered", g.read(told.text))
	again := newGeminiTalk(t, h)
	again.say(calculation)
	if got := m.last().result().text; got != calculated {
		t.Errorf("in a new conversation the model reads %q", got)
	}
}
