// Package forward has another replica answer a request of a client, and passes its answer
// on. It knows which replica a message names, and not which one leads a session.
package forward

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// docs/architecture.md draws what happens ("What is forwarded"). A request that was
// forwarded is not forwarded again: a replica that does not lead its session says so, and
// the first looks the session up. The first replica takes what every request costs, and
// puts on record only what never reached the second. Requests that were forwarded have
// slots of their own at both, or replicas that are full would wait for each other.

// Forwarder has other replicas answer requests. It is safe for concurrent use.
type Forwarder struct {
	exchanges *exchange.Service
	others    replica.Others
	alone     bool                          // there are never others
	slots     *share.Budget                 // of requests that other replicas answer
	changed   atomic.Pointer[chan struct{}] // closed when replicas have come or ended
}

// New returns a forwarder that has at most so many requests answered at once.
func New(exchanges *exchange.Service, others replica.Others, most int64) *Forwarder {
	_, alone := others.(*replica.Alone)
	f := &Forwarder{exchanges: exchanges, others: others, alone: alone, slots: share.New(most)}
	changed := make(chan struct{})
	f.changed.Store(&changed)
	return f
}

// NoteChange has whoever waits look again: replicas have come, ended, or begun to drain.
func (f *Forwarder) NoteChange() {
	next := make(chan struct{})
	close(*f.changed.Swap(&next))
}

// unsureTime is how long nothing that is missing counts as gone after others may have
// taken this replica for gone. It is longer than a replica that lives takes to show that
// again.
const unsureTime = 10 * time.Second

// IsUnsure tells whether a replica that seems to be gone may be there all the same.
func (f *Forwarder) IsUnsure() bool {
	since, _ := f.others.Leads()
	return time.Since(since) < unsureTime
}

// Ask has another replica do what a request says, and returns the status of its answer.
// One that is not reached is most likely back soon, or about to be known as gone, and is
// waited for. What is asked is done at once there, so one that lives and does not answer
// is waited for no longer. It is 0 if that replica was not reached, or has not answered.
func (f *Forwarder) Ask(ctx context.Context, to replica.ID, r link.Request) (status int) {
	until := time.Now().Add(HoldTime)
	limited, stop := context.WithDeadline(ctx, until)
	defer stop()
	for f.others.IsThere(to) || f.IsUnsure() {
		answer, err := f.others.Forward(limited, to, r)
		if err == nil {
			_ = answer.Body.Close() // it says no more than the status
			return answer.StatusCode
		}
		if !f.AwaitChange(ctx, until) {
			break
		}
	}
	return 0
}

// Elsewhere returns the other replica that a message names, "" if it names none or this
// one. What was forwarded is for this one.
func (f *Forwarder) Elsewhere(x *exchange.Exchange, m *mcp.Message) (to replica.ID) {
	switch {
	case x.Forwarded || f.alone:
		return ""
	case m.IsResponse():
		id, _ := mcp.RawJSON(m.ID).Text()
		to, _ = HomeOf(id)
	case m.IsRequest():
		to = f.exchanges.Desk.Home(x.Caller, m.Method, m.Params, declared(x, m))
	}
	if to == f.others.Self() {
		return ""
	}
	return to
}

// declared returns the extensions that the client of a request declares which may be the
// repeat of a call: what it calls may be there for such clients alone.
func declared(x *exchange.Exchange, m *mcp.Message) mcp.Extensions {
	if !m.Params.Has("requestState") {
		return mcp.Extensions{}
	}
	return x.Declares(x.Context(), x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions"))
}

// Deliver has the replica answer a message that the message names. One that is not
// reached is most likely back soon, or about to be known as gone, and is waited for:
// clients do not send again what was refused. If that replica is gone, Deliver refuses an
// answer to a question, and does not drop it: whoever asked may only be cut off, and wait
// for it. A request that it has not got is left to the caller then: it returns false.
func (f *Forwarder) Deliver(x *exchange.Exchange, to replica.ID, m *mcp.Message, body []byte) bool {
	lost := false // the replica may have got the request
	for until := time.Now().Add(HoldTime); ; {
		switch {
		case f.others.IsThere(to):
			became := f.Forward(x, to, m, body)
			if became == Done {
				return true
			}
			lost = lost || became == Lost && m.IsRequest()
		case f.IsUnsure():
		case (!m.IsResponse() || x.Request.URL.Path == exchange.MessagesPath) && !lost:
			return false // an answer over HTTP+SSE, too: its session is gone with that replica
		default:
			until = time.Time{}
		}
		switch {
		case f.AwaitChange(x.Context(), until):
			continue
		case lost:
			refuseForward(x.Context(), x, m)
		default:
			x.Refuse(m.ID, exchange.ErrReplicas)
		}
		return true
	}
}

// Outcome is what became of a request that was to be forwarded.
type Outcome int

// What became of a request.
const (
	Done      Outcome = iota // it was answered
	Unreached                // the other replica was not reached, or not in time: nothing was done
	Denied                   // the other replica does not lead the session, or ends: nothing was done
	Taken                    // the other replica leads the session, and the rest is done here
	Lost                     // its answer to what may be sent again did not come
)

// Forward has another replica answer a request. The body has been read, and m is what it
// says.
func (f *Forwarder) Forward(x *exchange.Exchange, to replica.ID, m *mcp.Message, body []byte) Outcome {
	user := share.User(x.Principal.User())
	if f.slots.Take(user, 1) != nil {
		x.Refuse(m.ID, exchange.ErrOverload)
		return Done
	}
	defer f.slots.Give(user, 1)
	j, life := &exchange.Job{}, x.Context()
	if x.Era == mcp.Legacy { // it goes on without its client, who may have closed one direction alone
		life = x.Outliving()
	}
	ctx, refused := f.exchanges.BeginJob(life, x, j, m.ID)
	if x.Refuses(m.ID, refused) {
		return Done
	}
	defer f.exchanges.Jobs.Finish(j)
	x.Reservation.ReleaseSlot()
	answer, err := f.others.Forward(ctx, to, RequestOf(x, body))
	switch {
	case errors.Is(err, replica.ErrUnreached):
		return Unreached
	case err != nil && life.Err() != nil && f.others.IsThere(to):
		// The other replica records that the client has left. One that reads on is told.
		rpcErr := leftForward(x)
		x.WriteJSON(exchange.StatusOf(rpcErr.Code, x.Era), mcp.AppendError(nil, m.ID, rpcErr.OfRequest(x.ID)))
		x.Conclude(exchange.OutcomeForwarded)
		return Done
	case err != nil && (m.IsResponse() || x.Key != nil):
		return Lost // the first one counts
	case err != nil:
		refuseForward(ctx, x, m)
		return Done
	}
	defer answer.Body.Close() //nolint:errcheck // it was read, or its rest is not wanted
	switch answer.StatusCode {
	case ErrElsewhere.Status:
		return Denied
	case http.StatusRequestTimeout: // for its body alone, which is whole here: the link is too slow
		return Unreached
	}
	if streams(answer) { // which ends with its connection, and is resumed
		defer context.AfterFunc(x.Context(), func() { j.Life.End(context.Canceled) })()
	}
	f.PassOn(ctx, x, answer, m.ID, to)
	x.Conclude(exchange.OutcomeForwarded)
	return Done
}

const (
	// HoldTime is how long a request waits for a replica that is not reached, or for its
	// end to be known: longer than that takes.
	HoldTime = 8 * time.Second
	holdStep = time.Second // after which a replica is tried again
)

// AwaitChange waits until replicas have come or ended, for holdStep at most. It is false
// if it is late, or the client is gone.
func (f *Forwarder) AwaitChange(ctx context.Context, until time.Time) bool {
	return time.Now().Before(until) && pace.WaitOr(ctx, holdStep, *f.changed.Load())
}

// RequestOf returns a request as it is forwarded, with that body.
func RequestOf(x *exchange.Exchange, body []byte) link.Request {
	return link.Request{
		Method: x.Request.Method, Target: x.Request.URL.RequestURI(), Header: x.Request.Header, Body: body,
		Remote: x.Remote, ID: x.ID,
	}
}

// refuseForward answers a request that got no answer from another replica. A status that
// says that all is well is for answers to requests alone.
func refuseForward(ctx context.Context, x *exchange.Exchange, m *mcp.Message) {
	refused := exchange.RefusalOf(lostForward(ctx), x.Era)
	if !m.IsRequest() || x.Request.URL.Path == exchange.MessagesPath {
		refused.Status = http.StatusInternalServerError
	}
	x.Refuse(m.ID, refused)
}

// lostForward returns what is told of a request that was forwarded, and of which no more
// is heard.
func lostForward(ctx context.Context) *mcp.Error {
	switch {
	case exchange.IsRevoked(ctx):
		return exchange.ErrCancelledCall
	case errors.Is(context.Cause(ctx), gateway.ErrStopped):
		return exchange.ErrStopped
	}
	return exchange.ErrForwardLost
}

// leftForward returns what a client reads that has left a request which was forwarded,
// and has closed one direction of its connection alone.
func leftForward(x *exchange.Exchange) *mcp.Error {
	if x.Key != nil { // the call goes on for whoever asks again
		return exchange.ErrForwardLost
	}
	return exchange.ErrCancelledCall
}

// passedHeaders are those of an answer of another replica that the client gets. All
// others are about the connection.
var passedHeaders = []string{
	"Allow", "Cache-Control", "Content-Length", "Content-Type", "Mcp-Session-Id", "Retry-After",
	"Www-Authenticate", "X-Accel-Buffering",
}

// buffers has memory of bufferSize for answers that are passed on: to make it anew for
// each would be half of all that a replica allocates.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

const bufferSize = 32 << 10

// PassOn gives the client the answer of another replica, as it comes. If it breaks off, a
// stream ends with an error, and any other answer is cut short, because half of it must
// not look like a whole one.
func (f *Forwarder) PassOn(ctx context.Context, x *exchange.Exchange, answer *http.Response, id mcp.ID,
	from replica.ID,
) {
	for _, name := range passedHeaders {
		if values := answer.Header[name]; values != nil {
			x.Header()[name] = values
		}
	}
	x.WriteHeader(answer.StatusCode)
	memory := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(memory)
	buffer, whole, streams := memory[:], true, streams(answer)
	for {
		n, err := answer.Body.Read(buffer)
		x.AllowWrite() // of the head, too, where nothing is behind it
		if n > 0 {
			if _, failed := x.Write(buffer[:n]); failed != nil {
				return // the client is gone, and the other replica sees that
			}
			if streams {
				_ = x.Flush() // the next write would fail, too
			}
			whole = bytes.HasSuffix(buffer[:n], []byte("\n\n"))
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && x.Context().Err() != nil:
			if streams && whole && x.Era == mcp.Modern {
				endStream(x, id, leftForward(x))
			}
			return // the client is gone, or reads on
		case err != nil && streams && whole && id != "" && !f.resumes(x, from):
			lost := lostForward(ctx)
			x.ConcludeError(lost)
			endStream(x, id, lost)
			return
		case err != nil:
			x.ConcludeError(lostForward(ctx))
			panic(http.ErrAbortHandler)
		}
	}
}

// endStream ends an event stream with an error.
func endStream(x *exchange.Exchange, id mcp.ID, rpcErr *mcp.Error) {
	data := mcp.AppendError(nil, id, rpcErr.OfRequest(x.ID))
	_, _ = x.Write(sse.Append(nil, sse.Event{Data: data})) // or the client is gone
}

// streams tells whether an answer is an event stream.
func streams(answer *http.Response) bool {
	return strings.HasPrefix(answer.Header.Get("Content-Type"), exchange.StreamType)
}

// resumes tells whether the client can have the rest of a stream by resuming it: in a
// session, while the replica that runs the call is there.
func (f *Forwarder) resumes(x *exchange.Exchange, from replica.ID) bool {
	return x.Era == mcp.Legacy && f.others.IsThere(from)
}

// Bounds of the lists of tasks that other replicas have.
const (
	maxTaskList  = 4 << 20 // bytes of one
	askingOthers = 8       // how many replicas are asked at once
)

// JoinTasks adds to the tasks of a client that live here those that live at other
// replicas. What a replica has that is gone meanwhile is gone with it. If another cannot
// be asked, the request is to be tried again: a list without its tasks would be wrong. A
// session over HTTP+SSE reaches this replica alone, and has the tasks that it can use.
// reserved holds the answer.
func (f *Forwarder) JoinTasks(ctx context.Context, x *exchange.Exchange, m *mcp.Message, result mcp.Object,
	reserved *share.Reservation,
) (mcp.Object, *mcp.Error) {
	if x.Forwarded || x.Request.URL.Path == exchange.MessagesPath || len(f.others.All()) == 0 {
		return result, nil
	}
	request := RequestOf(x, mcp.AppendRequest(nil, m.ID, m.Method, m.Params))
	request.Header = request.Header.Clone()
	request.Header.Set("Accept", "application/json") // an answer in one piece
	elsewhere, err := f.tasksElsewhere(ctx, share.User(x.Principal.User()), request, reserved)
	size := result.Size()
	for _, one := range elsewhere {
		size += len(one) + len(",")
	}
	if err == nil && size > share.Covered {
		err = reserved.Resize(2 * int64(size))
	}
	switch refused := exchange.RefusalOfMemory(err); {
	case errors.Is(err, errNoSlot):
		return mcp.Object{}, exchange.ErrOverload.Err
	case refused != nil:
		return mcp.Object{}, refused.Err
	case err != nil:
		return mcp.Object{}, exchange.ErrReplicas.Err
	}
	all, _ := result.Value(mcp.ResultTasks).Elements()
	return result.With(mcp.ResultTasks, mcp.Array(append(all, elsewhere...))), nil
}

// errNoSlot says that as many requests are answered elsewhere as may be.
var errNoSlot = errors.New("no slot to forward a request")

// tasksElsewhere returns the tasks of a user that live at each other replica. It takes
// one slot, as a request takes that another replica answers: each of them sees one.
func (f *Forwarder) tasksElsewhere(ctx context.Context, user share.User, r link.Request,
	reserved *share.Reservation,
) ([]mcp.RawJSON, error) {
	if f.slots.Take(user, 1) != nil {
		return nil, errNoSlot
	}
	defer f.slots.Give(user, 1)
	others := f.others.All()
	lists := make([][]mcp.RawJSON, len(others))
	var asked errgroup.Group
	asked.SetLimit(askingOthers)
	for i, other := range others {
		memory := reserved.Another()
		defer memory.Release()
		asked.Go(func() (err error) {
			lists[i], err = f.tasksAt(ctx, other, r, memory)
			return err
		})
	}
	err := asked.Wait()
	return slices.Concat(lists...), err
}

// tasksAt returns the tasks of the client of a request that live at another replica,
// whose bytes memory holds.
func (f *Forwarder) tasksAt(ctx context.Context, at replica.ID, r link.Request,
	memory *share.Reservation,
) ([]mcp.RawJSON, error) {
	answer, err := f.others.Forward(ctx, at, r)
	if err != nil {
		if !f.others.IsThere(at) {
			return nil, nil
		}
		return nil, fmt.Errorf("ask a replica for tasks: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	switch answer.StatusCode {
	case ErrElsewhere.Status:
		return nil, nil // it ends, and its tasks with it
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("a replica did not list its tasks: %d", answer.StatusCode)
	}
	body, err := share.Incoming{
		Length: -1, Most: maxTaskList,
		Hold: func(bytes int) error { return memory.Resize(int64(bytes)) },
	}.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of a replica: %w", err)
	}
	said, err := mcp.ParseObject(body)
	tasks, ok := said.Object("result").Value(mcp.ResultTasks).Elements()
	if err != nil || !ok {
		return nil, fmt.Errorf("read the tasks of a replica: %w", errors.Join(replica.ErrForm, err))
	}
	return tasks, nil
}

// ErrElsewhere is a refusal of one replica to another, which no client sees: it does not
// lead the session, or is about to end.
var ErrElsewhere = exchange.NewRefusal(421, "DB-REPLICAS", "Another replica leads this session")

// Sizes of the id of a question: "q", its home, and a random part, both in hexadecimal
// digits. Only the owner of the session can answer, so the random part has to be new, and
// so long that nobody tries them out.
const (
	homeSize     = 16
	randomSize   = 8 // bytes
	questionSize = 1 + homeSize + 2*randomSize
)

// NewQuestion returns the id of a question of that home.
func NewQuestion(home replica.ID) string {
	var random [randomSize]byte
	rand.Read(random[:]) // never fails
	return "q" + string(home) + hex.EncodeToString(random[:])
}

// HomeOf returns where a question of that id waits, if the id has the form of one of
// NewQuestion.
func HomeOf(id string) (home replica.ID, ok bool) {
	if len(id) != questionSize || id[0] != 'q' || strings.Trim(id[1:], "0123456789abcdef") != "" {
		return "", false
	}
	return replica.ID(id[1 : 1+homeSize]), true
}
