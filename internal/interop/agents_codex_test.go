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

// codexHome is a home for Codex with a scripted model, connected with the snippet of
// docs/clients.md.
func codexHome(t testing.TB, g *gateway, token string) (*agentHome, *model) {
	t.Helper()
	m := newModel(t, openai{})
	h := newAgentHome(t, nodeAgent(t, filepath.Join("@openai", "codex-"+platform())), "DRAWBRIDGE_TOKEN="+
		token)
	h.write(t, ".codex/config.toml", snippet(t, "Codex", g))
	return h, m
}

// codexOptions are for every command of Codex: the scripted model, and nothing that asks
// a website.
func codexOptions(m *model) []string {
	var options []string
	for _, setting := range []string{
		`model="scripted"`, `model_provider="scripted"`,
		fmt.Sprintf(`model_providers.scripted={name="scripted", base_url="%s/v1", wire_api="responses"}`,
			m.url),
		"check_for_update_on_startup=false", "analytics.enabled=false", "features.plugins=false",
		"features.apps=false",
		// a busy machine needs more than 10 s
		fmt.Sprintf("mcp_servers.drawbridge.startup_timeout_sec=%d", int(patient.Seconds())),
	} {
		options = append(options, "-c", setting)
	}
	return options
}

// approve lets Codex run every tool without asking.
const approve = `mcp_servers.drawbridge.default_tools_approval_mode="approve"`

// codexExec has Codex do one thing without a person, and returns what a person would
// read.
func codexExec(t testing.TB, h *agentHome, m *model, wish string, settings ...string) string {
	t.Helper()
	arguments := append([]string{"exec", "--skip-git-repo-check"}, codexOptions(m)...)
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	out, errs, exit := h.run(t, "codex", append(arguments, wish)...)
	if exit != 0 {
		t.Errorf("codex exec ended with %d: %s", exit, errs)
	}
	return out + errs
}

// codexTalk is a conversation with Codex as its desktop programs have it.
type codexTalk struct {
	*editor
	thread string
}

func newCodexTalk(t testing.TB, h *agentHome, m *model, options ...string) *codexTalk {
	t.Helper()
	e := openEditor(t, h, codexUser, "codex", slices.Concat([]string{"app-server"}, codexOptions(m),
		options)...)
	e.request("initialize", map[string]any{"clientInfo": map[string]string{
		"name":    "interop",
		"version": "1",
	}})
	e.send(map[string]any{"method": "initialized"})
	talk := &codexTalk{editor: e}
	talk.begin()
	return talk
}

// codexUser allows every call and gives every server that asks the name ann.
func codexUser(_ string, params json.RawMessage) any {
	var question struct {
		RequestedSchema struct{ Properties map[string]any }
	}
	content := map[string]string{}
	if json.Unmarshal(params, &question) == nil && question.RequestedSchema.Properties["username"] != nil {
		content["username"] = "ann"
	}
	return map[string]any{"action": "accept", "content": content}
}

// begin begins a new conversation.
func (c *codexTalk) begin() {
	c.t.Helper()
	var started struct{ Thread struct{ ID string } }
	if err := json.Unmarshal(c.request("thread/start", map[string]any{"approvalPolicy": "on-request"}),
		&started); err != nil {
		c.t.Fatal(err)
	}
	c.thread = started.Thread.ID
}

// say says something as its user and waits until Codex has answered.
func (c *codexTalk) say(words string) {
	c.t.Helper()
	const answered = `"method":"turn/completed"`
	before := strings.Count(c.heard(), answered)
	c.request("turn/start", map[string]any{
		"threadId": c.thread,
		"input":    []any{map[string]string{"type": "text", "text": words}},
	})
	eventually(c.t, "Codex answers", func() bool { return strings.Count(c.heard(), answered) > before })
}

// startup returns what the user reads of a server that did not start.
func (c *codexTalk) startup() string {
	for line := range strings.Lines(c.heard()) {
		var note struct {
			Method string
			Params struct{ Error string }
		}
		if json.Unmarshal([]byte(line), &note) == nil && note.Method == "mcpServer/startupStatus/updated" &&
			note.Params.Error != "" {
			return note.Params.Error
		}
	}
	return ""
}

func TestAgentCodex(t *testing.T) {
	t.Parallel()
	sheet := &agentSheet{}
	t.Run("with", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *agentSheet){
			"tools": codexUsesTools, "a person": codexAsksItsUser, "an old token": codexHasAnOldToken,
			"what is down": codexMeetsWhatIsDown,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, sheet)
			})
		}
	})
	sheet.keep(t, "codex", "Codex "+agentVersion(t, "@openai/codex"))
}

func codexUsesTools(t *testing.T, sheet *agentSheet) {
	upstream := goUpstream(t, false)
	g := serve(t, agentSections(upstream))
	h, m := codexHome(t, g, g.token(t))
	talk := newCodexTalk(t, h, m)
	talk.say(calculation)
	sheet.note("connect", strings.Contains(talk.heard(), `"name":"drawbridge","status":"ready"`),
		"`ready` at the start of a conversation")
	sheet.note("list", m.offers("mcp__drawbridge/toolbox__calculate"),
		"`toolbox__calculate` in the namespace `mcp__drawbridge`")
	told := m.last().result().text
	codexExec(t, h, m, "call go__test_simple_text {}")
	sheet.note("call", told == calculated,
		"the model reads %s; `codex exec` runs those tools alone that say that they only read, else the model reads %s, "+
			"unless `default_tools_approval_mode` of the server is `approve`", g.read(told),
		g.read(m.last().result().text))

	read := codexExec(t, h, m, "call go__test_error_handling {}", approve)
	failed := "mcp: drawbridge/go__test_error_handling (failed)"
	sheet.note("error", strings.Contains(read, failed), "the model reads %s, `codex exec` prints %s",
		g.read(m.last().result().text), g.read(failed))
	talk.say("call go__test_image_content {}")
	sheet.note("picture", slices.Equal(m.last().result().images, []string{"image/png"}), "the model sees %s",
		strings.Join(m.last().result().images, ", "))

	keen, shown := codexHome(t, g, g.token(t))
	keenTalk := newCodexTalk(t, keen, shown, "--enable", "mcp_tool_list_changed")
	keenTalk.say(calculation)
	g.configure(t, agentSections(upstream, "later"))
	eventually(t, "Codex sees the new tool where it looks", func() bool {
		keenTalk.say(calculation)
		return shown.offers("later__current_time")
	})
	talk.say(calculation)
	seen := m.offers("later__current_time")
	talk.begin()
	talk.say(calculation)
	if !m.offers("later__current_time") {
		t.Error("a new conversation does not have the new tool")
	}
	sheet.note("change", seen,
		"a conversation keeps its tools; a new one has what came, and with `--enable mcp_tool_list_changed` the running one, too")
}

func codexAsksItsUser(t *testing.T, sheet *agentSheet) {
	const ask = `call go__test_elicitation {"message":"Who are you?"}`
	g := serve(t, agentSections(goUpstream(t, false)))
	answered := func(h *agentHome, m *model, options ...string) bool {
		talk := newCodexTalk(t, h, m, options...)
		talk.say(ask)
		for _, question := range []string{`"message":"Allow the drawbridge MCP server to run tool \"go__test_elicitation\"?"`, `"message":"Who are you?"`} {
			if !strings.Contains(talk.questions(), question) {
				t.Errorf("Codex asked %s, not %s", talk.questions(), question)
			}
		}
		return strings.Contains(m.last().result().text, "action=accept, content=map[username:ann]")
	}
	h, m := codexHome(t, g, g.token(t))
	ok := answered(h, m)
	codexExec(t, h, m, ask, approve)
	sheet.note(
		"ask", ok, "a program that drives it (`codex app-server`) is asked, and before whether the tool may run; `codex exec` asks nobody: %s",
		g.read(m.last().result().text))

	const modern = "mcp_2026_07_28"
	g2 := serve(t, agentSections(goUpstream(t, false)))
	h, m = codexHome(t, g2, g2.token(t))
	if !answered(h, m, "--enable", modern) {
		t.Errorf("with %s the model reads %+v", modern, m.last().result())
	}
	sheet.note("revision", true, "%s; with `--enable %s`: %s", g.spoken(t), modern, g2.spoken(t))
}

func codexHasAnOldToken(t *testing.T, sheet *agentSheet) {
	g := serveHandedOut(t, agentSections(goUpstream(t, false)))
	h, m := codexHome(t, g, g.mint(who{issuer: handedOut, subject: "alice", life: -leeway - time.Second}))
	read := codexExec(t, h, m, calculation)
	talk := newCodexTalk(t, h, m)
	eventually(t, "Codex says that the server did not start", func() bool { return talk.startup() != "" })
	_, login, _ := h.run(t, "codex", append([]string{"mcp", "login", "drawbridge"}, codexOptions(m)...)...)
	refusal := regexp.MustCompile(`"error_description":"([^"]*)"`).FindStringSubmatch(login)
	if refusal == nil {
		t.Fatalf("codex mcp login said %s", login)
	}
	sheet.note("expired", strings.Contains(read,
		`error_description=\"The token has expired: get a new one\"`),
		"`codex exec` logs “The token has expired: get a new one”; a program that drives it reads %s, which says %s",
		g.read(talk.startup()), g.read(refusal[1]))

	outlived(t, g, handedOut, func(token string) (*model, func(string)) {
		h, m := codexHome(t, g, token)
		return m, newCodexTalk(t, h, m).say
	}, func(m *model, say func(string)) {
		say(calculation)
		told := m.last().result().text
		sheet.note("expires", strings.Contains(told, "Authentication required"), "the model reads %s",
			g.read(told))
	})
}

func codexMeetsWhatIsDown(t *testing.T, sheet *agentSheet) {
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	upstream := goUpstreamAt(t, addr, false)
	g := serve(t, agentSections("http://"+addr+"/mcp"))
	h, m := codexHome(t, g, g.token(t))
	talk := newCodexTalk(t, h, m)
	talk.say(calculation)

	upstream.stop(t)
	g.upstreamDown(t)
	talk.say("call go__test_simple_text {}")
	told := m.last().result().text
	sheet.note("down", strings.Contains(told, "not available now"), "the model reads %s",
		g.read(briefly(told)))

	g.stop(t)
	talk.say(calculation)
	told = m.last().result().text
	late := newCodexTalk(t, h, m)
	eventually(t, "Codex says that the server did not start", func() bool { return late.startup() != "" })
	sheet.note("away", strings.Contains(told, "error sending request"),
		"the model reads %s; at the start of a conversation its user reads %s",
		g.read(briefly(told)), g.read(briefly(late.startup())))

	g.launch(t)
	talk.say(calculation)
	sheet.note("back", m.last().result().text == calculated, "the next call is answered")
}

// inner are the names of Codex's own parts in what it says of a connection, and where in
// itself it met an error.
var inner = regexp.MustCompile(
	`(?s) \[codex_rmcp_client[^\]]*\]|\n\nStack backtrace:.*|, when send initialize request: .*`)

// wrapped are the layers of Codex's client that an error of the network has passed.
var wrapped = regexp.MustCompile(
	`(?s)(?:Caused by:|handshaking with MCP server failed:)\s+(?:Send message error\s+)?` +
		`Transport (?:send )?error: .*http/request failed:`)

// briefly returns what Codex says without its own parts, and with the layers cut short.
func briefly(text string) string {
	return wrapped.ReplaceAllString(inner.ReplaceAllString(text, ""), "…")
}
