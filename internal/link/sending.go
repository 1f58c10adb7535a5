package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
)

// Headers that replicas add. A listener for clients never sees them, and who sends them
// there is not believed.
const (
	headerKind   = "Drawbridge-Kind"
	headerTenant = "Drawbridge-Tenant"
	headerRemote = "Drawbridge-Remote"
	headerID     = "Drawbridge-Request"
	headerNote   = "Drawbridge-Note"

	// of an answer: that replica does not reach what the Directory knows from
	headerAway = "Drawbridge-Away"
	// of an answer: who has asked is not known, or that replica leaves, and nothing was done
	headerStranger = "Drawbridge-Stranger"
)

// Send gives a message to another replica, and returns what that says when it has handled
// it.
func (l *Link) Send(ctx context.Context, to string, m Message) ([]byte, error) {
	header := http.Header{headerKind: {m.Kind}, headerTenant: {m.Tenant}}
	answer, err := l.exchange(ctx, to, http.MethodPost, messagePath, header, m.Data)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: it said %d to %q", ErrRefused, answer.StatusCode, m.Kind)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxMessage))
}

// Ping returns an error if another replica does not answer. away tells that it does not
// reach what the Directory knows from.
func (l *Link) Ping(ctx context.Context, to string) (away bool, err error) {
	answer, err := l.exchange(ctx, to, http.MethodGet, "/", make(http.Header), nil)
	if err != nil {
		return false, err
	}
	return answer.Header.Get(headerAway) != "", answer.Body.Close() // any answer will do
}

// Request is a request of a client that is forwarded.
type Request struct {
	Method, Target string // the target is path and query
	Header         http.Header
	Body           []byte
	Remote, ID     string // the address of the client, and the id of the request in all records
	Note           string // what the replica says to the other about the request; "": nothing
}

// Forward sends a request of a client to another replica, and returns its answer, whose
// body comes as that replica sends it. The caller closes the body. When ctx ends, the
// other replica sees that its client has left. The error is ErrGone or ErrLost, and so is
// that of reading the body.
func (l *Link) Forward(ctx context.Context, to string, f Request) (*http.Response, error) {
	header := make(http.Header, len(f.Header)+added)
	for name, values := range f.Header {
		if !slices.Contains(hopByHop, name) {
			header[name] = values
		}
	}
	if _, named := header["User-Agent"]; !named {
		header["User-Agent"] = nil // or net/http would name itself
	}
	header[headerRemote], header[headerID] = []string{f.Remote}, []string{f.ID}
	if f.Note != "" {
		header[headerNote] = []string{f.Note}
	}
	return l.exchange(ctx, to, f.Method, clientsPath+f.Target, header, f.Body)
}

// added is how many headers the link adds to those of a client at most.
const added = 4

// hopByHop are the headers that are about one connection, or that the link sets itself.
// https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "Expect",
	headerKind, headerTenant, headerRemote, headerID, headerNote,
}

// exchange sends a request to a replica, and returns its answer. It ends when that
// replica is gone.
func (l *Link) exchange(ctx context.Context, to, method, target string, header http.Header,
	body []byte,
) (*http.Response, error) {
	peer, ok := l.config.Directory.Peer(to)
	if !ok {
		return nil, ErrGone
	}
	t := new(transit)
	t.life.Begin(ctx, time.Time{})
	t.life.DependOn(peer.Life, ErrLost)
	t.trace.WroteHeaders = func() { t.sent.Store(true) }
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(&t.life, &t.trace), method,
		"https://"+to+target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	r.Header = header
	answer, err := l.transport.RoundTrip(r)
	if err != nil {
		t.life.Close()
		if t.sent.Load() {
			return nil, errors.Join(ErrLost, err)
		}
		return nil, errors.Join(ErrGone, err)
	}
	t.ReadCloser = answer.Body
	if answer.Header.Get(headerStranger) != "" {
		return nil, errors.Join(ErrGone, errStranger, t.Close())
	}
	answer.Body = t
	return answer, nil
}

// transit is a request on its way to another replica, and then the body of the answer.
type transit struct {
	io.ReadCloser

	life  lifetime.Context
	trace httptrace.ClientTrace
	sent  atomic.Bool // that replica may have got the request
}

// Read implements io.Reader.
func (t *transit) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(ErrLost, err)
	}
	return n, err
}

// Close implements io.Closer.
func (t *transit) Close() error {
	t.life.Close()
	return t.ReadCloser.Close()
}
