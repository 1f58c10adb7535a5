package redistest

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy that makes the faults of a network. It is safe for concurrent use.
//
//	Store ──▶ Proxy.Address ──▶ server        a chunk of an answer waits for the delay, then for the end of the hole
type Proxy struct {
	Address string // host:port, where to connect to

	server   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond // with mu
	delay   time.Duration
	hole    bool // nothing goes through
	cut     bool // no connection stays open
	over    bool
	open    []net.Conn
}

// NewProxy starts a proxy before a server, host:port, that passes everything on, and ends it with the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), server: server, listener: listener}
	p.changed = sync.NewCond(&p.mu)
	p.pumps.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(func() { p.over = true })
		p.drop()
		p.pumps.Wait()
	})
	return p
}

// Delay makes each answer come later by that much. Answers stay in order and do not wait for each other's delay.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// BlackHole lets nothing through in either direction, and no connection end: connections are accepted, and stay silent.
func (p *Proxy) BlackHole() { p.set(func() { p.hole = true }) }

// Cut ends all connections, and each new one at once.
func (p *Proxy) Cut() {
	p.set(func() { p.cut = true })
	p.drop()
}

// Heal ends all faults. What was held back goes through.
func (p *Proxy) Heal() { p.set(func() { p.delay, p.hole, p.cut = 0, false, false }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// drop ends all connections.
func (p *Proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
	p.changed.Broadcast()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.serve(client) })
	}
}

// serve passes on what comes from a client and goes to it, until one side ends.
func (p *Proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.end(client)
	if !p.pass(client, time.Time{}) {
		return
	}
	server, err := (&net.Dialer{Timeout: Patience}).Dial("tcp", p.server)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.end(server)
	var answers sync.WaitGroup
	answers.Go(func() { p.pump(client, server, true) })
	p.pump(server, client, false)
	answers.Wait()
}

// keep notes a connection as open, or ends it if none may be.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.over {
		_ = c.Close()
		return false
	}
	p.open = append(p.open, c)
	return true
}

func (p *Proxy) end(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = c.Close()
	p.open = slices.DeleteFunc(p.open, func(o net.Conn) bool { return o == c })
	p.changed.Broadcast()
}

// chunk is what was read at once, and when it may go on.
type chunk struct {
	data []byte
	due  time.Time
}

// pump copies until one side ends, and then ends both.
func (p *Proxy) pump(to, from net.Conn, late bool) {
	chunks := make(chan chunk, 1024)
	var writing sync.WaitGroup
	writing.Go(func() {
		for c := range chunks {
			if p.pass(to, c.due) {
				_, _ = to.Write(c.data) // who reads sees the end of the connection
			}
		}
		p.end(to)
	})
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			due := time.Now()
			if late {
				p.mu.Lock()
				due = due.Add(p.delay)
				p.mu.Unlock()
			}
			chunks <- chunk{buffer[:n], due}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	writing.Wait()
}

// pass waits until something of a connection may go through. It returns false when that connection or the proxy ends first.
func (p *Proxy) pass(of net.Conn, due time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := time.Until(due); wait > 0 {
		defer time.AfterFunc(wait, func() { p.set(func() {}) }).Stop()
	}
	for !p.over && slices.Contains(p.open, of) {
		if !p.hole && !time.Now().Before(due) {
			return true
		}
		p.changed.Wait()
	}
	return false
}
