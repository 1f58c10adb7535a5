//go:build linux

package process_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// families are what programs start beside themselves, as commands of a shell, and how
// many processes there are then at least. $0 is a file of the test.
var families = map[string]struct {
	script string
	size   int
}{
	"a child":                           {`sleep 1000 &`, 1},
	"a child in a session of its own":   {`setsid sleep 1000 &`, 1},
	"an orphan in a session of its own": {`(setsid sh -c 'sleep 1000 & sleep 1000' &)`, 2},
	"sessions within sessions":          {`setsid sh -c 'setsid sh -c "setsid sleep 1000 & sleep 1000" & sleep 1000' &`, 5},
	"one that is deaf to kind signals": {
		`setsid sh -c 'trap "" TERM INT HUP; sleep 1000; sleep 1000' &`,
		2,
	},
	"one that was stopped":                {`setsid sleep 1000 & kill -STOP $!`, 1},
	"many":                                {`for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep 1000 & (setsid sleep 1000 &) done`, 20},
	"a name that looks like a state":      {`cp "$(command -v sleep)" "$0.d/a) Z 1 (b"; setsid "$0.d/a) Z 1 (b" 1000 &`, 1},
	"one that flees from parent to child": {`printf '[ -e "$0" ] && setsid sh "$0" & exit' >"$0"; setsid sh "$0" &`, 0},
}

// endings are how programs come to their end. pid is the program's.
var endings = map[string]func(t *testing.T, o *owner, pid int){
	"ends by itself":  func(_ *testing.T, o *owner, _ int) { o.tell("close") },
	"crashes":         func(t *testing.T, _ *owner, pid int) { kill(t, pid, syscall.SIGSEGV) },
	"is asked to end": func(_ *testing.T, o *owner, _ int) { o.tell("terminate") },
	"is ended":        func(_ *testing.T, o *owner, _ int) { o.tell("kill") },
	"loses its owner": func(_ *testing.T, o *owner, _ int) { _ = o.in.Close() },
	"loses its owner to SIGKILL": func(t *testing.T, o *owner, _ int) {
		kill(t, o.cmd.Process.Pid, syscall.SIGKILL)
	},
}

func kill(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Errorf("signal %v to %d: %v", s, pid, err)
	}
}

// TestGrandchildrenEndWithTheProgram lets every family meet every ending, and finds
// nobody left. Before there were keepers, whoever had called setsid stayed for ever, and
// each grandchild of an owner that was killed.
func TestGrandchildrenEndWithTheProgram(t *testing.T) {
	t.Parallel()
	for family, members := range families {
		for ending, end := range endings {
			t.Run(family+"/"+ending, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "family")
				if err := os.Mkdir(file+".d", 0o700); err != nil {
					t.Fatal(err)
				}
				mark := "DRAWBRIDGE_TEST_FAMILY=" + file
				t.Cleanup(func() { // where the test fails
					for _, pid := range marked(t, mark) {
						kill(t, pid, syscall.SIGKILL)
					}
				})
				o := engage(t, described{
					Command: "sh", Args: []string{
						"-c", members.script + "\necho up $$; read line; exit 3",
						file,
					}, Env: []string{mark}, Kept: true,
				})
				pid, err := strconv.Atoi(o.hear("up"))
				if err != nil {
					t.Fatal(err)
				}
				const keeperAndProgram = 2
				eventually(t, "the family is there",
					func() bool { return len(marked(t, mark)) >= keeperAndProgram+members.size })
				end(t, o, pid)
				eventually(t, "nobody is left", func() bool { return len(marked(t, mark)) == 0 })
			})
		}
	}
}

// TestAStoppedKeeperLeavesNoGrandchildren lets a program stop its keeper. Nobody heard
// then that everything was to end, and when the keeper was killed for it, whoever had
// called setsid stayed.
func TestAStoppedKeeperLeavesNoGrandchildren(t *testing.T) {
	t.Parallel()
	for ending, want := range map[string]string{"terminate": "signal: terminated", "kill": "signal: killed"} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			mark := "DRAWBRIDGE_TEST_FAMILY=" + filepath.Join(t.TempDir(), ending)
			t.Cleanup(func() { // where the test fails
				for _, pid := range marked(t, mark) {
					kill(t, pid, syscall.SIGKILL)
				}
			})
			// The first line comes when the owner knows that the program was started,
			// which its keeper tells it.
			const script = "read line; setsid sleep 1000 & kill -STOP $PPID; echo up; read line"
			o := engage(t, described{
				Command: "sh", Args: []string{"-c", script}, Env: []string{mark},
				Kept: true,
			})
			o.tell("line")
			o.hear("up")
			o.tell(ending)
			if got := o.hear("ended:"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			eventually(t, "nobody is left", func() bool { return len(marked(t, mark)) == 0 })
		})
	}
}

// marked returns the processes with a variable in their environment. It passes to
// descendants whatever they do to their group or session.
func marked(t *testing.T, variable string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// none of one that waits to be reaped
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && strings.Contains("\x00"+string(bytes.TrimRight(environment, "\x00"))+"\x00",
			"\x00"+variable+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestEndsAreTold shows that a keeper in between changes nothing about what is said of
// the end of a program.
func TestEndsAreTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, tell, want string }{
		"well":        {"exit 0", "", "exit status 0"},
		"badly":       {"exit 3", "", "exit status 3"},
		"by a signal": {"kill -KILL $$", "", "signal: killed"},
		"when asked":  {"read line", "terminate", "signal: terminated"},
		"when killed": {"trap '' TERM; read line", "kill", "signal: killed"},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/kept %t", name, kept), func(t *testing.T) {
				t.Parallel()
				o := engage(t, described{
					Command: "sh", Args: []string{"-c", "echo up; " + test.script},
					Kept: kept,
				})
				o.hear("up")
				if test.tell != "" {
					o.tell(test.tell)
				}
				if got := o.hear("ended:"); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		}
	}
}

// TestWhatCannotStartIsTold shows that the reason comes from the keeper as from the
// system.
func TestWhatCannotStartIsTold(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		for command, want := range map[string]string{
			"/nonexistent/server":           "fork/exec /nonexistent/server: no such file or directory",
			"/etc":                          "fork/exec /etc: permission denied",
			"nobody-has-a-program-so-named": `exec: "nobody-has-a-program-so-named": executable file not found in $PATH`,
		} {
			o := engage(t, described{Command: command, Kept: kept})
			if got := o.hear("failed:"); got != want {
				t.Errorf("%s, kept %t: got %q, want %q", command, kept, got, want)
			}
		}
	}
}
