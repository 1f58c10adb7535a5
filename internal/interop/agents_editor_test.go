package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// editor stands in for the program in which a person talks with an agent, and for the
// person. It starts the agent and exchanges JSON-RPC messages with it, one a line, over
// the agent's standard input and output: what the user says, what the agent answers, and
// what it asks its user, which is answered at once.
type editor struct {
	t      testing.TB
	agent  io.Writer                                       // its standard input
	answer func(method string, params json.RawMessage) any // what the user answers when the agent asks

	mu      sync.Mutex // guards the fields below
	rest    []byte     // of the agent's output, after the last whole line
	lines   []string   // whole ones
	asked   []string   // what the agent asked, as lines
	replies map[string]chan json.RawMessage
}

// openEditor starts an agent in an editor until the test ends.
func openEditor(t testing.TB, h *agentHome, answer func(method string, params json.RawMessage) any,
	name string, arguments ...string,
) *editor {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.command(ctx, name, arguments...)
	e := &editor{t: t, answer: answer, replies: make(map[string]chan json.RawMessage)}
	complaints := &output{}
	cmd.Stdout, cmd.Stderr = e, complaints
	var err error
	if e.agent, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s said\n%s\nand complained\n%s", name, tail(e.heard(), 6000),
				tail(complaints.String(), 3000))
		}
	})
	return e
}

// Write takes the agent's output.
func (e *editor) Write(p []byte) (int, error) {
	e.mu.Lock()
	e.rest = append(e.rest, p...)
	var fresh []string
	for {
		line, rest, found := bytes.Cut(e.rest, []byte("\n"))
		if !found {
			break
		}
		fresh = append(fresh, string(line))
		e.rest = rest
	}
	e.lines = append(e.lines, fresh...)
	e.mu.Unlock()
	for _, line := range fresh {
		e.receive(line)
	}
	return len(p), nil
}

func (e *editor) receive(line string) {
	var message struct {
		ID             json.RawMessage
		Method         string
		Params, Result json.RawMessage
		Error          json.RawMessage
	}
	if json.Unmarshal([]byte(line), &message) != nil || message.ID == nil {
		return // a note, or no message at all
	}
	if message.Method != "" {
		e.mu.Lock()
		e.asked = append(e.asked, line)
		e.mu.Unlock()
		e.send(map[string]any{"id": message.ID, "result": e.answer(message.Method, message.Params)})
		return
	}
	e.mu.Lock()
	reply := e.replies[string(message.ID)]
	e.mu.Unlock()
	if message.Error != nil {
		e.t.Errorf("the agent answered %s", line)
	}
	if reply != nil {
		reply <- message.Result
	}
}

func (e *editor) send(message map[string]any) {
	message["jsonrpc"] = "2.0"
	line, err := json.Marshal(message)
	if err != nil {
		panic(err) // plain values always encode
	}
	_, _ = e.agent.Write(append(line, '\n')) // an agent that is gone shows where its answer is missed
}

// request asks the agent and returns its answer.
func (e *editor) request(method string, params any) json.RawMessage {
	e.t.Helper()
	e.mu.Lock()
	id := fmt.Sprint(1000 + len(e.replies)) // far from the agent's own
	reply := make(chan json.RawMessage, 1)
	e.replies[id] = reply
	e.mu.Unlock()
	e.send(map[string]any{"id": json.RawMessage(id), "method": method, "params": params})
	select {
	case result := <-reply:
		return result
	case <-time.After(patient):
		e.t.Fatalf("the agent did not answer %s within %v", method, patient)
		return nil
	}
}

// heard returns all that the agent said, as JSON.
func (e *editor) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "\n")
}

// questions returns what the agent asked its user, as JSON.
func (e *editor) questions() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.asked, "\n")
}
