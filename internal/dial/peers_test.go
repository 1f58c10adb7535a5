package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

var errNobody = errors.New("nobody knows that host")

// newPeers returns Peers that reach one process, as the host a0. It says each line that
// it reads again. It closes the connection in place of that where the line begins with
// "break", and reads no more where it begins with "deaf".
func newPeers(t *testing.T) (*Peers, *secureServer) {
	t.Helper()
	server := newSecureServer(t, func(conn *tls.Conn, in *bufio.Reader) {
		for {
			switch line, err := in.ReadString('\n'); {
			case err != nil, strings.HasPrefix(line, "break"):
				return
			case strings.HasPrefix(line, "deaf"):
				<-t.Context().Done()
			default:
				_, _ = io.WriteString(conn, line)
			}
		}
	})
	p := NewPeers(func(host string) (string, *tls.Config, error) {
		if host != "a0" {
			return "", nil, errNobody
		}
		cfg := server.rest.TLSClientConfig.Clone()
		cfg.ServerName = "example.com"
		return server.target.Host, cfg, nil
	})
	t.Cleanup(p.transport.CloseIdleConnections)
	return p, server
}

// TestPeersSendOnce has what is said answered, lost, and not sent at all, and counts the
// connections: one that was used and is good is used again.
func TestPeersSendOnce(t *testing.T) {
	t.Parallel()
	p, server := newPeers(t)
	long := strings.Repeat("x", 1<<20) + "\n"
	for _, test := range []struct {
		name, host, head, body string
		sent                   bool
		err                    error
		opened                 int32
	}{
		{"with a body", "a0", "hello ", "world\n", true, nil, 1},
		{"without one", "a0", "hello\n", "", true, nil, 1},
		{"with a large one", "a0", "hello ", long, true, nil, 1},
		{"not answered", "a0", "break\n", "", true, io.ErrUnexpectedEOF, 1},
		{"after that", "a0", "hello\n", "", true, nil, 2},
		{"to nobody", "b1", "hello\n", "", false, errNobody, 2},
	} {
		x, sent, err := p.Send(t.Context(), test.host, []byte(test.head), []byte(test.body))
		if sent != test.sent || !errors.Is(err, test.err) {
			t.Fatalf("%s: got %v, %v; want %v, %v", test.name, sent, err, test.sent, test.err)
		}
		if err == nil {
			answer, err := x.In.ReadString('\n')
			if answer != test.head+test.body || err != nil {
				t.Errorf("%s: got %d bytes and %v", test.name, len(answer), err)
			}
			x.Release(true)
		}
		if got := server.opened.Load(); got != test.opened {
			t.Errorf("%s: got %d connections, want %d", test.name, got, test.opened)
		}
	}
}

// TestAPartIsNotSent lets the other process take no more than the begin of what is sent:
// it heeds no part, so nothing was done.
func TestAPartIsNotSent(t *testing.T) {
	t.Parallel()
	p, _ := newPeers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, sent, err := p.Send(ctx, "a0", []byte("deaf\n"), make([]byte, 64<<20))
	if sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v; want that it was not sent", sent, err)
	}
}
