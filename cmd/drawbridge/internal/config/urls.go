package config

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// validPort tells whether the port of an address is from 1 to 65535. An address without a
// port, "", is good too.
func validPort(port string) bool {
	number, err := strconv.Atoi(port)
	return port == "" || err == nil && number >= 1 && number <= 65535
}

// errPort says what is wrong with a port that is not valid.
var errPort = errors.New("the port is not from 1 to 65535")

// checkReachable reports an address that the gateway would never connect to: link-local
// and other special ones, and loopback and private ones unless private is set. A metadata
// service of a cloud is among them. A URL with a name passes, since where the name leads
// is checked at each connection.
func (r *reader) checkReachable(n *node, private bool) {
	address, ok := addressOf(n.text)
	switch {
	case !ok || (dial.Config{PrivateAddresses: private}).Check(address) == nil:
	case dial.Config{PrivateAddresses: true}.Check(address) == nil:
		r.fault(n, "this is a loopback or private address; nothing connects there without "+
			"private_addresses: true beside it")
	default:
		r.fault(n,
			"nothing connects to this address: it is link-local, a metadata service or otherwise special")
	}
}

// addressOf returns the IP address in a URL. If the URL has a name, ok is false, except
// for localhost and names below it, which stand for loopback.
func addressOf(text string) (address netip.Addr, ok bool) {
	host := strings.ToLower(strings.TrimSuffix(parsedURL(text).Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	address, err := netip.ParseAddr(host)
	return address, err == nil
}

// isLoopbackHost tells whether a host is this machine, as browsers write it.
func isLoopbackHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// serverURL reads an address of a server, of which is known whether it may be private.
// Its messages never quote the address, because the query of a URL may hold a secret.
func (r *reader) serverURL(s *Server) func(*node) string {
	return func(n *node) string {
		text := r.text(n)
		u := parsedURL(text)
		if text != "" && !r.faultFirst(
			wrong{
				u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Contains(text, " "), n,
				"this is not an http or https address",
			},
			wrong{u.User != nil, n, "credentials do not belong into an address; put them into headers"},
			wrong{u.Fragment != "", n, "an address with a #fragment"},
			wrong{!validPort(u.Port()), n, errPort.Error()}) {
			r.checkReachable(n, s.PrivateAddresses)
		}
		return text
	}
}

// parsedURL returns the parts of an address; all are empty if it is none.
func parsedURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		return &url.URL{}
	}
	return u
}
