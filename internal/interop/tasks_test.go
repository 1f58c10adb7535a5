package interop_test

import (
	"fmt"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTasksOfARealServer runs a tool that works as a task only, with the SDK's own client
// of tasks. Over HTTP the task asks its user something.
func TestTasksOfARealServer(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	g := serve(t, tenant(fmt.Sprintf("  every: %s\n  web: {url: %q, private_addresses: true}\n",
		stdio(t, "server-everything", "stdio"), everythingOverHTTP(t))))
	for server, asked := range map[string]bool{"web": true, "every": false} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, "clients/tasks.mjs", "http://"+g.addr+"/mcp",
				g.token(t), server+"__simulate-research-query")
			told := follow(t, cmd, func() {})
			related, answer := "nothing", "technical"
			if asked {
				related, answer = "the task", "(snake)"
			}
			if got := told["listed"].Text; got != "required" {
				t.Errorf("listed with task support %q, want required", got)
			}
			if got := told["result"]; got.IsError || !strings.Contains(got.Text, "Research Report: python") ||
				strings.Contains(got.Text, answer) != asked {
				t.Errorf("the result is %q", got.Text)
			}
			if got := told["statuses"].Names; len(got) == 0 {
				t.Error("no status was told")
			}
			for step, want := range map[string]string{
				"related": related, "after": "completed",
				"cancelled": "cancelled",
			} {
				if got := told[step].Text; got != want {
					t.Errorf("%s: %q, want %q", step, got, want)
				}
			}
		})
	}
}

// TestTasksOfANewerServer runs a tool of a server of 2026-07-28 with the same client,
// which knows tasks of 2025-11-25. The task asks its user something. A tool that its
// server answers at once is a task for the client, too.
func TestTasksOfANewerServer(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	upstream := httptest.NewServer(&tasker{tasks: make(map[string]*serverTask)})
	t.Cleanup(upstream.Close)
	g := serve(t, tenant("  new: "+private(upstream.URL)+"\n"))
	told := follow(t, exec.CommandContext(t.Context(), binary, "clients/tasks.mjs", "http://"+g.addr+"/mcp",
		g.token(t), "new__confirm_delete", "new__greet"), func() {})
	for step, want := range map[string]string{
		"listed": "optional", "result": "done", "related": "the task", "after": "completed", "cancelled": "cancelled",
	} {
		if got := told[step].Text; got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	if got := told["statuses"].Names; !slices.Contains(got, "input_required") {
		t.Errorf("statuses %q, want that it asks", got)
	}
	if got := told["quick"].Names; len(got) < 2 || got[0] != "taskCreated" || got[len(got)-1] != "Hello, Ann!" {
		t.Errorf("what is answered at once comes as %q", got)
	}
}

// TestTasksOfAnOlderServer runs the tool of the first test, which works as a task only,
// with the package of tasks of 2026-07-28, before one gateway and before a fleet. Over
// HTTP the task asks its user something.
func TestTasksOfAnOlderServer(t *testing.T) {
	t.Parallel()
	web := everythingOverHTTP(t)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			g := serveAt(t, form.settle(t), tenant(fmt.Sprintf(
				"  every: %s\n  web: {url: %q, private_addresses: true}\n", stdio(t, "server-everything", "stdio"), web)))
			research(t, g, "web", "elicitation by task-update")
			research(t, g, "every", "")
		})
	}
}

// research runs the tool of a server as a task that asks this, and one that is cancelled.
func research(t *testing.T, g *gateway, server, asks string) {
	t.Helper()
	binary, _ := node(t)
	tool := server + "__simulate-research-query"
	told := follow(t, exec.CommandContext(t.Context(), binary, "clients/tasks-v2.mjs",
		"http://"+g.addr+"/mcp", g.token(t), tool), func() {})
	if got := told["listed"].Names; !slices.Contains(got, tool) {
		t.Errorf("listed %q, want %s", got, tool)
	}
	if got := told["result"]; got.IsError || !strings.Contains(got.Text, "Research Report: python") ||
		strings.Contains(got.Text, "(snake)") != (asks != "") {
		t.Errorf("%s: the result is %q", server, got.Text)
	}
	if got := strings.Join(told["asked"].Names, ", "); got != asks {
		t.Errorf("%s asked %q, want %q", server, got, asks)
	}
	for step, want := range map[string]string{"kind": "task", "after": "completed", "cancelled": "cancelled"} {
		if got := told[step].Text; got != want {
			t.Errorf("%s: %s: %q, want %q", server, step, got, want)
		}
	}
}
