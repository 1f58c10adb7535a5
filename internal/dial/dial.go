// Package dial answers: may the gateway connect to this address? It makes every
// connection that a config or an upstream can cause. It checks the address after name
// resolution, right before it connects there, so that no name leads to a loopback,
// private or otherwise special address unless that is allowed for this one destination.
// Without that check a config, or a server's answer, could aim the gateway at services
// that only it can reach (SSRF). Of what is said over a connection this package knows no
// more than HTTP: neither MCP nor who calls.
//
// dial.go decides about addresses and makes the client, and send.go asks by one.
// transport.go sends the requests: plain ones over connections of its own, all others
// through net/http. conn.go is one such connection, begin.go and step.go send a request
// over it, pool.go keeps those that are idle, keepalive.go says for how long, and
// canceler.go ends requests whose contexts end. post.go sends what was prepared,
// answer.go reads the usual answer to that, and secure.go does the same over TLS.
// peers.go sends what is no HTTP.
//
// It is the only package that imports code.dny.dev/ssrf, and the only one that makes HTTP
// transports.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	connectTimeout   = 2 * time.Second // for resolving a name and trying its addresses
	handshakeTimeout = 5 * time.Second // of TLS
	// bytes of a response's header, informational responses before it included
	maxHeader = 64 << 10
	maxIdle   = 256 // idle connections that are kept for one host

	// pingAfter is how long a connection of HTTP/2 may be silent until its server is
	// asked for a sign of life. A server that gives none within 15 s is reached over
	// another connection. Else all requests would go on to use one that the network has
	// lost without a word, for as long as the kernel sends again what nobody
	// acknowledges: a quarter of an hour.
	pingAfter = 30 * time.Second

	// receiveBuffer is how much of what was not read yet the kernel keeps for one
	// connection, in bytes; Linux counts twice as much for its own overhead. By itself
	// Linux lets that grow to 6 MiB for a server that sends fast, which a container is
	// charged for, and a gateway that waits for room for an answer would hold it there.
	receiveBuffer = 128 << 10
)

// ErrProhibited is wrapped in the error of a request that needed a connection to an
// address which is not allowed.
var ErrProhibited = errors.New("address not allowed")

// Config of a client. The zero Config reaches public addresses only.
type Config struct {
	// PrivateAddresses allows loopback and private addresses too. Link-local addresses,
	// those of metadata services and other special ones are never allowed.
	PrivateAddresses bool
}

// Client returns an HTTP client that checks every address it connects to. It does not
// follow redirects: the 3xx response is the response, because its Location is the
// server's choice. It uses no proxy of the environment, keeps no cookies, does not ask
// for compression, and connects within 2 s. Otherwise it has no timeout of its own: a
// request ends with its context. It is safe for concurrent use.
func Client(cfg Config) *http.Client {
	return &http.Client{
		Transport: newTransport(newDialer(cfg.PrivateAddresses, nil)),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// Check tells, without connecting, whether a client of that config may connect to the
// address. If not, the error is ErrProhibited. An IPv4 address that is written as IPv6
// (::ffff:10.0.0.1) is judged as IPv4, since the operating system connects to it as IPv4.
func (c Config) Check(address netip.Addr) error {
	address = address.Unmap()
	network := "tcp4"
	if address.Is6() {
		network = "tcp6"
	}
	// Every port is allowed, so it does not matter that this one is 443.
	return check(guardian(c.PrivateAddresses), guardian(true), network,
		netip.AddrPortFrom(address, 443).String())
}

// newRest returns the transport of net/http for the requests that are not plain. Every
// field that it does not set is at its zero value, which among others means that there is
// no proxy.
//
// net/http does not read Keep-Alive (keepalive.go): it keeps an idle connection for
// idleTimeout, whatever its server names, unless a close has arrived. It sends a request
// that crossed the close again if no byte of it was written, if its method is safe, or if
// it has an Idempotency-Key. Others are lost: a POST of more than maxSent, and over TLS
// and HTTP/1.1 also one that is no Post. A server of HTTP/2 says which requests it did
// not take.
func newRest(d *dialer) *http.Transport {
	return &http.Transport{
		DialContext:            d.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTimeout,
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true, // over TLS; a transport with a dialer of its own would not try
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter},
	}
}

// dialer opens connections to addresses that are allowed.
type dialer struct{ inner net.Dialer }

// newDialer returns a dialer that resolves names with resolver; nil means that of the
// system. ControlContext is called for each address that a name resolves to, right before
// the connection to it. A check before that could be deceived by a name that resolves to
// one address when it is checked and to another when it is connected to (DNS rebinding).
func newDialer(private bool, resolver *net.Resolver) *dialer {
	guard, relaxed := guardian(private), guardian(true)
	return &dialer{inner: net.Dialer{
		Timeout:  connectTimeout,
		Resolver: resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(guard, relaxed, network, address)
		},
	}}
}

// DialContext opens a connection for which the kernel keeps little.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.inner.DialContext(ctx, network, address)
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(receiveBuffer) // without it the connection works too, and may take more memory
	}
	return c, err
}

// check returns an error unless guard lets a connection to the address through. relaxed
// is the guard that allows private addresses: if it would, the error names the setting
// that is the cure.
func check(guard, relaxed *ssrf.Guardian, network, address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || slices.Contains(metadata(), target.Addr().Unmap()) {
		return fmt.Errorf("%w: %s is a metadata service", ErrProhibited, address)
	}
	err = guard.Safe(network, address, nil)
	switch {
	case err == nil:
		return nil
	case relaxed.Safe(network, address, nil) == nil:
		return fmt.Errorf("%w without private_addresses: true: %w", ErrProhibited, err)
	}
	return fmt.Errorf("%w: %w", ErrProhibited, err)
}

// guardian returns a guard that allows every address that anybody on the internet can
// reach. With private it also allows those of this host and those of private networks
// (RFC 1918, RFC 4193).
func guardian(private bool) *ssrf.Guardian {
	options := []ssrf.Option{ssrf.WithAnyPort()}
	if private {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(
				netip.MustParsePrefix("127.0.0.0/8"),
				netip.MustParsePrefix("10.0.0.0/8"),
				netip.MustParsePrefix("172.16.0.0/12"),
				netip.MustParsePrefix("192.168.0.0/16"),
			),
			ssrf.WithAllowedV6Prefixes(
				netip.MustParsePrefix("::1/128"),
				netip.MustParsePrefix("fc00::/7"),
			))
	}
	return ssrf.New(options...)
}

// metadata lists the services that hand the credentials of a machine to whoever asks from
// it, and that lie in ranges which are allowed otherwise. All other such services are at
// link-local or shared addresses, which are never allowed.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("168.63.129.16"), // Azure
		netip.MustParseAddr("fd00:ec2::254"), // AWS
		netip.MustParseAddr("fd20:ce::254"),  // Google Cloud
	}
}

// Connect opens a connection to an address, host:port, that the operator has named, or a
// server that the operator trusts. It may be private. secure is nil for a connection
// without TLS; an empty ServerName means the host of the address.
func Connect(ctx context.Context, address string, secure *tls.Config) (net.Conn, error) {
	plain, err := newDialer(true, nil).DialContext(ctx, "tcp", address)
	if err != nil || secure == nil {
		return plain, err
	}
	if secure.ServerName == "" {
		secure = secure.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(address) // it has both: it was connected to
	}
	c := tls.Client(plain, secure)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return c, nil
}
