package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// ErrNoCage means that this process may not bound the memory of another one.
var ErrNoCage = errors.New("no control group for memory could be made")

// Cage is a control group of Linux, of version 1 or 2, whose processes the kernel ends
// when they need more memory than the group may have. With version 1 it lies below the
// group that this process runs in. Version 2 bounds no group below one that has
// processes, so there it lies below the nearest group above that hands memory on to
// groups below it.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#no-internal-process-constraint
type Cage struct {
	dir    string
	second bool // it is of version 2
}

// NewCage makes a control group with a limit in bytes and without swap. Without the right
// to do so the error is ErrNoCage.
func NewCage(limit int64) *Cage {
	c := &Cage{}
	err := must.Try(func() {
		var parent string
		parent, c.second = parentGroup("/")
		c.dir = must.Have(os.MkdirTemp(parent, "drawbridge-lab-"))
		defer must.Else(func() { _ = os.Remove(c.dir) }) // it is empty
		c.bound(limit)
	})
	must.Be(err == nil, "%w: %w", ErrNoCage, err)
	return c
}

// parentGroup returns the directory of the control group below which a cage can be made.
// root is where the file system is.
func parentGroup(root string) (dir string, second bool) {
	text := must.Have(os.ReadFile(filepath.Join(root, "proc/self/cgroup"))) //nolint:gosec // the kernel's
	groups := filepath.Join(root, "sys/fs/cgroup")                          // where systems have them
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			return filepath.Join(groups, "memory", fields[2]), false
		case fields[0] == "0":
			dir = filepath.Join(groups, fields[2])
		}
	}
	for ; strings.HasPrefix(dir, groups); dir = filepath.Dir(dir) {
		handsOn, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")) //nolint:gosec // a file of the kernel
		if err == nil && slices.Contains(strings.Fields(string(handsOn)), "memory") {
			return dir, true
		}
	}
	panic(errors.New("no control group above this process hands memory on"))
}

// bound sets the limit. With version 1 the kernel counts what sockets hold apart from all
// else, and only if that has a limit of its own; with version 2 it is part of the whole.
func (c *Cage) bound(limit int64) {
	bytes := strconv.FormatInt(limit, 10)
	file, others := "memory.max", map[string]string{"memory.swap.max": "0"}
	if !c.second {
		file, others = "memory.limit_in_bytes", map[string]string{
			"memory.memsw.limit_in_bytes":    bytes,
			"memory.kmem.tcp.limit_in_bytes": bytes,
		}
	}
	must.OK(c.write(file, bytes))
	for file, text := range others {
		if err := c.write(file, text); !errors.Is(err, os.ErrNotExist) { // as with kernels without swap
			must.OK(err)
		}
	}
}

// Charged returns the most that the kernel ever charged to the cage, in bytes: memory of
// processes, of files that they read, of connections and, counted by itself with version
// 1, of sockets. Kernels before 5.19 do not tell with version 2; then both are zero.
func (c *Cage) Charged() (most, sockets int64) {
	if c.second {
		return c.number("memory.peak"), 0
	}
	return c.number("memory.max_usage_in_bytes"), c.number("memory.kmem.tcp.max_usage_in_bytes")
}

// number reads a file with a number, zero if there is none.
func (c *Cage) number(file string) int64 {
	text, _ := os.ReadFile(filepath.Join(c.dir, file))                //nolint:gosec // a file of the kernel; without it there is no number
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // as above
	return n
}

func (c *Cage) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, file), os.O_WRONLY|os.O_TRUNC, 0) //nolint:gosec // as above
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Command returns a command that runs in the cage from its first instruction on.
func (c *Cage) Command(command ...string) []string {
	script := `echo $$ > "$0" && exec "$@"`
	return append([]string{"/bin/sh", "-c", script, filepath.Join(c.dir, "cgroup.procs")}, command...)
}

// Kills returns how many processes of the cage the kernel has ended for want of memory.
func (c *Cage) Kills() int {
	file := page.Either(c.second, "memory.events", "memory.oom_control")
	text := must.Have(os.ReadFile(filepath.Join(c.dir, file))) //nolint:gosec // a file of the kernel
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found {
			return must.Have(strconv.Atoi(strings.TrimSpace(count)))
		}
	}
	panic(fmt.Errorf("%s has no oom_kill", file))
}

// Close removes the cage. Its processes have ended; the kernel may need a moment to see
// that.
func (c *Cage) Close(ctx context.Context) error {
	return Within(ctx, 10*time.Second, "the control group "+c.dir+" is empty", func() bool {
		return os.Remove(c.dir) == nil
	})
}
