package deploy_test

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
)

// names is a name server that gives every name the same addresses, as that of a container
// engine does with a service of several containers.
type names struct {
	address string // where it answers

	mu  sync.Mutex // guards ips
	ips []string
}

// newNames starts one that runs until the test ends. Until set is called, no name has an
// address.
func newNames(t *testing.T) *names {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	n := &names{address: conn.LocalAddr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serve(conn)
	}()
	t.Cleanup(func() {
		_ = conn.Close() // which ends serve
		<-done
	})
	return n
}

func (n *names) set(ips []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ips = ips
}

func (n *names) serve(conn net.PacketConn) {
	question := make([]byte, 512)
	for {
		size, from, err := conn.ReadFrom(question)
		if err != nil {
			return
		}
		_, _ = conn.WriteTo(n.answer(question[:size]), from) // who does not hear it asks again
	}
}

// answer returns the answer to a question for one name: the same bytes with an address
// behind them for each replica. https://www.rfc-editor.org/rfc/rfc1035#section-4
func (n *names) answer(question []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	const header, response, noError = 12, 0x84, 0
	if len(question) < header {
		return nil
	}
	answer := append([]byte(nil), question...)
	answer[2], answer[3] = response, noError
	binary.BigEndian.PutUint16(answer[6:], uint16(len(n.ips)))
	for _, ip := range n.ips {
		answer = append(answer,
			0xc0, header, // the name of the question
			0, 1, 0, 1, // an address, of the internet
			0, 0, 0, 1, // to be kept for a second
			0, 4)
		answer = append(answer, net.ParseIP(ip).To4()...)
	}
	return answer
}
