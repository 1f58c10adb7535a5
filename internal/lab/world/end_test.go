package world_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// asOther is the variable of the environment that makes the test binary start a world in
// that folder and wait for its end.
const asOther = "WORLD_OTHER"

// beOther starts a world, prints the ids of all processes that it started, and stays.
func beOther(dir string) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	w := world.Start(ctx, world.Config{
		Upstreams: map[string]string{"echo": echo().Listener.Addr().String() + "/mcp"}, Dir: dir,
		Program: os.Getenv("WORLD_PROGRAM"), Balancer: "nginx", Replicas: 2, Redis: "one",
		Namespaces: os.Geteuid() == 0,
	})
	for _, pid := range descendants(os.Getpid()) {
		fmt.Println(pid)
	}
	fmt.Println(w.URL)
	select {}
}

// descendants returns the processes that a process has started and that have not ended,
// with theirs.
func descendants(pid int) (all []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			child, _ := strconv.Atoi(field)
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// TestNothingOutlivesAProcessThatIsKilled kills a process with a world.
func TestNothingOutlivesAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	needs(t, "nginx", "redis-server")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), self)
	other.Env = append(os.Environ(), asOther+"="+t.TempDir(), "WORLD_PROGRAM="+program)
	other.Stderr = os.Stderr
	output, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	var url string
	for lines := bufio.NewScanner(output); url == "" && lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil {
			pids = append(pids, pid)
		} else {
			url = lines.Text()
		}
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	if len(pids) < 4 || url == "" {
		t.Fatalf("got processes %v of a world at %q", pids, url)
	}
	gone(t, pids)
	if os.Geteuid() != 0 {
		return
	}
	// and clears away the bridge
	start(t, world.Config{Balancer: "nginx", Replicas: 1, Redis: "one", Namespaces: true})
	bridges, _ := filepath.Glob("/sys/class/net/dbchaos*/ifalias")
	for _, file := range bridges {
		if text, _ := os.ReadFile(file); strings.TrimSpace(string(text)) == strconv.Itoa(other.Process.Pid) {
			t.Errorf("%s is left", file)
		}
	}
}

// gone fails unless no process of them lives any more. Those of a parent that was killed
// become others' children, who may take a moment to see that they have ended.
func gone(t *testing.T, pids []int) {
	t.Helper()
	ctx := within(t)
	for _, pid := range pids {
		for lives(pid) {
			select {
			case <-ctx.Done():
				t.Fatalf("process %d outlives the world", pid)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// lives tells whether a process runs. One that has ended and that nobody has asked for
// does not.
func lives(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	w := start(t, world.Config{Balancer: "haproxy", Replicas: 2, Redis: "watched"})
	pids := []int{w.Replicas[0].PID(), w.Replicas[1].PID()}
	w.Replicas[0].Freeze()
	w.Close()
	gone(t, pids)
	if err := must.Try(func() { w.Replicas[1].Start(within(t)) }); err == nil {
		t.Error("a replica began in a world that has ended")
	}
	addresses := []string{
		strings.TrimPrefix(w.URL, "http://"), w.Redis.Nodes[0].Address, w.Redis.Nodes[1].Address,
		w.Redis.Sentinel.Address,
		w.Replicas[0].Address, w.Replicas[0].Operator, w.Replicas[0].Balancer.Address,
		w.Replicas[0].Redis.Address, w.Replicas[0].Upstream["echo"].Address,
	}
	for _, address := range addresses { // the worker of HAProxy ends a moment after its master
		nobodyListens(t, address)
	}
}

// nobodyListens fails unless connections to an address are refused.
func nobodyListens(t *testing.T, address string) {
	t.Helper()
	ctx := within(t)
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			_ = connection.Close()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: got %v, want that nobody listens", address, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestAWorldThatCannotStart says why, and leaves nothing.
func TestAWorldThatCannotStart(t *testing.T) {
	t.Parallel()
	needs(t, "nginx", "redis-server")
	good := world.Config{
		Balancer: "nginx", Replicas: 1, Redis: "one",
		Upstreams: map[string]string{"echo": "127.0.0.1:1/mcp"},
	}
	for want, spoil := range map[string]func(*world.Config){
		"want nginx or haproxy":        func(c *world.Config) { c.Balancer = "dnsmasq" },
		"want one, watched or cluster": func(c *world.Config) { c.Redis = "none" },
		"want 1 to 5":                  func(c *world.Config) { c.Replicas = 6 },
		"needs one":                    func(c *world.Config) { c.Upstreams = nil },
		"replica-0 has ended with exit code 2": func(
			c *world.Config,
		) {
			c.Upstreams = map[string]string{"no name": "127.0.0.1:1/mcp"}
		},
		"no such file or directory": func(c *world.Config) { c.Program = "/nowhere/drawbridge" },
	} {
		c := good
		c.Dir, c.Program = t.TempDir(), program
		spoil(&c)
		if w, err := must.Got(func() *world.World { return world.Start(within(t), c) }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v and %v, want %s", w, err, want)
		}
	}
}
