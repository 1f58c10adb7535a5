package upstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestAFaultOfTheNameServerIsToldInTheSameWords asks one that nobody runs, twice. The log
// tells of a server that is down once for each reason.
func TestAFaultOfTheNameServerIsToldInTheSameWords(t *testing.T) {
	t.Parallel()
	nobody, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := nobody.LocalAddr().String()
	nobody.Close()
	d := net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", at)
		},
	}}
	var told [2]string
	for i := range told {
		_, err := d.DialContext(t.Context(), "tcp", "away.test.:80")
		if _, ok := errors.AsType[*net.DNSError](err); !ok {
			t.Fatalf("got %v, want an error of the name server", err)
		}
		told[i] = problem(fault("far").unavailable(false, err))
	}
	if told[0] != told[1] || !strings.Contains(told[0], ": read udp "+at+": ") {
		t.Errorf("got %q and then %q, want the same, about %s", told[0], told[1], at)
	}
}
