package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// claudeSignsIn signs in with the commands of Claude Code, and goes on in a session.
func claudeSignsIn(t *testing.T, w *signInWorld, at signInAddress) caller {
	h, m := claudeHome(t)
	h.withBrowser(t, w.surf, at.tenant)
	const name = "drawbridge"
	if out, errs, exit := h.run(t, "claude", "mcp", "add", "--transport", "http", name, at.url); exit != 0 {
		t.Fatalf("claude mcp add ended with %d: %s%s", exit, out, errs)
	}
	if out := h.inTerminal(t, "claude mcp login "+name, "", ""); !strings.Contains(out, "Authenticated with") {
		t.Fatalf("claude mcp login: %s", out)
	}
	s := newClaudeSession(t, h)
	return func(t *testing.T, tool string) string {
		s.say(t, callOf(tool))
		return m.last().result().text
	}
}

// withBrowser lets the programs of a home open addresses in the person's browser.
func (h *agentHome) withBrowser(t testing.TB, s *chromiumBrowser, tenant string) {
	t.Helper()
	opener := s.opener(t, tenant)
	h.env = append(h.env, "PATH="+opener+":"+strings.TrimPrefix(h.env[0], "PATH="),
		"BROWSER="+filepath.Join(opener, "xdg-open"), "DISPLAY=:9",
		// Without the desktop's own list of browsers.
		"XDG_DATA_DIRS="+opener)
	h.env = slices.DeleteFunc(h.env, func(one string) bool { return one == "CI=true" }) // no browser is opened there
}

// codexSignsIn signs in with the commands of Codex, and goes on in a conversation.
func codexSignsIn(t *testing.T, w *signInWorld, at signInAddress) caller {
	m := newModel(t, openai{})
	h := newAgentHome(t, nodeAgent(t, filepath.Join("@openai", "codex-"+platform())))
	h.withBrowser(t, w.surf, at.tenant)
	h.write(t, ".codex/config.toml", "mcp_oauth_credentials_store = \"file\"\n\n[mcp_servers.drawbridge]\nurl = \""+at.url+"\"\n")
	out, errs, exit := h.run(t, "codex", append([]string{"mcp", "login", "drawbridge"}, codexOptions(m)...)...)
	if exit != 0 {
		t.Fatalf("codex mcp login ended with %d: %s%s", exit, out, errs)
	}
	talk := newCodexTalk(t, h, m)
	return func(_ *testing.T, tool string) string {
		talk.say(callOf(tool))
		return m.last().result().text
	}
}

// geminiSignsIn signs in with the command of Gemini CLI, and goes on in a conversation.
func geminiSignsIn(t *testing.T, w *signInWorld, at signInAddress) caller {
	m := newModel(t, google{})
	h := newAgentHome(t, nodeAgent(t, filepath.Join("@google", "gemini-cli")),
		"GEMINI_API_KEY=scripted", "GOOGLE_GEMINI_BASE_URL="+m.url,
		"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_FORCE_FILE_STORAGE=true")
	h.withBrowser(t, w.surf, at.tenant)
	settings := map[string]any{
		"security":   map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"privacy":    map[string]any{"usageStatisticsEnabled": false},
		"general":    map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"mcpServers": map[string]any{"drawbridge": map[string]any{"httpUrl": at.url}},
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, ".gemini/settings.json", string(text))
	out := h.inTerminal(t, `gemini -m gemini-2.5-flash -p "/mcp auth drawbridge"`, "[Y/n]", "Y\r")
	if !strings.Contains(out, "Successfully authenticated") {
		t.Fatalf("/mcp auth of gemini: %s", out)
	}
	talk := newGeminiTalk(t, h)
	return func(_ *testing.T, tool string) string {
		talk.say(callOf(tool))
		return m.last().result().text
	}
}

// callOf has the model of an agent call a tool.
func callOf(tool string) string {
	if argumentsOf(tool)["expression"] != nil {
		return fmt.Sprintf(`call %s {"expression":"6*7"}`, tool)
	}
	return fmt.Sprintf(`call %s {"timezone":"UTC"}`, tool)
}

// inTerminal runs a command that wants a terminal, and what its user types when it asks.
func (h *agentHome) inTerminal(t testing.TB, command, question, typed string) (printed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	cmd := h.command(ctx, "script", "--quiet", "--return", "--command", command, "/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if question != "" {
		eventually(t, question, func() bool { return strings.Contains(out.String(), question) })
		_, _ = io.WriteString(in, typed) // what it prints says whether it was read
	}
	<-ended // its status differs from program to program
	_ = in.Close()
	return out.String()
}
