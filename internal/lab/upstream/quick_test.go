package upstream_test

import (
	"bufio"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
)

func TestStdioServerAnnouncesChanges(t *testing.T) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- upstream.NewQuick(true).ServeStdio(in, out) }()
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("got %.200q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	_, _ = io.WriteString(toServer,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}`+"\n")
	next(`"protocolVersion":"2024-11-05"`)
	_, _ = io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	next(`"inputSchema"`)
	if err := syscall.Kill(os.Getpid(), upstream.ChangeSignal); err != nil {
		t.Fatal(err)
	}
	next("tools/list_changed")
	_ = toServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
