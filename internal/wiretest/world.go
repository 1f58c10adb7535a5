package wiretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

// World is what a script talks to.
type World struct {
	Handler http.Handler
	Headers map[string]string // of requests that do not say otherwise; an empty value leaves the header out
	Actions map[string]func() // by name
	Vars    map[string]string // by name
	// the first group is captured under the name of the pattern's first named group,
	// numbered
	Capture []*regexp.Regexp

	// Show and Mean translate what arrives into what the script says, and what the script
	// says into what is sent. Nil: they are the same.
	Show, Mean func(text string) string

	Pause time.Duration // before each step; zero: the clock stands still but for steps that wait

	server    *http.Server
	client    *http.Client
	exchanges []*exchange
	captured  map[string]string // text → name
	counts    map[string]int
}

// exchange is one request and what came back so far.
type exchange struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex // guards the fields below
	text  strings.Builder
	shown int
}

// start serves the handler to a client in memory.
func (w *World) start() {
	l := newListener()
	w.captured, w.counts = make(map[string]string), make(map[string]int)
	w.server = &http.Server{Handler: w.Handler} //nolint:gosec // nobody attacks it
	go func() { _ = w.server.Serve(l) }()       // ends with close
	w.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: l.dial,
	}}
}

func (w *World) close() {
	for _, x := range w.exchanges {
		x.cancel()
		<-x.done
	}
	_ = w.server.Close() // what it still did has been seen
}

// send sends a request. What comes back is read in the background.
func (w *World) send(t *testing.T, name, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := fatal.Have(w.parse(ctx, text))(t)
	x := &exchange{name: name, cancel: cancel, done: make(chan struct{})}
	w.exchanges = append(w.exchanges, x)
	go x.run(w.client, r) // close waits for it
}

// placeholder is where a request says what the test or an answer before has to say.
var placeholder = regexp.MustCompile(`\$\{\w+\}`)

// parse reads a request as it stands in a script.
func (w *World) parse(ctx context.Context, text string) (*http.Request, error) {
	for text, name := range w.captured {
		w.Vars[name] = text
	}
	for name, value := range w.Vars {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	if name := placeholder.FindString(text); name != "" {
		return nil, fmt.Errorf("nothing was captured as %s, and no variable has that name", name)
	}
	if w.Mean != nil {
		text = w.Mean(text)
	}
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, found := strings.Cut(lines[0], " ")
	if !found {
		return nil, fmt.Errorf("no request line: %q", lines[0])
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://mcp.test"+path,
		strings.NewReader(strings.TrimSpace(body)))
	if err != nil {
		return nil, err
	}
	for name, value := range w.Headers {
		r.Header.Set(name, value)
	}
	if r.ContentLength == 0 {
		r.Header.Del("Content-Type")
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Host"):
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// run sends r and keeps what comes back.
func (x *exchange) run(client *http.Client, r *http.Request) {
	defer close(x.done)
	resp, err := client.Do(r)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			x.add("(broken)\n")
		}
		return
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	x.add(headOf(resp))
	switch _, err = io.Copy(x, resp.Body); {
	case err == nil:
		x.add("(end)\n")
	case !errors.Is(err, context.Canceled):
		x.add("(broken)\n")
	}
}

// headOf returns status and headers as a script shows them.
func headOf(resp *http.Response) string {
	var head strings.Builder
	fmt.Fprintf(&head, "%d\n", resp.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		// these differ from run to run
		if name != "Date" && name != "Content-Length" && name != "X-Request-Id" {
			fmt.Fprintf(&head, "%s: %s\n", name, strings.Join(resp.Header[name], "\n"+name+": "))
		}
	}
	return head.String() + "\n"
}

// Write implements io.Writer.
func (x *exchange) Write(text []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(text)
}

func (x *exchange) add(text string) { _, _ = x.Write([]byte(text)) } // it has no errors

// disconnect breaks the connection of a request.
func (w *World) disconnect(t *testing.T, name string) {
	t.Helper()
	for _, x := range w.exchanges {
		if x.name == name {
			x.cancel()
			<-x.done
			return
		}
	}
	t.Fatalf("no request %q to leave", name)
}

// arrived returns sections with what came back since it was last called.
func (w *World) arrived() []txtar.File {
	var files []txtar.File
	for _, x := range w.exchanges {
		x.mu.Lock()
		text, kind := x.text.String()[x.shown:], "response"
		if x.shown > 0 {
			kind = "more"
		}
		x.shown += len(text)
		x.mu.Unlock()
		if text == "" {
			continue
		}
		if w.Show != nil {
			text = w.Show(text)
		}
		text = w.mask(text)
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if i := strings.LastIndex(text, "(end)"); i > 0 && text[i-1] != '\n' {
			text = text[:i] + "\n" + text[i:]
		}
		files = append(files, txtar.File{Name: kind + " " + x.name, Data: []byte(text)})
	}
	return files
}

// mask captures what the patterns find, and shows all captured texts by name.
func (w *World) mask(text string) string {
	for _, pattern := range w.Capture {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			if name := pattern.SubexpNames()[1]; w.captured[match[1]] == "" {
				w.counts[name]++
				w.captured[match[1]] = fmt.Sprintf("%s%d", name, w.counts[name])
			}
		}
	}
	for value, name := range w.captured {
		text = strings.ReplaceAll(text, value, "${"+name+"}")
	}
	return text
}

// listener accepts connections in memory.
type listener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newListener() *listener {
	return &listener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }
