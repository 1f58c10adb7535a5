package crowd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// npmScript has the clients of both SDKs of npm, below the root of the repository: node
// finds packages beside the program.
const npmScript = "internal/interop/clients/crowd.mjs"

// FindNPM returns an error that says how to get what the clients of npm need, unless all of
// it is here.
func FindNPM() error {
	root, err := world.Root()
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(root, filepath.Dir(npmScript), "../node_modules/@modelcontextprotocol/client"))
	if _, missing := exec.LookPath("node"); err != nil || missing != nil {
		return errors.New("node or the npm packages of internal/interop are missing: make setup fetches them")
	}
	return nil
}

// node is one process that has all clients of npm of a crowd. It is safe for concurrent
// use.
type node struct {
	input io.WriteCloser

	mu    sync.Mutex // guards the fields below, and what is written to input
	last  int
	wait  map[int]chan npmAnswer
	ended error // why there are no more answers; nil: there are
}

// npmAsk is a line for the process, and npmAnswer one of it.
type (
	npmAsk struct {
		ID        int             `json:"id"`
		Do        string          `json:"do"` // open, call or close
		Client    string          `json:"client"`
		Kind      string          `json:"kind,omitempty"`
		Token     string          `json:"token,omitempty"`
		Tool      string          `json:"tool,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	npmAnswer struct {
		ID     int               `json:"id"`
		Result json.RawMessage   `json:"result"`
		Error  string            `json:"error"`  // "": there is none
		Status int               `json:"status"` // of the answer over HTTP; 0: none came
		Header map[string]string `json:"header"`
		Body   string            `json:"body"` // of that answer
	}
)

// startNode starts the process. It ends with ctx.
func startNode(ctx context.Context, url string) (*node, error) {
	root, err := world.Root()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "node", filepath.Join(root, npmScript), url+"/mcp") //nolint:gosec // G204: our own
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("clients of npm: %w", err)
	}
	n := &node{input: input, wait: map[int]chan npmAnswer{}}
	go n.read(command, output) // it ends with the process
	return n, nil
}

// read hands on what the process says, until it ends.
func (n *node) read(command *exec.Cmd, output io.Reader) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var a npmAnswer
		if json.Unmarshal(line, &a) == nil { //nolint:forbidigo // of our own script
			n.mu.Lock()
			if answer := n.wait[a.ID]; answer != nil {
				answer <- a // it has room
				delete(n.wait, a.ID)
			}
			n.mu.Unlock()
		}
	}
	err := command.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = errors.Join(errors.New("the clients of npm have ended"), err)
	for id, answer := range n.wait {
		answer <- npmAnswer{Error: n.ended.Error()}
		delete(n.wait, id)
	}
}

// ask has the process do something, and waits until it has, or ctx ends.
func (n *node) ask(ctx context.Context, ask npmAsk) (npmAnswer, error) {
	answer := make(chan npmAnswer, 1)
	n.mu.Lock()
	n.last++
	ask.ID = n.last
	line, err := json.Marshal(ask)
	if err == nil {
		err = n.ended
	}
	if err == nil {
		n.wait[ask.ID] = answer
		_, err = n.input.Write(append(line, '\n'))
	}
	n.mu.Unlock()
	if err != nil {
		return npmAnswer{}, err
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		n.mu.Lock()
		delete(n.wait, ask.ID)
		n.mu.Unlock()
		return npmAnswer{}, ctx.Err()
	}
}

// npm is a client of an SDK of npm.
type npm struct {
	node *node
	name string
}

func openNPM(ctx context.Context, p *person) (library, error) {
	c := p.crowd
	c.nodeOnce.Do(func() { c.node, c.nodeErr = startNode(c.life, c.config.URL) })
	if c.nodeErr != nil {
		return nil, c.nodeErr
	}
	l := &npm{c.node, fmt.Sprintf("%s %s %d", p.kind, p.tenant, p.number)}
	_, err := l.node.ask(ctx, npmAsk{Do: "open", Client: l.name, Kind: p.kind, Token: p.token})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *npm) call(ctx context.Context, tool, arguments string) (mcp.Object, *reply, error) {
	a, err := l.node.ask(ctx, npmAsk{
		Do: "call", Client: l.name, Tool: tool, Arguments: json.RawMessage(arguments),
	})
	if err == nil {
		result, wrong := resultOf(a.Result)
		return result, nil, wrong
	}
	if a.Status == 0 {
		return mcp.Object{}, nil, err
	}
	header := http.Header{}
	for name, value := range a.Header {
		header.Set(name, value)
	}
	return mcp.Object{}, &reply{a.Status, header, io.NopCloser(bytes.NewBufferString(a.Body))}, err
}

func (l *npm) close() {
	_, _ = l.node.ask(context.Background(), npmAsk{Do: "close", Client: l.name}) // its session may be gone already
}
