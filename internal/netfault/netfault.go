// Package netfault makes the faults of a network: a TCP proxy that passes everything on
// until it is told to be slow, silent, torn or mad. It does not know what the bytes mean.
package netfault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

const (
	maxLinks = 20000            // connections at once; more are closed
	patience = 10 * time.Second // to connect to the target
	breather = 10 * time.Millisecond
)

// Proxy is a TCP proxy before one target. It is safe for concurrent use. Its faults hold
// for the connections that are open and for new ones, may be combined, and last until
// Heal.
//
//	client ──▶ Proxy.Address ──▶ target        Requests go this way,
//	       ◀──               ◀──               Answers that way
//
// Without a fault it is as good as no proxy, but for one thing: it accepts connections
// before it knows whether the target does. If that refuses, the client sees a reset.
type Proxy struct {
	Address string // host:port, where to connect to

	target  string
	running sync.WaitGroup // accept and all links

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	refuses  bool // listener is closed
	closed   bool
	faults   *faults
	open     map[*link]struct{}
	met      int // see Met
}

// Start starts a proxy at an address of 127.0.0.1 before a target, host:port, that need
// not listen yet.
func Start(target string) (*Proxy, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	return StartAt(address, target)
}

// StartAt is Start for an address that the caller has chosen, host:port. Nobody else may
// take its port while the proxy refuses: freeport gives such ports.
func StartAt(address, target string) (*Proxy, error) {
	p := &Proxy{
		Address: address, target: target, faults: &faults{changed: make(chan struct{})},
		open: map[*link]struct{}{},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listenLocked(); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the proxy and all its connections, and returns when nothing of them runs any
// more.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // it may be closed already
	p.mu.Unlock()
	p.endAll(false)
	p.running.Wait()
}

// Refuse stops listening, so that new connections are refused. Those that are open stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	_ = p.listener.Close() // it may be closed already
}

// Heal ends all faults. What was held back goes through. A way that was half-closed stays
// so, as the other side knows. Garbage ends with its connections, as by a reset: where a
// message begins in them is not to be known any more.
func (p *Proxy) Heal() {
	old := p.now()
	p.change(func(f *faults) { *f = faults{} })
	if old.garbage != [2]*noise{} {
		p.endAll(true)
	}
	p.Accept()
}

// Accept ends Refuse alone, and leaves all other faults.
func (p *Proxy) Accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refuses || p.closed {
		return
	}
	if err := p.listenLocked(); err != nil {
		panic(fmt.Sprintf("netfault: the port of a proxy was taken: %v", err)) // it is reserved for us
	}
	p.refuses = false
}

// listenLocked begins to accept connections.
func (p *Proxy) listenLocked() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.Address)
	if err != nil {
		return err
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

// accept serves who connects until the listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err == nil {
			p.running.Go(func() { p.serve(client.(*net.TCPConn)) }) //nolint:forcetypeassert // a TCP listener has no others
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		<-time.After(breather) // no descriptor is free
	}
}

// serve passes on what comes from a client and goes to it until both ways have ended.
func (p *Proxy) serve(client *net.TCPConn) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{proxy: p, client: client, cancel: cancel}
	defer l.end(false)
	if !p.admit(l) {
		return
	}
	defer p.forget(l)
	if _, ok := l.hold(ctx, Requests, time.Time{}); !ok {
		return
	}
	target, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		l.end(true)
		return
	}
	if !l.join(target.(*net.TCPConn)) { //nolint:forcetypeassert // dialed as TCP
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() { l.pass(ctx, Answers, l.target, client) })
	l.pass(ctx, Requests, client, l.target)
	answers.Wait()
}

// Met returns how many connections the faults have met: those that were open when the
// last fault was made, and those that came since. A fault that meets none is none.
func (p *Proxy) Met() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met
}

// admit notes a link, or ends it if none may be.
func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met++
	switch {
	case p.faults.resets:
		l.end(true)
		return false
	case p.closed || p.faults.cuts || len(p.open) >= maxLinks:
		return false
	}
	p.open[l] = struct{}{}
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// endAll ends all links, with a reset if abort.
func (p *Proxy) endAll(abort bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.end(abort)
	}
}
