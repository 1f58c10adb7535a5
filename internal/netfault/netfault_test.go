package netfault_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

const (
	patience = 5 * time.Minute        // for what must happen
	moment   = 200 * time.Millisecond // for what must not
)

// lab is a proxy, and what the target sees of who connects to it.
type lab struct {
	*netfault.Proxy

	arrivals chan *net.TCPConn
}

func start(t *testing.T) *lab {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := netfault.Start(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{Proxy: p, arrivals: make(chan *net.TCPConn, 4096)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				close(l.arrivals)
				return
			}
			l.arrivals <- c.(*net.TCPConn)
		}
	})
	t.Cleanup(func() {
		p.Close()
		listener.Close()
		accepting.Wait()
		for c := range l.arrivals {
			c.Close()
		}
	})
	return l
}

// dial connects through the proxy.
func (l *lab) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	return watched(t, c.(*net.TCPConn))
}

// pair returns both ends of a connection that something was already sent over, in both
// ways.
func (l *lab) pair(t *testing.T) (client, target *net.TCPConn) {
	t.Helper()
	client = l.dial(t)
	target = watched(t, <-l.arrivals)
	send(t, client, "hello")
	expect(t, target, "hello")
	send(t, target, "welcome")
	expect(t, client, "welcome")
	return client, target
}

// watched closes a connection with the test, and lets it not hang for ever.
func watched(t *testing.T, c *net.TCPConn) *net.TCPConn {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q and error %v, want %q", got, err, want)
	}
}

// silent fails if something comes, be it the end.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(moment)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Fatalf("got %d bytes and %v, want silence", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// ended fails unless the connection has ended, in that manner; nil: any.
func ended(t *testing.T, c net.Conn, want error) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	if err == nil || isTimeout(err) || want != nil && !errors.Is(err, want) {
		t.Fatalf("got %v, want the end: %v", err, want)
	}
}

// turnedAway fails unless a new connection ends at once, in that manner; nil: any. It may
// do so before it is seen to be open.
func turnedAway(t *testing.T, p *netfault.Proxy, want error) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address)
	if err == nil {
		ended(t, watched(t, c.(*net.TCPConn)), want)
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
}

func TestAFaultCountsTheConnectionsThatItMeets(t *testing.T) {
	t.Parallel()
	l := start(t)
	l.Delay(moment)
	if got := l.Met(); got != 0 {
		t.Errorf("a fault has met %d connections where there are none", got)
	}
	l.pair(t)
	if got := l.Met(); got != 1 {
		t.Errorf("a fault has met %d connections, want the one that came", got)
	}
	l.Rate(1 << 20)
	if got := l.Met(); got != 1 {
		t.Errorf("the next fault has met %d connections, want the one that was open", got)
	}
}

func TestPassesOnAllBytesAndTheEnd(t *testing.T) {
	t.Parallel()
	l := start(t)
	client := l.dial(t)
	target := watched(t, <-l.arrivals)
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	var echoing sync.WaitGroup
	echoing.Go(func() {
		_, _ = io.Copy(target, target)
		target.Close()
	})
	echoing.Go(func() {
		_, _ = client.Write(data)
		client.CloseWrite()
	})
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes and %v, want the %d that were sent", len(got), err, len(data))
	}
	echoing.Wait()
}

func TestDelay(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	l.Delay(time.Hour)
	send(t, client, "ping")
	expect(t, target, "ping") // only answers are late
	send(t, target, "one")
	send(t, target, "two")
	silent(t, client)
	l.Heal()
	expect(t, client, "onetwo")
	l.Delay(time.Millisecond)
	send(t, target, "late")
	expect(t, client, "late")
}

func TestRate(t *testing.T) {
	t.Parallel()
	for name, direction := range ways {
		l := start(t)
		from, to := direction.ends(l.pair(t))
		l.Rate(1)
		text := strings.Repeat("slow", 1000)
		send(t, from, text)
		expect(t, to, "s")
		if err := to.SetReadDeadline(time.Now().Add(moment)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text)-1)
		n, err := io.ReadFull(to, got)
		if !isTimeout(err) {
			t.Errorf("%s: got %d bytes and %v, want not all", name, n, err)
		}
		if err := to.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		l.Heal()
		expect(t, to, text[1+n:])
	}
}

// ways are both directions, and which end of a pair sends and which one gets.
var ways = map[string]struct {
	direction netfault.Direction
	ends      func(client, target *net.TCPConn) (from, to *net.TCPConn)
}{
	"requests": {netfault.Requests, func(client, target *net.TCPConn) (from,
		to *net.TCPConn,
	) {
		return client, target
	}},
	"answers": {netfault.Answers, func(client, target *net.TCPConn) (from,
		to *net.TCPConn,
	) {
		return target, client
	}},
}

func TestCutAfter(t *testing.T) {
	t.Parallel()
	for name, direction := range ways {
		l := start(t)
		from, to := direction.ends(l.pair(t))
		l.CutAfter(direction.direction, 10)
		send(t, to, strings.Repeat("other way ", 5)) // does not count
		expect(t, from, strings.Repeat("other way ", 5))
		send(t, from, "1234567")
		send(t, from, "890abcdef")
		got, _ := io.ReadAll(to)
		if string(got) != "1234567890" {
			t.Errorf("%s: got %q, want the first ten bytes", name, got)
		}
		ended(t, from, nil)
		l.Heal()
		l.pair(t)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	l.Reset()
	ended(t, client, syscall.ECONNRESET)
	ended(t, target, syscall.ECONNRESET)
	turnedAway(t, l.Proxy, syscall.ECONNRESET)
	l.Heal()
	l.pair(t)
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	for name, direction := range ways {
		l := start(t)
		from, to := direction.ends(l.pair(t))
		l.HalfClose(direction.direction)
		ended(t, to, io.EOF)
		send(t, from, "nobody gets this")
		send(t, to, "the other way is open")
		expect(t, from, "the other way is open")
		l.Heal()
		l.pair(t)
		t.Log(name)
	}
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	gone, _ := l.pair(t)
	l.BlackHole()
	send(t, client, "ping")
	send(t, target, "pong")
	silent(t, client)
	silent(t, target)
	later := l.dial(t)
	send(t, later, "later")
	silent(t, later)
	gone.Close() // nobody is told
	l.Heal()
	expect(t, client, "pong")
	expect(t, target, "ping")
	expect(t, watched(t, <-l.arrivals), "later")
}

// TestNoEndGoesThroughABlackHole closes a connection in it: the other side learns of that
// when it is healed.
func TestNoEndGoesThroughABlackHole(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn){
		"a close": func(*net.TCPConn) {},
		"a reset": func(c *net.TCPConn) { _ = c.SetLinger(0) },
	} {
		l := start(t)
		client, target := l.pair(t)
		l.BlackHole()
		leave(client)
		client.Close()
		silent(t, target)
		l.Heal()
		ended(t, target, nil)
		t.Log(name)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	l.Refuse()
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("got %v, %v, want it refused", c, err)
	}
	send(t, client, "still open")
	expect(t, target, "still open")
	l.BlackHole()
	l.Accept()
	silent(t, l.dial(t)) // of what is wrong, only the refusing has ended
	l.Heal()
	watched(t, <-l.arrivals)
	l.pair(t)
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	for name, direction := range ways {
		l := start(t)
		var got [2][100]byte
		for i := range got {
			from, to := direction.ends(l.pair(t))
			l.Garbage(direction.direction, 7)
			send(t, from, strings.Repeat("x", len(got[i])))
			if _, err := io.ReadFull(to, got[i][:]); err != nil {
				t.Fatal(err)
			}
			send(t, to, "as it was")
			expect(t, from, "as it was")
			l.Heal()
			ended(t, from, syscall.ECONNRESET)
			ended(t, to, syscall.ECONNRESET)
		}
		if got[0] != got[1] || bytes.Count(got[0][:], []byte("x")) > 20 {
			t.Errorf("%s: got %q and %q, want the same noise twice", name, got[0], got[1])
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	l.Cut()
	ended(t, client, io.EOF)
	ended(t, target, io.EOF)
	turnedAway(t, l.Proxy, nil)
	l.Heal()
	l.pair(t)
}

func TestFaultsAreCombined(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, _ := l.pair(t)
	l.Refuse()
	l.Cut()
	ended(t, client, io.EOF)
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("got %v, want it refused", err)
	}
	l.Heal()
	l.pair(t)
}

func TestATargetThatResetsOrRefusesIsAReset(t *testing.T) {
	t.Parallel()
	l := start(t)
	client, target := l.pair(t)
	if err := target.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	target.Close()
	ended(t, client, syscall.ECONNRESET)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := netfault.Start(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	listener.Close()
	turnedAway(t, nobody, syscall.ECONNRESET)
}

// TestCloseEndsAll closes a proxy that holds back bytes in each of its ways.
func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*netfault.Proxy){
		"none":         func(*netfault.Proxy) {},
		"a black hole": (*netfault.Proxy).BlackHole,
		"a delay":      func(p *netfault.Proxy) { p.Delay(time.Hour) },
		"a rate":       func(p *netfault.Proxy) { p.Rate(1) },
		"refusing":     (*netfault.Proxy).Refuse,
	} {
		l := start(t)
		client, target := l.pair(t)
		fault(l.Proxy)
		send(t, client, "ping")
		send(t, target, "pong")
		l.Close()
		_, _ = io.Copy(io.Discard, client)
		ended(t, client, nil)
		if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address); err == nil {
			t.Errorf("%s: it still listens", name)
		}
		l.Heal() // too late, and no harm
	}
}

func TestThousandsOfConnections(t *testing.T) {
	t.Parallel()
	const many = 2000
	l := start(t)
	clients := make([]*net.TCPConn, many)
	for i := range clients {
		clients[i], _ = l.pair(t)
	}
	l.Cut()
	for _, c := range clients {
		ended(t, c, io.EOF)
	}
	l.Heal()
	l.pair(t)
}
