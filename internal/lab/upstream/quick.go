package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Message is what the tool echo of Quick is told, to say it again.
const Message = "The quick brown fox jumps over the lazy dog and says so"

// ChangeSignal makes a process that is a Quick change its list of tools and announce
// that.
const ChangeSignal = syscall.SIGUSR1

// Quick is an MCP server that serves both eras and does nothing else: what it costs is
// the floor of every comparison. It has one tool, echo; under /tools/N it lists N tools,
// and under /kinds those that answer in other ways.
//
// One that announces does what the clients inside gateways ask for beside calls: it opens
// sessions, lists Announced tools everywhere and keeps event streams open, on which it
// announces changes of that list. It is safe for concurrent use.
type Quick struct {
	announces   bool
	sessions    atomic.Int64
	asked       questions
	short, long mcp.Object // the list of tools of one that announces, and the same with one tool more

	changes atomic.Int64 // the long one is shown after an odd number of them
	streams sync.Map     // of each *func() that is called at each change, true
}

// Announced is how many tools a Quick lists that announces, echo among them.
const Announced = 100

// NewQuick returns a server.
func NewQuick(announces bool) *Quick {
	return &Quick{announces: announces, short: manyTools(Announced), long: manyTools(Announced + 1)}
}

const announcement = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// Serve serves over HTTP until ctx is done, over TLS with the files of a certificate and
// its key.
func (q *Quick) Serve(ctx context.Context, addr string, files ...string) error {
	defer q.changeOnSignal()()
	return Listen(ctx, addr, q, files...)
}

// Listen serves until ctx ends, over TLS with the files of a certificate and its key.
func Listen(ctx context.Context, addr string, handler http.Handler, files ...string) error {
	server := &http.Server{
		Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the process ends with it
	defer stop()
	serve := page.Either(len(files) == 2, func() error {
		return server.ListenAndServeTLS(files[0], files[1])
	}, server.ListenAndServe)
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// changeOnSignal changes the list at each ChangeSignal until stop is called, which waits
// for the goroutine.
func (q *Quick) changeOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, ChangeSignal)
	var changing sync.WaitGroup
	changing.Go(func() {
		for range signals {
			q.Change()
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		changing.Wait()
	}
}

// Change makes the list one tool longer, or shorter again, and tells every stream.
func (q *Quick) Change() {
	q.changes.Add(1)
	q.streams.Range(func(tell, _ any) bool {
		(*tell.(*func()))() //nolint:forcetypeassert // no others are stored
		return true
	})
}

// Tools returns the list of one that announces, as it is now.
func (q *Quick) Tools() mcp.Object { return page.Either(q.changes.Load()%2 == 1, q.long, q.short) }

func (q *Quick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		q.post(w, r)
	case r.Method == http.MethodGet && q.announces:
		q.stream(w, r)
	case r.Method == http.MethodDelete && q.announces:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (q *Quick) post(w http.ResponseWriter, r *http.Request) {
	m, ok := receive(w, r)
	switch {
	case !ok:
		return
	case !m.IsRequest():
		if m.IsResponse() {
			q.asked.answer(m)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == mcp.MethodToolsCall && m.Params.Text("name") != "echo":
		q.asked.serveKind(w, r, m)
		return
	case m.Method == mcp.MethodInitialize:
		w.Header().Set(mcp.HeaderSessionID, fmt.Sprintf("quick-%d", q.sessions.Add(1)))
	}
	respond(w, q.answer(m, r.URL.Path))
}

// answer answers all but the calls of other tools than echo.
func (q *Quick) answer(m *mcp.Message, path string) []byte {
	switch m.Method {
	case mcp.MethodInitialize:
		asked := m.Params.Text("protocolVersion")
		return mcp.AppendResult(nil, m.ID, object(fmt.Sprintf(
			`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":%t}},`+
				`"serverInfo":{"name":"quick","version":"1"}}`,
			page.Either(mcp.EraOf(asked) == mcp.Legacy, asked, mcp.LatestLegacy), q.announces)))
	case mcp.MethodPing:
		return mcp.AppendResult(nil, m.ID, mcp.Object{})
	case mcp.MethodToolsList:
		return mcp.AppendResult(nil, m.ID, q.list(path))
	case mcp.MethodToolsCall:
		return echo(m)
	}
	return mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))
}

// list returns the tools that are shown at a path.
func (q *Quick) list(path string) mcp.Object {
	count, many := strings.CutPrefix(path, "/tools/")
	switch {
	case q.announces:
		return q.Tools()
	case path == "/kinds":
		return object(kindTools)
	case many:
		n, _ := strconv.Atoi(count) // our own path
		return manyTools(n)
	}
	return manyTools(1)
}

// echo says the message of a call again.
func echo(m *mcp.Message) []byte {
	block := mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("text")},
		mcp.Member{Name: "text", Value: m.Params.Object("arguments").Value("message")},
	)
	return mcp.AppendResult(nil, m.ID,
		mcp.NewObject(mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{block.JSON()})}))
}

// manyTools returns a list of echo and others, whose definitions have about 160 bytes
// each.
func manyTools(count int) mcp.Object {
	const echo = `{"name":"echo","description":"Says it again","inputSchema":{"type":"object",` +
		`"properties":{"message":{"type":"string"}},"required":["message"]}}`
	return object(`{"resultType":"complete","tools":[` + echo + page.Times(count-1, func(n int) string {
		return "," + strings.Replace(echo, `"echo"`, fmt.Sprintf(`"tool_%04d"`, n), 1)
	}) + `]}`)
}

func object(text string) mcp.Object {
	o, _ := mcp.ObjectOf(mcp.RawJSON(text)) // our own texts are objects
	return o
}

func respond(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) //nolint:gosec // G705: JSON for clients of ours, of which one may be gone
}

// stream keeps an event stream open until the client is gone.
func (q *Quick) stream(w http.ResponseWriter, r *http.Request) {
	changes := make(chan struct{}, 1)
	defer q.follow(func() {
		select {
		case changes <- struct{}{}:
		default: // one announcement waits already
		}
	})()
	w.Header().Set("Cache-Control", "no-cache")
	out := &output{w: w}
	for out.begin("text/event-stream"); out.write(nil); {
		select {
		case <-changes:
			out.event([]byte(announcement))
		case <-r.Context().Done():
			return
		}
	}
}

// follow has tell called at each change, until leave is called.
func (q *Quick) follow(tell func()) (leave func()) {
	q.streams.Store(&tell, true)
	return func() { q.streams.Delete(&tell) }
}

// ServeStdio serves over standard input and output, one message a line, until the input
// ends.
func (q *Quick) ServeStdio(in io.Reader, out io.Writer) error {
	defer q.changeOnSignal()()
	var writing sync.Mutex
	write := func(message []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := out.Write(append(message, '\n'))
		return err
	}
	defer q.follow(func() { _ = write([]byte(announcement)) })() // the reader below sees the end
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m, err := mcp.Decode(lines.Bytes()); err == nil && m.IsRequest() {
			if err := write(q.answer(m, "")); err != nil {
				return errors.Join(err, lines.Err())
			}
		}
	}
	return lines.Err()
}
