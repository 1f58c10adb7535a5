package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Libraries are the kinds of clients that others wrote: the SDKs that programs use. They
// call tools that answer at once or soon, and open another session after each error, as
// such programs do. Those of npm need node and the packages of the interop tests.
var Libraries = []string{"go-sdk", "mcp-go", "npm 1", "npm 2"}

// library is a client of an SDK with its session. Its methods are for one goroutine.
type library interface {
	// call calls a tool. answer is what came over HTTP, nil if nothing came; it is what
	// an error is judged by, since some SDKs keep half of it.
	call(ctx context.Context, tool, arguments string) (result mcp.Object, answer *reply, err error)
	close()
}

// through makes calls through clients that open returns. It panics where there is none.
func (p *person) through(open func(ctx context.Context, p *person) library) {
	var l library
	p.eachRound(func() {
		ctx, cancel := p.patient()
		defer cancel()
		if l == nil {
			var err error
			if l, err = must.Got(func() library { return open(ctx, p) }); err != nil {
				p.crowd.meets(p.kind + ": no session")
				p.comeLater(soon)
				return
			}
			p.crowd.sessions.Add(1)
		}
		d := p.draw("touch", "touch", "touch", "touch", "slow", "slower")
		result, answer, err := l.call(ctx, d.tool, d.arguments)
		if err == nil {
			d.answered(result)
			return
		}
		l.close()
		l = nil
		p.crowd.reconnects.Add(1)
		over := false
		if answer != nil { // then it counts what that says
			over, _ = (&stream{deed: d}).read(answer, nil)
		}
		if !over {
			d.broke(ctx, err)
		}
	})
	if l != nil {
		l.close()
	}
}

// catcher is the HTTP client of a library. It keeps the answer to its latest call, which
// the library may still read in a goroutine of its own.
type catcher struct {
	token  string
	answer atomic.Pointer[caught] // nil: there is none yet
}

// caught is an answer that keeps what the library reads of it.
type caught struct {
	io.ReadCloser

	status int
	header http.Header

	mu   sync.Mutex // guards the field below
	read []byte
}

func (c *caught) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = append(c.read, b[:n]...)
	return n, err
}

// RoundTrip sends a request with the token, once.
func (c *catcher) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	call := false
	if r.Method == http.MethodPost && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		call = bytes.Contains(body, []byte(`"`+mcp.MethodToolsCall+`"`))
		// it cannot be read twice, so net/http does not send it again by itself
		r.Body, r.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	}
	response, err := http.DefaultTransport.RoundTrip(r) //nolint:forbidigo // the one that programs use
	if err != nil || !call {
		return response, err
	}
	answer := &caught{ReadCloser: response.Body, status: response.StatusCode, header: response.Header}
	c.answer.Store(answer)
	response.Body = answer
	return response, nil
}

// reply returns the answer to the latest call with what was read of it, or is still to
// come of a refusal, and forgets it.
func (c *catcher) reply() *reply {
	answer := c.answer.Swap(nil)
	if answer == nil {
		return nil
	}
	if answer.status != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer, maxEvent)) // what there is must do
	}
	answer.mu.Lock()
	defer answer.mu.Unlock()
	return &reply{status: answer.status, header: answer.header, body: io.NopCloser(bytes.NewReader(answer.read))}
}

// came returns what came of a call, by what the library made of it.
func (c *catcher) came(result any, err error) (o mcp.Object, answer *reply, wrong error) {
	if err == nil {
		o, err = resultOf(result)
	}
	return o, c.reply(), err
}

// resultOf reads what a library made of a result.
func resultOf(result any) (o mcp.Object, err error) {
	text, err := json.Marshal(result)
	o, ok := mcp.ObjectOf(text)
	if err == nil && !ok {
		err = errors.New("the result is no object")
	}
	return o, err
}
