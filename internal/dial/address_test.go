package dial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// TestT7SpecialAddresses shows which addresses are refused, always or unless private ones
// are allowed. It is inside the package because most of these addresses cannot be reached
// from a test, so that only the check itself can tell a refusal from a failure.
func TestT7SpecialAddresses(t *testing.T) {
	t.Parallel()
	private := []string{
		"127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::1",
		"fc00::1", "fd12:3456::1",
	}
	never := []string{
		"0.0.0.0", "0.1.2.3", "100.64.0.1", "100.100.100.200", "169.254.169.254", "169.254.0.1", "192.0.0.1",
		"192.0.0.192", "192.0.2.1",
		"192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
		"240.0.0.1", "255.255.255.255",
		"168.63.129.16",
		"::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
		"::ffff:0:127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
		"2002:7f00:1::1", "2002:a9fe:a9fe::1",
		"3fff::1", "5f00::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "fd00:ec2::254",
		"fd20:ce::254", "::1%lo", "fd12:3456::1%eth0",
	}
	t.Attr("spellings", fmt.Sprint(len(private)+len(never)))
	public := []string{
		"1.1.1.1", "93.184.216.34", "172.15.255.255", "172.32.0.1", "2606:4700::1111",
		"2a00:1450:4001::200e",
	}
	for _, test := range []struct {
		addresses        []string
		open, privateToo bool
	}{{private, false, true}, {never, false, false}, {public, true, true}} {
		for _, address := range test.addresses {
			for allowed, want := range map[bool]bool{false: test.open, true: test.privateToo} {
				err := control(allowed, address)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrProhibited) {
					t.Errorf("%s, private addresses %v: got error %v, want none: %v", address, allowed, err,
						want)
				}
				parsed := netip.MustParseAddr(address)
				own := Config{PrivateAddresses: allowed}.Check(parsed)
				if !parsed.Is4In6() && (own == nil) != want || own != nil && !errors.Is(own, ErrProhibited) {
					t.Errorf("%s, private addresses %v: got %v of Check, want none: %v", address, allowed,
						own, want)
				}
				cure := test.privateToo && !want
				if err != nil && strings.Contains(err.Error(), "private_addresses: true") != cure {
					t.Errorf("%s: got error %v, want what cures it named: %v", address, err, cure)
				}
			}
		}
	}
}

// TestCheckJudgesAMappedAddressAsDialDoes compares what Check says of an IPv4 address in
// the form of IPv6 with what becomes of a request to it.
func TestCheckJudgesAMappedAddressAsDialDoes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	mapped := netip.AddrFrom16(at.Addr().As16())
	for _, private := range []bool{false, true} {
		cfg := Config{PrivateAddresses: private}
		url := "http://" + netip.AddrPortFrom(mapped, at.Port()).String()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := Client(cfg).Do(request)
		if err == nil {
			response.Body.Close()
		}
		if own := cfg.Check(mapped); (err == nil) != private || (own == nil) != private {
			t.Errorf("%v, private addresses %v: got %v, and %v of Check, want none: %v", mapped, private, err,
				own, private)
		}
	}
}

func control(private bool, address string) error {
	network := "tcp4"
	if strings.Contains(address, ":") {
		network = "tcp6"
	}
	return newDialer(private, nil).inner.ControlContext(context.Background(), network,
		net.JoinHostPort(address, "443"), nil)
}

func TestT7OtherNetworksAreRefused(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "udp4", "ip4"} {
		if err := newDialer(true, nil).inner.ControlContext(t.Context(), network, "127.0.0.1:53",
			nil); !errors.Is(err, ErrProhibited) {
			t.Errorf("%s: got error %v, want %v", network, err, ErrProhibited)
		}
	}
}

// TestT47Rebinding shows that a name is judged by the address that is connected to,
// whatever it resolved to before.
func TestT47Rebinding(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request,
	) {
		reached.Add(1)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	resolver := resolverOf(func() netip.Addr {
		if asked.Add(1) == 1 {
			return netip.MustParseAddr("198.51.100.7") // any but the server's
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	if _, err := resolver.LookupHost(t.Context(), "rebind.test."); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://rebind.test.:"+port,
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: newTransport(newDialer(false, resolver))}
	if response, err := client.Do(request); !errors.Is(err, ErrProhibited) {
		t.Errorf("got response %v and error %v, want %v", response, err, ErrProhibited)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the server on the loopback address was reached %d times", n)
	}
	client.Transport = newTransport(newDialer(true, resolver))
	if _, err := client.Do(request); err != nil || reached.Load() != 1 {
		t.Errorf("with private addresses: reached %d times, error %v, want 1 and none", reached.Load(), err)
	}
}

// resolverOf returns a resolver that answers each look-up of an IPv4 address with what
// answer returns, and knows no IPv6 address of any name.
func resolverOf(answer func() netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { // ends when the resolver closes its side
			defer server.Close()
			serveName(server, answer)
		}()
		return client, nil
	}}
}

// serveName answers one query framed as over TCP (RFC 1035, section 4.2.2).
func serveName(conn net.Conn, answer func() netip.Addr) {
	size := make([]byte, 2)
	if _, err := io.ReadFull(conn, size); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size))
	if _, err := io.ReadFull(conn, query); err != nil {
		return
	}
	end := 12 // of the question, behind the header
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	response := append([]byte{}, query[:end+5]...)
	response[2], response[3] = 0x81, 0x80
	clear(response[6:12])
	if kind == 1 {
		response[7] = 1
		response = append(response, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		response = append(response, answer().AsSlice()...)
	}
	binary.BigEndian.PutUint16(size, uint16(len(response)))
	conn.Write(append(size, response...))
}
