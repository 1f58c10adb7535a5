package netfault

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 4 << 10 // bytes read at once
	queued    = 32      // chunks of one way that wait, for a delay or for who reads slowly
	ticks     = 10      // a second, of a bounded rate
)

// link is a connection of a client and the one to the target that belongs to it. Each way
// has one goroutine that reads and one that writes, so that what waits for its delay does
// not keep what comes after it from being read:
//
//	read ──▶ chunks, each with when it came ──▶ hold: hole, delay ──▶ write: garbage, rate, quota
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	cancel context.CancelFunc // ends what waits

	mu     sync.Mutex // guards the fields below
	target *net.TCPConn
	ended  bool
}

// join adds the connection to the target, or closes it if the link has ended meanwhile.
func (l *link) join(target *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = target.Close() // nothing was sent
		return false
	}
	l.target = target
	return true
}

// end closes both connections, with a reset if abort. Only the first call counts.
func (l *link) end(abort bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.cancel()
	for _, c := range []*net.TCPConn{l.client, l.target} {
		if c == nil {
			continue
		}
		if abort {
			_ = c.SetLinger(0) // the other side may have ended it
		}
		_ = c.Close() // as above
	}
}

// chunk is what was read at once, or how reading ended.
type chunk struct {
	data []byte
	came time.Time
	err  error
}

// pass copies one direction until it ends, which it tells the other side in the same
// manner: a close becomes a half-close, and anything else a reset.
func (l *link) pass(ctx context.Context, direction Direction, from, to *net.TCPConn) {
	chunks := make(chan chunk, queued)
	var reading sync.WaitGroup
	reading.Go(func() { read(ctx, from, chunks) })
	defer reading.Wait()
	p := &pipe{link: l, direction: direction, to: to}
	for {
		f := l.proxy.now()
		if f.half[direction] {
			p.close()
		}
		select {
		case c := <-chunks:
			if !p.take(ctx, c) {
				return
			}
		case <-f.changed:
		case <-ctx.Done():
			return
		}
	}
}

// read reads until that fails.
func read(ctx context.Context, from *net.TCPConn, chunks chan<- chunk) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		select {
		case chunks <- chunk{bytes.Clone(buffer[:n]), time.Now(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// hold returns when something that came at a time may go on, with the faults of that
// moment, or false if the link ends first.
func (l *link) hold(ctx context.Context, direction Direction, came time.Time) (*faults, bool) {
	for {
		f := l.proxy.now()
		due := came
		if direction == Answers {
			due = due.Add(f.delay)
		}
		wait := time.Until(due)
		if !f.hole && wait <= 0 {
			return f, ctx.Err() == nil
		}
		if f.hole {
			wait = time.Hour // until the faults change
		}
		if !f.wait(ctx, wait) {
			return nil, false
		}
	}
}

// wait returns after a time, or sooner if the faults change. It returns false if ctx ends
// first.
func (f *faults) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// pipe writes one direction of a link. It is for one goroutine.
type pipe struct {
	link      *link
	direction Direction
	to        *net.TCPConn
	closed    bool // what still comes is dropped

	quota *quota // that left counts; nil: none
	left  int64
	noise *noise // that random was made for; nil: none
	// random need not be hard to guess; the same seed must give the same bytes.
	random *rand.ChaCha8
}

// close half-closes the way.
func (p *pipe) close() {
	if !p.closed {
		p.closed = true
		_ = p.to.CloseWrite() // the other side may have ended it
	}
}

// take passes a chunk on. It returns false when the direction has ended.
func (p *pipe) take(ctx context.Context, c chunk) bool {
	f, ok := p.link.hold(ctx, p.direction, c.came)
	if !ok || !p.closed && !p.write(ctx, f, c.data) {
		return false
	}
	switch {
	case c.err == nil:
		return true
	case errors.Is(c.err, io.EOF):
		p.close()
	default:
		p.link.end(true)
	}
	return false
}

// write writes bytes under the faults. It returns false when the link has ended.
func (p *pipe) write(ctx context.Context, f *faults, data []byte) bool {
	for len(data) > 0 {
		p.count(f)
		piece := data
		if f.rate > 0 {
			piece = piece[:min(len(piece), max(1, f.rate/ticks))]
		}
		if p.quota != nil {
			piece = piece[:min(int64(len(piece)), p.left)]
			p.left -= int64(len(piece))
		}
		data = data[len(piece):]
		if p.noise != nil {
			_, _ = p.random.Read(piece) // it never fails
		}
		if _, err := p.to.Write(piece); err != nil {
			p.link.end(true)
			return false
		}
		if p.quota != nil && p.left == 0 {
			p.link.end(false)
			return false
		}
		if f.rate > 0 && !f.wait(ctx, time.Duration(len(piece))*time.Second/time.Duration(f.rate)) {
			return false
		}
		var ok bool
		if f, ok = p.link.hold(ctx, p.direction, time.Time{}); !ok {
			return false
		}
	}
	return true
}

// count begins to count, or to make noise, when the faults say so anew.
func (p *pipe) count(f *faults) {
	if q := f.quota[p.direction]; q != p.quota {
		p.quota = q
		if q != nil {
			p.left = q.bytes
		}
	}
	if n := f.garbage[p.direction]; n != p.noise {
		p.noise = n
		if n != nil {
			var seed [32]byte
			binary.LittleEndian.PutUint64(seed[:], n.seed)
			p.random = rand.NewChaCha8(seed)
		}
	}
}
