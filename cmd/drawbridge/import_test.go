package main

import (
	"strings"
	"testing"
)

func TestClientFilesAreRead(t *testing.T) {
	tests := []struct {
		name, text string
		want       serverConfig
	}{
		{"command", `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"]}}}`, serverConfig{name: "files", command: "npx"}},
		{"vs code", `{"inputs": [], "servers": {"web": {"type": "http", "url": "https://example.com/mcp"}}}`, serverConfig{name: "web", url: "https://example.com/mcp"}},
		{"httpUrl", `{"mcpServers": {"web": {"httpUrl": "https://example.com/mcp"}}}`, serverConfig{name: "web", url: "https://example.com/mcp"}},
		{"serverUrl", `{"mcpServers": {"web": {"serverUrl": "https://example.com/${env:LEVEL}"}}}`, serverConfig{name: "web", url: "https://example.com/debug"}},
		{"sse", `{"mcpServers": {"old": {"type": "sse", "url": "https://example.com/sse"}}}`, serverConfig{name: "old", url: "https://example.com/sse", transport: "sse"}},
		{"sse, spelled otherwise", `{"mcpServers": {"old": {"transport": "sse", "url": "https://example.com/sse"}}}`, serverConfig{name: "old", url: "https://example.com/sse", transport: "sse"}},
		{"type without effect", `{"mcpServers": {"files": {"type": "sse", "command": "x"}}}`, serverConfig{name: "files", command: "x"}},
		{"name made valid", `{"mcpServers": {"My Long Server_Name!": {"command": "x"}}}`, serverConfig{name: "my-long-server-n", command: "x"}},
		{"name without a letter", `{"mcpServers": {"日本": {"command": "x"}}}`, serverConfig{name: "server", command: "x"}},
		{"name taken", `{"mcpServers": {"Toolbox": {"command": "x"}}}`, serverConfig{name: "toolbox-2", command: "x"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			servers, skipped, err := importServers([]byte(test.text), []string{"toolbox"}, testEnvironment)
			if err != nil || len(servers) != 1 || len(skipped) != 0 {
				t.Fatalf("got %d servers, skipped %v, error %v", len(servers), skipped, err)
			}
			got := servers[0]
			if got.name != test.want.name || got.prefix != test.want.name || got.command != test.want.command || got.url != test.want.url || got.transport != test.want.transport || !got.private {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestServersThatCannotRunAreSkippedWithTheReason(t *testing.T) {
	tests := []struct{ name, entry, want string }{
		{"disabled", `{"command": "x", "disabled": true}`, "disabled"},
		{"unset variable", `{"command": "x", "env": {"A": "${UNSET}"}}`, "UNSET is not set"},
		{"asks its user", `{"command": "x", "env": {"A": "${input:key}"}}`, "VS Code"},
		{"neither", `{"note": "x"}`, "neither"},
		{"both", `{"command": "x", "url": "https://example.com"}`, "both"},
		{"no object", `"x"`, "neither"},
		{"bad scheme", `{"url": "file:///etc/passwd"}`, "http or https"},
		{"gateway's header", `{"url": "https://example.com", "headers": {"Host": "x"}}`, "sets Host itself"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			servers, skipped, err := importServers([]byte(`{"mcpServers": {"a": `+test.entry+`}}`), nil, testEnvironment)
			if err != nil || len(servers) != 0 || len(skipped) != 1 || !strings.Contains(skipped[0].reason, test.want) {
				t.Errorf("got %v, skipped %v, error %v, want skipped: %s", servers, skipped, err, test.want)
			}
		})
	}
}

func TestFilesThatAreNoServersAreRefused(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"mcpServers": []}`, `{"mcpServers": {"a": {}, "a": {}}}`, "{"} {
		if _, _, err := importServers([]byte(text), nil, testEnvironment); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
}
