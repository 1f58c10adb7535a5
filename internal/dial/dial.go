// Package dial makes every connection that a config or an upstream can cause. It checks the address after name
// resolution, so that no name leads to a loopback, private or otherwise special address unless that is allowed for
// this one destination. Of what is said over a connection it knows no more than HTTP.
//
// It is the only door to code.dny.dev/ssrf and the only maker of HTTP transports.
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
	connectTimeout   = 2 * time.Second
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 90 * time.Second
	maxHeader        = 64 << 10 // bytes of a response's header
	maxIdle          = 256      // connections per host
)

// ErrProhibited is in the error of a request whose address is not allowed.
var ErrProhibited = errors.New("address not allowed")

// Config of a client.
type Config struct {
	PrivateAddresses bool // loopback and private addresses are allowed; link-local, metadata and other special ones never are
}

// Client returns an HTTP client that follows no redirect (the 3xx response is the response), uses no proxy of the
// environment, keeps no cookies, does not ask for compression, connects within 2 s and checks every address it
// connects to. It has no timeout of its own: a request ends with its context.
func Client(cfg Config) *http.Client {
	return &http.Client{
		Transport: newTransport(dialer(cfg.PrivateAddresses, nil)),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// Check tells whether a client of that config may connect to the address, by the address alone. The error is
// ErrProhibited. An IPv4 address in the form of IPv6 is judged as IPv4, since that is what it is connected to as.
func (c Config) Check(address netip.Addr) error {
	address = address.Unmap()
	network := "tcp4"
	if address.Is6() {
		network = "tcp6"
	}
	return check(guardian(c.PrivateAddresses), guardian(true), network, netip.AddrPortFrom(address, 443).String())
}

// newRest returns what sends all requests that are not plain.
func newRest(d *net.Dialer) *http.Transport {
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
	}
}

// dialer returns a dialer that asks resolver (nil: the system's) and checks each address that comes of it right before
// it connects there, so that a second look-up cannot bring another one.
func dialer(private bool, resolver *net.Resolver) *net.Dialer {
	guard, relaxed := guardian(private), guardian(true)
	return &net.Dialer{
		Timeout:  connectTimeout,
		Resolver: resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(guard, relaxed, network, address)
		},
	}
}

// check tells whether guard lets a connection through. relaxed is the one that allows private addresses.
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

// guardian allows every address that is reachable over the whole internet, and with private also those of this host
// and of its own networks.
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

// metadata lists the services that hand a machine's credentials to whoever asks from it and that lie in ranges which
// are allowed otherwise. The rest of them are link-local or shared addresses.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("168.63.129.16"), // Azure
		netip.MustParseAddr("fd00:ec2::254"), // AWS
		netip.MustParseAddr("fd20:ce::254"),  // Google Cloud
	}
}
