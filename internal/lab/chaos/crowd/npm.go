package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// npmScript has the clients of both SDKs of npm, below the root of the repository: node
// finds packages beside the program.
const npmScript = "internal/interop/clients/crowd.mjs"

// FindNPM returns an error that says how to get what the clients of npm need, unless all
// of it is here.
func FindNPM() error {
	return must.Try(func() {
		_, err := os.Stat(filepath.Join(must.Have(sources.Root()), filepath.Dir(npmScript),
			"../node_modules/@modelcontextprotocol/client"))
		_, missing := exec.LookPath("node")
		must.Be(err == nil && missing == nil,
			"node or the npm packages of internal/interop are missing: make setup fetches them")
	})
}

// npmAsk is what the process is asked, and npmAnswer what it says.
type (
	npmAsk struct {
		Client    string          `json:"client"`
		Kind      string          `json:"kind,omitempty"`
		Token     string          `json:"token,omitempty"`
		Tool      string          `json:"tool,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	npmAnswer struct {
		Result json.RawMessage   `json:"result"`
		Error  string            `json:"error"`  // "": there is none
		Status int               `json:"status"` // of the answer over HTTP; 0: none came
		Header map[string]string `json:"header"`
		Body   string            `json:"body"` // of that answer
	}
)

// startNode starts the one process that has all clients of npm of a crowd. It ends with
// ctx.
func startNode(ctx context.Context, url string) *rpc.Client {
	script := filepath.Join(must.Have(sources.Root()), npmScript)
	command := exec.CommandContext(ctx, "node", script, url+"/mcp") //nolint:gosec // G204: our own
	command.Stderr = os.Stderr
	input, output := must.Have(command.StdinPipe()), must.Have(command.StdoutPipe())
	must.OK(command.Start())
	go func() { _ = command.Wait() }() // what it says after its end is of no use
	return jsonrpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{output, input})
}

// npm is a client of an SDK of npm.
type npm struct {
	node *rpc.Client
	name string
}

// ask has the client open, call or close, and waits until it has, or ctx ends.
func (l *npm) ask(ctx context.Context, do string, what npmAsk) (*npmAnswer, error) {
	what.Client = l.name
	answer := &npmAnswer{}
	asked := l.node.Go(do, what, answer, make(chan *rpc.Call, 1))
	select {
	case <-asked.Done:
		if asked.Error == nil && answer.Error != "" {
			asked.Error = errors.New(answer.Error)
		}
		return answer, asked.Error
	case <-ctx.Done():
		return &npmAnswer{}, ctx.Err()
	}
}

func openNPM(ctx context.Context, p *person) library {
	l := &npm{p.crowd.node(), fmt.Sprintf("%s %s %d", p.kind, p.tenant, p.number)}
	must.Have(l.ask(ctx, "open", npmAsk{Kind: p.kind, Token: p.token}))
	return l
}

func (l *npm) call(ctx context.Context, tool, arguments string) (mcp.Object, *reply, error) {
	a, err := l.ask(ctx, "call", npmAsk{Tool: tool, Arguments: json.RawMessage(arguments)})
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
	body := io.NopCloser(strings.NewReader(a.Body))
	return mcp.Object{}, &reply{status: a.Status, header: header, body: body}, err
}

func (l *npm) close() {
	_, _ = l.ask(context.Background(), "close", npmAsk{}) // its session may be gone already
}
