package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// address returns the host:port to listen on. The host must be an IP address or
// localhost, so that no name service decides on which interface the gateway can be
// reached.
func (r *reader) address(n *node) string {
	if host, port, err := net.SplitHostPort(n.text); err == nil && (host == "localhost" || isAddress(host)) &&
		isNumber(port) && port != "0" && !validPort(port) {
		r.fault(n, "%q: %s", n.raw, errPort)
		return ""
	}
	const want = "an address and a port, like 127.0.0.1:8080, or 0.0.0.0:8080 for all of this machine"
	return parsed(r, n, want, func(s string) (string, error) {
		_, err := netip.ParseAddrPort(withoutName(s))
		return s, err
	}, nil)
}

// overlap tells whether two addresses to listen on have one in common, so that only one
// of them can be listened on. An unspecified address is all of its kind, and that of IPv6
// all that there are.
func overlap(a, b string) bool {
	x, _ := netip.ParseAddrPort(withoutName(a)) // zero after a problem
	y, _ := netip.ParseAddrPort(withoutName(b))
	covers := func(x, y netip.Addr) bool { return x == y || x.IsUnspecified() && (x.Is6() || y.Is4()) }
	return x.Port() != 0 && x.Port() == y.Port() && (covers(x.Addr(), y.Addr()) || covers(y.Addr(), x.Addr()))
}

// withoutName returns an address to listen on with that of localhost in place of the
// name.
func withoutName(address string) string {
	return strings.Replace(address, "localhost:", "127.0.0.1:", 1)
}

// publicURL returns the address that clients type, without a slash at the end; "" after a
// problem with the text. A path is refused, with a hint at what is left without /mcp.
func (r *reader) publicURL(n *node) string {
	text := strings.TrimSuffix(r.text(n), "/")
	if text == "" {
		return ""
	}
	switch err := checkOrigin(text); {
	case errors.Is(err, errOrigin):
		hint := ""
		if cut := strings.TrimSuffix(text, "/mcp"); checkOrigin(cut) == nil && !n.expanded {
			hint = cut
		}
		r.faultHint(n, hint, "public_url is scheme://host or scheme://host:port, without a path, "+
			"and a host beyond ASCII as xn--…")
	case err != nil:
		r.fault(n, "public_url: %s", err)
	case text != strings.ToLower(text):
		r.fault(n, "public_url has capital letters: write small ones, since programs write addresses so and "+
			"compare them exactly")
	}
	return text
}

// IsLoopback tells whether only this machine can reach an address of the form host:port.
// It resolves no names: of all names, only localhost is taken for loopback.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopbackHost(host)
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// checkOrigin returns what is wrong with an origin, nil when nothing is. An origin is
// scheme and host alone, as browsers send it in the header Origin: no star stands for
// other hosts, and no letter is beyond ASCII.
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || !hostPattern.MatchString(u.Host) || (u.Scheme != "http" && u.Scheme != "https") ||
		u.Scheme+"://"+u.Host != text {
		return errOrigin
	}
	if !validPort(u.Port()) {
		return errPort
	}
	if rest, found := strings.CutSuffix(text, ":"+dial.UsualPort(u.Scheme)); found {
		return fmt.Errorf("browsers leave the usual port out of an origin; write %s", rest)
	}
	return nil
}

// errOrigin says what an origin is.
var errOrigin = errors.New("an origin is scheme://host or scheme://host:port, like https://app.example.com")

var hostPattern = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// checkHost returns what is wrong with a value of the header Host, nil when nothing is.
func checkHost(text string) error {
	if !hostPattern.MatchString(text) {
		return errors.New("a host is a name or an address, with or without :port")
	}
	if _, port, _ := strings.Cut(text[strings.LastIndex(text, "]")+1:], ":"); !validPort(port) {
		return errPort
	}
	return nil
}

// prefixes returns the networks of trusted_proxies. An address with bits beyond the
// length of its network, such as 10.1.2.3/8, is refused: whoever wrote it perhaps meant
// one machine and would trust a whole network.
func (r *reader) prefixes(n *node) []netip.Prefix {
	var out []netip.Prefix
	r.eachText(n, "trusted_proxies", func(at *node, text string) {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err == nil && prefix.Masked() == prefix:
			out = append(out, prefix)
		case err == nil:
			r.faultHint(at, prefix.Masked().String(), "%q has bits beyond its length", at.raw)
		default:
			hint := ""
			if address, err := netip.ParseAddr(text); err == nil && !at.expanded {
				hint = netip.PrefixFrom(address, address.BitLen()).String()
			}
			r.faultHint(at, hint, "%q is not a CIDR like 10.0.0.0/8", at.raw)
		}
	})
	return out
}
