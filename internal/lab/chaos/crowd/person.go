package crowd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// person is one client: a user of a tenant with one program. Its methods are for one
// goroutine, except requests and what enters in the ledger.
type person struct {
	crowd        *Crowd
	ledger       *ledger.Ledger
	kind, tenant string
	token        string
	number       int           // among those of its kind and tenant
	pause        time.Duration // between two operations, on average
	dice         *rand.Rand
	ids          int // of requests so far
	rounds       int // operations so far

	later atomic.Int64 // nanoseconds that it was told to wait before its next operation
}

func newPerson(c *Crowd, of Load, kind, tenant string, number int) *person {
	return &person{
		crowd: c, ledger: c.config.Ledger, kind: kind, tenant: tenant, number: number,
		token: c.config.Token(tenant, fmt.Sprintf("user-%d", number)),
		pause: cmp.Or(of.Pause, 20*time.Millisecond),
		dice:  rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), //nolint:gosec // it chooses what to do next
	}
}

// eachRound does something again and again until the crowd stops. It pauses between,
// longer after a round in which the client was told to come later.
func (p *person) eachRound(round func()) {
	for ; !p.crowd.stopping(); p.rounds++ {
		round()
		average := int64(p.pause)
		p.rest(p.crowd.asking, time.Duration(average/2+p.dice.Int64N(average+1)))
	}
}

// rest waits for a while, or as long as the client was told.
func (p *person) rest(ctx context.Context, least time.Duration) {
	world.Pause(ctx, max(least, time.Duration(p.later.Swap(0))))
}

// comeLater has the client wait so long before its next operation.
func (p *person) comeLater(d time.Duration) { longest(&p.later, d) }

// soon is how long a client waits before it tries again what it could not.
const soon = 100 * time.Millisecond

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
func (p *person) server() string { return []string{Modern, Legacy}[(p.rounds+p.number)%2] }

// deed is a call that the client is about to make.
type deed struct {
	by        *person
	nonce     ledger.Nonce
	tool      string // as it is exposed
	arguments string
	progress  bool // it is to tell of its progress
	version   int  // that a change made, from its answer on; -1: none

	// of the last request of 2026-07-28, which is repeated byte for byte
	body   []byte
	header map[string]string
	// what the last request was answered with, if that was no result: a refusal, or what
	// the client is asked
	said     word
	question mcp.Object
}

// intend enters a call in the ledger. arguments are further ones, such as `,"ms":5`.
func (p *person) intend(server, tool, arguments string, q ledger.Question) *deed {
	q.Tenant, q.Kind = p.tenant, p.kind+" "+tool
	n := p.ledger.Ask(q)
	d := &deed{
		by: p, nonce: n, tool: server + "__" + tool, progress: tool == "progress", version: -1,
		arguments: fmt.Sprintf(`{"nonce":"%s","tenant":"%s"%s}`, n, p.tenant, arguments),
	}
	p.crowd.calls.Add(1)
	return d
}

// draw intends a call of one of some tools. Slower is slow at such length that its answer
// comes as a stream, and keyed is slow under an Idempotency-Key.
func (p *person) draw(tools ...string) *deed {
	tool, q, arguments := tools[p.dice.IntN(len(tools))], ledger.Question{}, ""
	switch tool {
	case "slow":
		arguments = fmt.Sprintf(`,"ms":%d`, p.dice.IntN(300))
	case "slower":
		tool, arguments = "slow", fmt.Sprintf(`,"ms":%d`, 800+p.dice.IntN(800))
	case "keyed":
		tool, arguments, q.Keyed = "slow", fmt.Sprintf(`,"ms":%d`, p.dice.IntN(300)), true
	case "big":
		arguments = fmt.Sprintf(`,"size":%d`, 1000+p.dice.IntN(60_000))
	case "progress":
		q.Events = 2 + p.dice.IntN(10)
		arguments = fmt.Sprintf(`,"n":%d,"ms":%d`, q.Events, 5+p.dice.IntN(40))
	case "ask":
		q.Events = 1
	}
	return p.intend(p.server(), tool, arguments, q)
}

// server is the one that the call is for.
func (d *deed) server() string {
	server, _, _ := strings.Cut(d.tool, "__")
	return server
}

// stays tells whether the call takes so long that its client cancels it.
func (d *deed) stays() bool { return strings.HasSuffix(d.tool, "__stay") }

// older returns the call as clients of the older era make it.
func (d *deed) older(id mcp.ID) []byte {
	meta := ""
	if d.progress {
		meta = `,"_meta":{"progressToken":"` + d.nonce.String() + `"}`
	}
	return fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, d.tool,
		d.arguments, meta)
}

// send sends a POST with a message.
func (p *person) send(ctx context.Context, path string, body []byte, header map[string]string,
) (*reply, error) {
	return p.request(ctx, http.MethodPost, path, body, header)
}

// request makes a request. Without a body it is for a stream, or for no answer but a
// status. The HTTP client never sends a body again by itself, since it cannot be read
// twice.
func (p *person) request(ctx context.Context, method, path string, body []byte, header map[string]string,
) (*reply, error) {
	r := must.Have(http.NewRequestWithContext(ctx, method, p.crowd.config.URL+path, http.NoBody))
	r.Header.Set("Accept", "text/event-stream")
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.crowd.http.Do(r)
	p.crowd.requests.Add(1)
	if err != nil {
		p.crowd.failed(r, err)
		return nil, err
	}
	return &reply{
		status: response.StatusCode, header: response.Header,
		body: p.crowd.watch(r.Context(), response),
	}, nil
}

// reply is the answer to an HTTP request. Whoever gets one closes its body: heard and
// events do.
type reply struct {
	status  int
	header  http.Header
	body    io.ReadCloser
	session *session // in which it was asked; nil: in none
}

// streams tells whether it is an event stream.
func (r *reply) streams() bool {
	media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	return media == "text/event-stream"
}

// opened returns an answer with status 200. Of any other it returns nil, and the client
// comes later.
func (p *person) opened(r *reply, err error) *reply {
	if err == nil && r.status == http.StatusOK {
		return r
	}
	if err == nil {
		p.heard(r)
	}
	p.comeLater(soon)
	return nil
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
			one := event{}
			if err == nil {
				one.message, err = mcp.Decode(body)
			}
			yield(one, err)
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
func (d *deed) broke(ctx context.Context, err error) {
	switch p := d.by; {
	case p.crowd.life.Err() != nil:
	case ctx.Err() != nil:
		p.ledger.Silent(d.nonce, "no end in "+p.crowd.config.Patience.String())
	case err == nil:
		p.ledger.Broken(d.nonce, "stream ended without the answer")
	default:
		p.ledger.Broken(d.nonce, fault(err))
	}
}

// cancelled makes a call that takes long, and cancels it after a moment.
func (d *deed) cancelled(ctx context.Context, call func() (over bool, err error), cancel func()) {
	told := make(chan struct{})
	timer := time.AfterFunc(soon+time.Duration(d.by.dice.IntN(200))*time.Millisecond, func() {
		defer close(told)
		d.by.ledger.Cancelled(d.nonce)
		d.by.crowd.cancelled.Add(1)
		cancel()
	})
	over, err := call()
	early := timer.Stop() // before the client cancelled it
	if !early {
		<-told
	}
	if !over && (early || ctx.Err() != nil) { // or a cancelled call whose stream nobody ends
		d.broke(ctx, err)
	}
}
