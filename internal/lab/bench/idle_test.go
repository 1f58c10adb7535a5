package main

import (
	"bufio"
	"net"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestStreamsAreReadHoweverTheyAreCut sends heartbeats and notices in pieces of every
// size.
func TestStreamsAreReadHoweverTheyAreCut(t *testing.T) {
	const notice = "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"" + mcp.NotifyToolsChanged + "\"}\n\n"
	for _, size := range []int{1, 2, 3, 7, 30, 200} {
		reading, server := net.Pipe()
		s := &idleStream{conn: &client.Conn{In: bufio.NewReaderSize(reading, 16)}}
		done := make(chan struct{})
		go func() {
			s.read()
			close(done)
		}()
		send := func(text string) {
			for len(text) > 0 {
				n := min(size, len(text))
				if _, err := server.Write([]byte(text[:n])); err != nil {
					t.Error(err)
					return
				}
				text = text[n:]
			}
		}
		send("\n: alive\n\n")
		send("\n: alive\n\n")
		if s.told.Load() != 0 {
			t.Errorf("pieces of %d: a heartbeat counts as a notice", size)
		}
		send(notice)
		send("\n: alive\n\n")
		_ = server.Close()
		<-done
		if s.told.Load() == 0 || !s.ended.Load() {
			t.Errorf("pieces of %d: told %d, ended %v", size, s.told.Load(), s.ended.Load())
		}
		if got := s.beats.Load(); got < 1 || got > 3 {
			t.Errorf("pieces of %d: %d heartbeats, want up to 3", size, got)
		}
	}
}

func TestCrowdsAreNoLargerThanTheSystemAllows(t *testing.T) {
	sizes, note := crowdSizes(0)
	if len(sizes) != 0 || note != "" {
		t.Errorf("none asked for: %v %q", sizes, note)
	}
	sizes, _ = crowdSizes(40)
	if len(sizes) != 1 || sizes[0] != 40 {
		t.Errorf("40 asked for: %v", sizes)
	}
	sizes, note = crowdSizes(1 << 30)
	if len(sizes) != 2 || sizes[0] != 1000 || sizes[1] >= 1<<30 || note == "" {
		t.Errorf("too many asked for: %v %q", sizes, note)
	}
}
