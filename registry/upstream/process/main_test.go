package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// limit is how long a test waits for what must happen, also on a machine with much else
// to do.
const limit = 2 * time.Minute

// keepWord makes the test binary a keeper, as the command of that name does with the
// program.
const keepWord = "keep"

// ownerRole in the environment makes the test binary the owner of one program, which it
// reads as JSON from there.
const ownerRole = "DRAWBRIDGE_TEST_OWNER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == keepWord {
		process.Keep(os.Args[2:])
	}
	if described := os.Getenv(ownerRole); described != "" {
		own(described)
		return
	}
	os.Exit(m.Run())
}

// described is a program, as a test describes it to the owner.
type described struct {
	Command string
	Args    []string
	Env     []string
	Rights  process.Rights
	Kept    bool
}

// own starts a program, says so, and does with it what its standard input says: "close"
// its input, "terminate" it or "kill" it. It says how the program ended. When its own
// input ends, it ends at once.
func own(text string) {
	var d described
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		panic(err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	p := process.Program{
		Command: d.Command, Args: d.Args, Env: append(d.Env, "PATH="+os.Getenv("PATH"),
			"GORACE=atexit_sleep_ms=0"),
		Stdin: theirs, Stdout: os.Stdout, Stderr: os.Stderr, Rights: d.Rights,
	}
	if d.Kept {
		p.Keeper = []string{os.Args[0], keepWord}
	}
	tree, err := process.Start(context.Background(), p)
	if err != nil {
		fmt.Println("failed:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	_ = theirs.Close() // the program has its own
	go func() {
		fmt.Println("ended:", tree.Wait())
		os.Exit(0)
	}()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "line":
			fmt.Fprintln(ours, "go on")
		case "close":
			_ = ours.Close() // only read by the program
		case "terminate":
			tree.Terminate()
		case "kill":
			tree.Kill()
		}
	}
	os.Exit(0)
}

// owner is a process that owns a program.
type owner struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   *os.File
	said chan string // line by line, by the owner and the program; closed at the end
}

// engage starts an owner with a program, until the test ends.
func engage(t *testing.T, d described) *owner {
	t.Helper()
	return engageAs(t, nil, d)
}

// engageAs starts an owner that runs as another user, nil: as the test's.
func engageAs(t *testing.T, user *syscall.Credential, d described) *owner {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	if user != nil {
		cmd.Path = "/proc/self/exe" // the test binary may be in a directory that is closed to others
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	}
	cmd.Env = append(os.Environ(), ownerRole+"="+string(text))
	cmd.Stdin, cmd.Stderr = theirs, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the owner has its own
	o := &owner{t: t, cmd: cmd, in: ours, said: make(chan string, 1000)}
	go func() {
		defer close(o.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			o.said <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = ours.Close()          // ends the owner
		_ = cmd.Process.Kill()    // it may have ended
		_, _ = cmd.Process.Wait() // killed or not
	})
	return o
}

// hear returns what stands behind the beginning in the next line that begins so.
func (o *owner) hear(beginning string) string {
	o.t.Helper()
	late := time.After(limit)
	var others []string
	for {
		select {
		case line, more := <-o.said:
			if rest, ok := strings.CutPrefix(line, beginning); ok {
				return strings.TrimSpace(rest)
			}
			if others = append(others, line); !more {
				o.t.Fatalf("waited in vain for %q; heard %q", beginning, others)
			}
		case <-late:
			o.t.Fatalf("waited in vain for %q; heard %q", beginning, others)
		}
	}
}

// all returns every line that was said, to the end.
func (o *owner) all() (lines []string) {
	o.t.Helper()
	late := time.After(limit)
	for {
		select {
		case line, more := <-o.said:
			if !more {
				return lines
			}
			lines = append(lines, line)
		case <-late:
			o.t.Fatalf("there was no end after %q", lines)
		}
	}
}

func (o *owner) tell(status string) {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, status); err != nil {
		o.t.Fatal(err)
	}
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(limit)
	for !check() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
