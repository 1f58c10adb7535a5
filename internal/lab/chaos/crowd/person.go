package crowd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// person is one client: a user of a tenant with one program. Its methods are for one
// goroutine, except send, get and what enters in the ledger.
type person struct {
	crowd        *Crowd
	ledger       *ledger.Ledger
	kind, tenant string
	token        string
	number       int // among those of its kind and tenant
	dice         *rand.Rand
	ids          int // of requests so far
	rounds       int // operations so far
}

func newPerson(c *Crowd, kind, tenant, user string, number int) *person {
	return &person{
		crowd: c, ledger: c.config.Ledger, kind: kind, tenant: tenant, number: number,
		token: c.config.Token(tenant, user),
		dice:  rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), //nolint:gosec // it chooses what to do next
	}
}

// eachRound does something again and again until the crowd stops. It pauses between,
// longer after a round that says so.
func (p *person) eachRound(round func() (later time.Duration)) {
	for ; !p.crowd.stopping(); p.rounds++ {
		later := round()
		average := int64(p.crowd.config.Pause)
		wait := max(later, time.Duration(average/2+p.dice.Int64N(average+1)))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.crowd.stop:
		case <-p.crowd.life.Done():
		}
		timer.Stop()
	}
}

// errSilence is why a request ended that its client waited for in vain.
var errSilence = errors.New("no answer within the patience of the client")

// silent tells whether a request ended since the patience of its client was over, and not
// since its client wanted no more.
func silent(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilence) }

// patient returns a context that ends when the client's patience does.
func (p *person) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(p.crowd.life, p.crowd.config.Patience, errSilence)
}

// lasting returns a context for a stream, which may last as long as the crowd once it has
// begun. Until begun is called, it ends with the client's patience.
func (p *person) lasting() (ctx context.Context, begun func(), cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(p.crowd.life)
	timer := time.AfterFunc(p.crowd.config.Patience, func() { end(errSilence) })
	return ctx, func() { timer.Stop() }, func() {
		timer.Stop()
		end(nil)
	}
}

// nextID returns an id that the client never used.
func (p *person) nextID() mcp.ID {
	p.ids++
	return mcp.NumberID(int64(p.ids))
}

// server returns one of the two servers, in turn.
func (p *person) server() string {
	if (p.rounds+p.number)%2 == 0 {
		return Modern
	}
	return Legacy
}

// deed is a call that the client is about to make.
type deed struct {
	nonce     ledger.Nonce
	tool      string // as it is exposed
	arguments string
	progress  bool // it is to tell of its progress
	version   int  // that a change made, from its answer on; -1: none
}

// intend enters a call in the ledger. arguments are further ones, such as `,"ms":5`.
func (p *person) intend(server, tool, arguments string, q ledger.Question) *deed {
	q.Tenant, q.Kind = p.tenant, p.kind+" "+tool
	n := p.ledger.Ask(q)
	d := &deed{
		nonce: n, tool: server + "__" + tool, progress: tool == "progress", version: -1,
		arguments: fmt.Sprintf(`{"nonce":"%s","tenant":"%s"%s}`, n, p.tenant, arguments),
	}
	p.crowd.deeds.calls.Add(1)
	return d
}

// progressing intends a call that tells of its progress.
func (p *person) progressing() *deed {
	n := 2 + p.dice.IntN(10)
	return p.intend(p.server(), "progress", fmt.Sprintf(`,"n":%d,"ms":%d`, n, 5+p.dice.IntN(40)),
		ledger.Question{Events: n})
}

// body returns the call as clients of the older era make it.
func (d *deed) body(id mcp.ID) []byte {
	meta := ""
	if d.progress {
		meta = `,"_meta":{"progressToken":"` + d.nonce.String() + `"}`
	}
	return fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, d.tool,
		d.arguments, meta)
}

// send sends a POST with a message. The HTTP client never sends it again by itself, since
// the body cannot be read twice.
func (p *person) send(ctx context.Context, path string, body []byte,
	header map[string]string,
) (*reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.crowd.config.URL+path,
		io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, err
	}
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return p.do(r, header)
}

// get opens an event stream, or does whatever other method there is without a body.
func (p *person) get(ctx context.Context, method, path string, header map[string]string) (*reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.crowd.config.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	return p.do(r, header)
}

// reply is the answer to an HTTP request. Whoever gets one closes its body: heard and
// events do.
type reply struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// streams tells whether it is an event stream.
func (r *reply) streams() bool {
	media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	return media == "text/event-stream"
}

func (p *person) do(r *http.Request, header map[string]string) (*reply, error) {
	for name, value := range header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.crowd.http.Do(r)
	p.crowd.tally.requests.Add(1)
	if err != nil {
		p.crowd.tally.failed(r, err)
		return nil, err
	}
	return &reply{response.StatusCode, response.Header, p.crowd.tally.watch(r.Context(), response)}, nil
}

// maxEvent bounds an event and a JSON answer, in bytes.
const maxEvent = 4 << 20

// event is one event of a stream, or a plain answer as if it were one.
type event struct {
	sse.Event

	message *mcp.Message // nil: it has none, as the first event of a stream
}

// events yields the events of an answer with status 200 until it ends. Why it ended is
// yielded last, nil if it ended well. It closes the answer.
func events(r *reply) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		defer func() { _ = r.body.Close() }() // it is of no more use
		if !r.streams() {
			body, err := io.ReadAll(io.LimitReader(r.body, maxEvent))
			if err == nil {
				var m *mcp.Message
				if m, err = mcp.Decode(body); err == nil {
					yield(event{message: m}, nil)
					return
				}
			}
			yield(event{}, err)
			return
		}
		for e, err := range sse.Read(r.body, maxEvent) {
			one := event{Event: e}
			if err == nil && len(e.Data) > 0 && e.Type != "endpoint" {
				one.message, err = mcp.Decode(bytes.Clone(e.Data))
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// fault names in few words why a connection broke.
func fault(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return "connection: " + network.Op
	}
	if told, ok := errors.AsType[*mcp.Error](err); ok {
		return "answer is no JSON-RPC: " + told.Message
	}
	return "connection broken"
}

// broke enters that the connection of a call broke, or that it was silent until the end
// of ctx, which is that of the client's patience. When the crowd ended abruptly, the call
// stays open.
func (p *person) broke(ctx context.Context, n ledger.Nonce, err error) {
	switch {
	case p.crowd.life.Err() != nil:
	case ctx.Err() != nil:
		p.ledger.Silent(n, "no end in "+p.crowd.config.Patience.String())
	case err == nil:
		p.ledger.Broken(n, "stream ended without the answer")
	default:
		p.ledger.Broken(n, fault(err))
	}
}
