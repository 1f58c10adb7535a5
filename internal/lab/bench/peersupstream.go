package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// peerTools is how many tools the upstream of the peers lists, echo among them.
const peerTools = 100

// changeSignal makes an upstream change its list of tools and announce that.
const changeSignal = syscall.SIGUSR1

// peerUpstream is the MCP server that stands behind every peer. It is as quick as the upstream of the other measures
// and does what the clients inside gateways ask for beside calls: it agrees to the revision they propose, opens
// sessions, answers pings, lists a hundred tools and keeps event streams open, on which it announces changes of that
// list. It speaks Streamable HTTP, and MCP over its standard input and output for peers that reach no other server.
type peerUpstream struct {
	sessions atomic.Int64
	short    mcp.Object // the list of tools
	long     mcp.Object // the same with one tool more
	mu       sync.Mutex // guards the fields below
	longer   bool       // the long one is shown
	streams  map[chan struct{}]bool
}

func newPeerUpstream() *peerUpstream {
	return &peerUpstream{short: manyTools(peerTools), long: manyTools(peerTools + 1), streams: make(map[chan struct{}]bool)}
}

const peerAnnouncement = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// servePeerUpstream serves over HTTP until ctx is done.
func servePeerUpstream(ctx context.Context, addr string) error {
	u := newPeerUpstream()
	stop := u.changeOnSignal()
	defer stop()
	return listen(ctx, addr, u)
}

// changeOnSignal changes the list at each changeSignal until stop is called, which waits for the goroutine.
func (u *peerUpstream) changeOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, changeSignal)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			u.change()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// change makes the list one tool longer, or shorter again, and tells every stream.
func (u *peerUpstream) change() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.longer = !u.longer
	for stream := range u.streams {
		select {
		case stream <- struct{}{}:
		default: // one announcement waits already
		}
	}
}

func (u *peerUpstream) tools() mcp.Object {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.longer {
		return u.long
	}
	return u.short
}

func (u *peerUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		u.post(w, r)
	case http.MethodGet:
		u.stream(w, r)
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (u *peerUpstream) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m, err := mcp.Decode(body)
	if err != nil || !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == mcp.MethodInitialize {
		w.Header().Set(mcp.HeaderSessionID, fmt.Sprintf("peer-%d", u.sessions.Add(1)))
	}
	respond(w, u.answer(m))
}

func (u *peerUpstream) answer(m *mcp.Message) []byte {
	switch m.Method {
	case mcp.MethodInitialize:
		revision := m.Params.Text("protocolVersion")
		if mcp.EraOf(revision) != mcp.Legacy {
			revision = mcp.LatestLegacy
		}
		return mcp.AppendResult(nil, m.ID, object(`{"protocolVersion":"`+revision+
			`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}`))
	case mcp.MethodPing:
		return mcp.AppendResult(nil, m.ID, mcp.Object{})
	case mcp.MethodToolsList:
		return mcp.AppendResult(nil, m.ID, u.tools())
	}
	return reply(m)
}

// stream keeps an event stream open until the client is gone.
func (u *peerUpstream) stream(w http.ResponseWriter, r *http.Request) {
	changes := u.follow()
	defer u.leave(changes)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	for err := out.Flush(); err == nil; err = out.Flush() {
		select {
		case <-changes:
			_, _ = io.WriteString(w, "event: message\ndata: "+peerAnnouncement+"\n\n") // Flush returns what went wrong
		case <-r.Context().Done():
			return
		}
	}
}

// follow returns a channel that gets something at each change, until leave is called with it.
func (u *peerUpstream) follow() chan struct{} {
	changes := make(chan struct{}, 1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.streams[changes] = true
	return changes
}

func (u *peerUpstream) leave(changes chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.streams, changes)
}

// servePeerStdio serves over standard input and output, one message a line, until the input ends.
func servePeerStdio(in io.Reader, out io.Writer) error {
	u := newPeerUpstream()
	stop := u.changeOnSignal()
	defer stop()
	var writing sync.Mutex
	write := func(message []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := out.Write(append(message, '\n'))
		return err
	}
	changes := u.follow()
	var announcing sync.WaitGroup
	announcing.Go(func() {
		for range changes {
			_ = write([]byte(peerAnnouncement)) // the reader below sees the end
		}
	})
	defer func() {
		u.leave(changes)
		close(changes)
		announcing.Wait()
	}()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := mcp.Decode(lines.Bytes())
		if err != nil || !m.IsRequest() {
			continue
		}
		if err := write(u.answer(m)); err != nil {
			return errors.Join(err, lines.Err())
		}
	}
	return lines.Err()
}
