//go:build linux

package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// childVariable has this test program start a server, say where it is, and wait to be
// killed.
const childVariable = "REDISTEST_CHILD"

// TestServersEndWithKilledTests kills a test program that has a server.
func TestServersEndWithKilledTests(t *testing.T) {
	t.Parallel()
	if os.Getenv(childVariable) != "" {
		s := redistest.StartOne(t)
		fmt.Println("server", s.Address, s.Dir) // for the test that has started this one
		select {}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersEndWithKilledTests$")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var address, dir string
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		// other lines are those of the test runner
		_, _ = fmt.Sscanf(lines.Text(), "server %s %s", &address, &dir)
	}
	_ = child.Process.Kill()
	_ = child.Wait() // it was killed
	if address == "" || dir == "" {
		t.Fatal("the child started no server")
	}
	defer os.RemoveAll(filepath.Dir(dir)) // which the child could not remove
	redistest.Wait(t, func() error {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			return errors.Join(errors.New("the server still runs"), c.Close())
		}
		return nil
	})
}
