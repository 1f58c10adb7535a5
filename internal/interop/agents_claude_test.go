package interop_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// claudeHome is a home for Claude Code with a scripted model.
func claudeHome(t testing.TB) (*agentHome, *model) {
	t.Helper()
	m := newModel(t, anthropic{})
	bin := agentPackage(t, filepath.Join("@anthropic-ai", "claude-code-"+platform()))
	return newAgentHome(t, bin,
		"ANTHROPIC_BASE_URL="+m.url, "ANTHROPIC_API_KEY=scripted", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1"), m
}

func TestClaudeCodeCalls(t *testing.T) {
	t.Parallel()
	h, m := claudeHome(t)
	g := serve(t, "tenants:\n  acme: {servers: [toolbox], rules: [{allow: [\"*\"]}]}\nservers:\n  toolbox: {builtin: [calculate]}\n")
	h.env = append(h.env, "TOKEN="+g.token(t))
	if _, errs, exit := h.run(t, "sh", "-c", snippet(t, "Claude Code", g)); exit != 0 {
		t.Fatalf("the README's command ended with %d: %s", exit, errs)
	}
	if out, _, _ := h.run(t, "claude", "mcp", "list"); !strings.Contains(out, g.url+" (HTTP) - ✔ Connected") {
		t.Errorf("claude mcp list = %s", out)
	}
	out, _, exit := h.run(t, "claude", "-p", "--allowedTools", "mcp__drawbridge", "--", `call toolbox__calculate {"expression":"6*7"}`)
	if exit != 0 || !strings.Contains(out, "42") {
		t.Errorf("claude -p ended with %d: %s", exit, out)
	}
	if !m.offers("toolbox__calculate") {
		t.Errorf("the model was offered %q", m.last().offered)
	}
	if answers := m.last().answers; len(answers) != 1 || answers[0].text != `{"result":"42","exact":true}` {
		t.Errorf("the model was told %+v", answers)
	}
	if unknown := slices.Compact(m.unknown); len(unknown) > 0 {
		t.Errorf("requests that the model does not know: %q", unknown)
	}
}
