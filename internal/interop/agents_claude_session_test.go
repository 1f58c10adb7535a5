package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// claudeSession is a Claude Code that runs, with a test in the place of the program that
// drives it.
type claudeSession struct {
	in    io.WriteCloser
	lines *bufio.Scanner
	out   output // of its standard error

	asked  []string // questions of servers that the program was handed
	status string   // of the gateway, as said before the last turn
}

// newClaudeSession starts Claude Code until the test ends.
func newClaudeSession(t testing.TB, h *agentHome) *claudeSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patient)
	cmd := h.command(ctx, "claude", "-p", "--verbose", "--input-format", "stream-json", "--output-format",
		"stream-json",
		"--allowedTools", "mcp__drawbridge")
	s := &claudeSession{}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.lines, cmd.Stderr = in, bufio.NewScanner(out), &s.out
	s.lines.Buffer(nil, 16<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.in.Close() // it may have ended by itself
		for s.lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("Claude Code ended with %v: %s", err, tail(s.out.String(), 2000))
		}
		cancel()
	})
	// A program that says this is handed the questions of servers.
	s.send(t, map[string]any{
		"type": "control_request", "request_id": "1",
		"request": map[string]any{"subtype": "initialize"},
	})
	return s
}

func (s *claudeSession) send(t testing.TB, message any) {
	t.Helper()
	line, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.in, "%s\n", line); err != nil {
		t.Fatalf("Claude Code does not read: %v\n%s", err, s.out.String())
	}
}

// say says something as its user and returns what Claude Code answers. A server that asks
// is told the name ann.
func (s *claudeSession) say(t testing.TB, words string) string {
	t.Helper()
	s.send(t, map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": words}})
	for s.lines.Scan() {
		var line struct {
			Type, Subtype, Result string
			RequestID             string `json:"request_id"`
			Request               struct{ Subtype, Message string }
			Servers               []struct{ Name, Status string } `json:"mcp_servers"`
		}
		if err := json.Unmarshal(s.lines.Bytes(), &line); err != nil {
			t.Fatalf("Claude Code printed %q: %v", s.lines.Text(), err)
		}
		for _, server := range line.Servers {
			s.status = server.Status
		}
		switch line.Type {
		case "result":
			return line.Result
		case "control_request":
			s.asked = append(s.asked, line.Request.Subtype+": "+line.Request.Message)
			s.send(t, map[string]any{"type": "control_response", "response": map[string]any{
				"subtype": "success", "request_id": line.RequestID,
				"response": map[string]any{"action": "accept", "content": map[string]any{"username": "ann"}},
			}})
		}
	}
	t.Fatalf("Claude Code ended within a turn: %v\n%s", s.lines.Err(), tail(s.out.String(), 2000))
	return ""
}
