package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// offspring is what servers leave running, as commands of a shell.
var offspring = map[string]string{
	"in its group":             `sleep 1000 &`,
	"in a session of its own":  `setsid sleep 1000 &`,
	"an orphan":                `(setsid sleep 1000 &)`,
	"born one by one":          `(for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.04; sleep 1000 & done; wait) &`,
	"deaf to kind signals":     `setsid sh -c 'trap "" TERM INT HUP; sleep 1000; sleep 1000' &`,
	"in sessions, one in each": `setsid sh -c 'setsid sh -c "setsid sleep 1000 & sleep 1000" & sleep 1000' &`,
}

// familyGateway is a gateway with the server kid, of whose processes each has the mark in
// its environment.
type familyGateway struct {
	*gateway
	mark string
}

// left returns which of the processes are still there. Nothing is left of one that only
// waits to be reaped.
func (h *familyGateway) left(t *testing.T, of []int) []int {
	now := h.members(t)
	return slices.DeleteFunc(slices.Clone(of), func(pid int) bool { return !slices.Contains(now, pid) })
}

// members returns the processes with the mark: keepers, servers and what these started.
func (h *familyGateway) members(t *testing.T) (pids []int) {
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
		if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil &&
			strings.Contains(string(environment), h.mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descends tells whether a process is one of the others, or one that they started, now or
// later: orphans become children of the keeper.
func descends(pid int, from []int) bool {
	for ; pid > 1; pid = parent(pid) {
		if slices.Contains(from, pid) {
			return true
		}
	}
	return false
}

// parent returns the parent of a process, 0 when it has ended.
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name: the state, then the parent
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	number, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return number
}

// server returns the server among the processes, which is the one that is this test
// binary, or 0.
func (h *familyGateway) server(t *testing.T, among []int) int {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range among {
		if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && path == own {
			return pid
		}
	}
	return 0
}

// serverEnds are how servers come to their end while a gateway has them, or with it. Each
// returns whose end it is.
var serverEnds = map[string]func(t *testing.T, h *familyGateway) []int{
	"the server crashes": func(t *testing.T, h *familyGateway) []int {
		all := h.members(t)
		server := h.server(t, all)
		if server == 0 { // that would be all processes of the test
			t.Fatalf("none of %v is the server", all)
		}
		if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return all
	},
	"the gateway gets SIGTERM": func(t *testing.T, h *familyGateway) []int {
		all := h.members(t)
		h.stop(t)
		return all
	},
	"the gateway gets SIGKILL": func(t *testing.T, h *familyGateway) []int {
		all := h.members(t)
		_ = h.cmd.Process.Kill() // it runs, or the end would not come
		return all
	},
	"a reload removes the server": func(t *testing.T, h *familyGateway) []int {
		all := h.members(t)
		text, err := os.ReadFile(h.config())
		if err != nil {
			t.Fatal(err)
		}
		var rest strings.Builder
		for line := range strings.Lines(strings.ReplaceAll(string(text), "[kid, own]", "[own]")) {
			if !strings.HasPrefix(line, "  kid:") {
				rest.WriteString(line)
			}
		}
		h.write(t, rest.String())
		return all
	},
	"another session takes the place of an idle one": func(t *testing.T, h *familyGateway) []int {
		before := h.members(t)
		confess := func(tenant string) {
			token := h.mint(who{tenant: tenant, subject: "alice"})
			eventually(t, "the call is answered", func() bool {
				return h.call(t, token, "kid__confess", `{}`).Error == nil
			})
		}
		confess("acme")
		own := slices.DeleteFunc(h.members(t), func(pid int) bool { return descends(pid, before) })
		if len(own) < 3 {
			t.Fatalf("the session of a tenant has processes %v, want a keeper, a server and what it started",
				own)
		}
		confess("globex")
		return own
	},
}

// TestGrandchildrenEndWithTheirServers lets servers leave behind what they can, and end
// in every way. Before there were keepers, what had called setsid stayed each time, and
// all grandchildren of a gateway that was killed.
func TestGrandchildrenEndWithTheirServers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere only the process group of a server ends with it, as docs/servers.md says")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for what, script := range offspring {
		for ending, end := range serverEnds {
			t.Run(what+"/"+ending, func(t *testing.T) {
				t.Parallel()
				h := &familyGateway{mark: "DRAWBRIDGE_INTEROP_FAMILY=" + filepath.Join(t.TempDir(), "family")}
				t.Cleanup(func() { // where the test fails
					for _, pid := range h.members(t) {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
					}
				})
				name, value, _ := strings.Cut(h.mark, "=")
				h.gateway = besiege(t, twoTenants(`{allow: ["*"]}`, fmt.Sprintf(
					"  kid: {command: sh, args: [-c, %q], env: {%s: confess, %s: %q}, max_children: 2}\n  own: {builtin: [calculate]}\n",
					script+"\nexec "+binary, childRole, name, value)))
				// The server is what the script becomes after all else, so then the
				// family is complete.
				eventually(t, "the server runs", func() bool { return h.server(t, h.members(t)) != 0 })
				all := end(t, h)
				eventually(t, "none of them is left", func() bool { return len(h.left(t, all)) == 0 })
			})
		}
	}
}
