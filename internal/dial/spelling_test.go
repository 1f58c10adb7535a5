package dial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// spelt returns an IPv4 address in the ways in which some resolver, parser or translator
// reads that address. What is no address for Go is a name, for which the resolver of the
// test gives the address.
func spelt(address netip.Addr) []string {
	b := address.As4()
	n := binary.BigEndian.Uint32(b[:])
	all := []string{
		address.String(), address.String() + ".", fmt.Sprintf("user:pass@%s", address), "%31" +
			address.String()[1:],
		fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("00000000%o", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1],
			b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xFFFFFF), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xFFFF),
		fmt.Sprintf("0x%x.%d", b[0], n&0xFFFFFF),
		fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		address.String() + ".nip.test", "rebind.test", "REBIND.TEST.", "a.b.c.d.rebind.test",
		"xn--rebind-6ya.test",
	}
	for _, format := range []string{
		"[::ffff:%s]", "[::%s]", "[64:ff9b::%s]", "[::ffff:0:%s]",
		"[0:0:0:0:0:ffff:%s]", "[::FFFF:%s]",
	} {
		all = append(all, fmt.Sprintf(format, address))
	}
	return append(all, fmt.Sprintf("[2002:%02x%02x:%02x%02x::1]", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xFFFF))
}

// TestT7SpecialAddressesInEverySpelling asks for addresses that must not be reached, in
// every spelling.
func TestT7SpecialAddressesInEverySpelling(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, text := range []string{
		"127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
		"100.100.100.200", "0.0.0.0", "192.0.0.192",
		"198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16",
	} {
		address := netip.MustParseAddr(text)
		client := &http.Client{Transport: newTransport(newDialer(false,
			resolverOf(func() netip.Addr { return address })))}
		for _, host := range spelt(address) {
			tried++
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":9/",
				http.NoBody)
			if err != nil {
				continue // it is no URL, so that there is nothing to connect to
			}
			response, err := client.Do(request)
			if err == nil {
				response.Body.Close()
			}
			if _, unknown := errors.AsType[*net.DNSError](err); !unknown && !errors.Is(err, ErrProhibited) {
				t.Errorf("%s as %s: got %v, want %v", address, host, err, ErrProhibited)
			}
		}
	}
	t.Attr("spellings", fmt.Sprint(tried))
	if tried < 300 {
		t.Errorf("%d spellings, want 300", tried)
	}
}
