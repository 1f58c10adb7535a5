//go:build linux

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// stranger is a user without rights whom no test machine needs to know.
var stranger = process.User{UID: 54321, GID: 54322}

// needRoot skips a test that only root can make.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip(
			"NOT TESTED: servers with a user of their own. Only root can start them; run this test as root.")
	}
}

// TestLimitsHold reads in the program, and in what it starts, the limits that it has.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits process.Limits
		want   string // the line of /proc/self/limits, soft and hard
	}{
		"memory":   {process.Limits{Memory: 512 << 20}, "Max data size 536870912 536870912"},
		"cpu time": {process.Limits{CPU: 90 * time.Second}, "Max cpu time 90 91"},
		"files":    {process.Limits{Files: 77}, "Max open files 77 77"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := engage(t, described{
				Command: "sh", Args: []string{
					"-c",
					`cat /proc/self/limits; sh -c "exec setsid cat /proc/self/limits"`,
				},
				Rights: process.Rights{Limits: test.limits}, Kept: true,
			})
			said := strings.Join(o.all(), "\n")
			if got := strings.Count(regexp.MustCompile(` {2,}`).ReplaceAllString(said, " "),
				test.want); got != 2 {
				t.Errorf("%q: got it %d times, want 2, in\n%s", test.want, got, said)
			}
		})
	}
}

// TestOveruseEndsTheProgram shows what a limit does, beyond being there.
func TestOveruseEndsTheProgram(t *testing.T) {
	t.Parallel()
	o := engage(t, described{
		Command: "sh", Args: []string{"-c", "while :; do :; done"},
		Rights: process.Rights{Limits: process.Limits{CPU: time.Second}}, Kept: true,
	})
	if got := o.hear("ended:"); !strings.HasPrefix(got, "signal: CPU time limit exceeded") {
		t.Errorf("got %q, want the end by that signal", got)
	}
}

// TestAnotherUser starts a program as somebody without rights, and finds none, nor a way
// to get one: no group of the owner, no way to the keeper, and no more processes than it
// may have.
func TestAnotherUser(t *testing.T) {
	needRoot(t)
	t.Parallel()
	// more than the threads of the process that takes the rights, which count until then
	rights := process.Rights{User: stranger, Limits: process.Limits{Processes: 50}}
	o := engage(t, described{
		Command: "sh", Kept: true, Rights: rights,
		Args: []string{"-c", `grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapBnd|NoNewPrivs):' /proc/self/status
			kill -9 $PPID || echo cannot kill
			cat /proc/$PPID/environ >/dev/null || echo cannot read
			for i in 0 1 2 3 4 5; do for j in 0 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; done; echo too many`},
	})
	said := strings.Join(strings.Fields(strings.Join(o.all(), " ")), " ")
	want := fmt.Sprintf(
		"Uid: %[1]d %[1]d %[1]d %[1]d Gid: %[2]d %[2]d %[2]d %[2]d Groups: CapPrm: 0000000000000000 CapEff: 0000000000000000 "+
			"CapBnd: 0000000000000000 NoNewPrivs: 1 "+
			"cannot kill cannot read ended: exit status 2", stranger.UID, stranger.GID)
	if said != want {
		t.Errorf("got  %s\nwant %s", said, want)
	}
}

// TestFamiliesOfAnotherUserEnd repeats with another user what
// TestGrandchildrenEndWithTheProgram does.
func TestFamiliesOfAnotherUserEnd(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for ending, end := range endings {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			mark := "DRAWBRIDGE_TEST_FAMILY=" + filepath.Join(t.TempDir(), "family")
			t.Cleanup(func() { // where the test fails
				for _, pid := range marked(t, mark) {
					kill(t, pid, syscall.SIGKILL)
				}
			})
			o := engage(t, described{
				Command: "sh", Args: []string{"-c", "(setsid sleep 1000 &); echo up $$; read line; exit 3"},
				Env: []string{mark}, Kept: true,
				Rights: process.Rights{
					User:   process.User{UID: 54323, GID: 54323},
					Limits: process.Limits{Files: 100},
				},
			})
			pid, err := strconv.Atoi(o.hear("up"))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "keeper, program and orphan are there",
				func() bool { return len(marked(t, mark)) == 3 })
			end(t, o, pid)
			eventually(t, "nobody is left", func() bool { return len(marked(t, mark)) == 0 })
		})
	}
}

// TestRightsThatCannotBeHadStartNothing asks for what the owner cannot give.
func TestRightsThatCannotBeHadStartNothing(t *testing.T) {
	t.Parallel()
	var credential *syscall.Credential // of the owner
	if os.Geteuid() == 0 {
		credential = &syscall.Credential{Uid: 54324, Gid: 54324}
	}
	for name, test := range map[string]struct {
		command string
		rights  process.Rights
		want    string
	}{
		"another user": {
			"sh",
			process.Rights{User: stranger},
			"run as user 54321: the gateway must run as root for that, with the capabilities SETUID and SETGID",
		},
		"too many files": {
			"sh",
			process.Rights{Limits: process.Limits{Files: 1 << 30}},
			"limits.files is more than the gateway itself may have: operation not permitted",
		},
		"no program": {
			"/nonexistent/server",
			process.Rights{Limits: process.Limits{Files: 100}},
			"exec /nonexistent/server: no such file or directory",
		},
	} {
		o := engageAs(t, credential, described{
			Command: test.command, Args: []string{"-c", "echo up"},
			Rights: test.rights, Kept: true,
		})
		if got := o.hear("failed:"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
