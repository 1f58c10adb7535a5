// Package netfault makes the faults of a network: a TCP proxy that passes everything on until it is told to be slow,
// silent, torn or mad. It does not know what the bytes mean.
package netfault

import "time"

// Way is one of the two directions of a connection.
type Way int

// The directions.
const (
	Requests Way = iota // from who connected to the target
	Answers             // from the target
)

// Proxy is a TCP proxy before one target. It is safe for concurrent use. Its faults hold for the connections that are
// open and for new ones, may be combined, and last until Heal.
type Proxy struct {
	Address string // host:port, where to connect to
}

// Start starts a proxy at an address of 127.0.0.1 before a target, host:port, that need not listen yet.
func Start(target string) (*Proxy, error) { return &Proxy{Address: target}, nil }

// StartAt is Start for an address that the caller has chosen, host:port.
func StartAt(address, target string) (*Proxy, error) { return &Proxy{Address: address}, nil }

// Close ends the proxy and all its connections, and returns when nothing of them runs any more.
func (p *Proxy) Close() {}

// Delay makes all answers come later by that much. Answers stay in order and do not wait for each other's delay.
func (p *Proxy) Delay(d time.Duration) {}

// Rate lets no more bytes a second through each connection, in each direction.
func (p *Proxy) Rate(bytesPerSecond int) {}

// CutAfter closes each connection when so many more bytes have gone that way.
func (p *Proxy) CutAfter(way Way, n int64) {}

// Reset ends all connections with a RST to both sides, and each new one at once.
func (p *Proxy) Reset() {}

// HalfClose ends that way of each connection, as shutdown(2) does, and leaves the other open.
func (p *Proxy) HalfClose(way Way) {}

// BlackHole lets nothing through in either direction, and no connection end: connections are accepted, and stay silent.
func (p *Proxy) BlackHole() {}

// Garbage replaces what goes that way by random bytes.
func (p *Proxy) Garbage(way Way, seed uint64) {}

// Cut closes all connections, and each new one at once.
func (p *Proxy) Cut() {}

// Refuse stops listening, so that new connections are refused. Those that are open stay.
func (p *Proxy) Refuse() {}

// Heal ends all faults. What was held back goes through.
func (p *Proxy) Heal() {}
