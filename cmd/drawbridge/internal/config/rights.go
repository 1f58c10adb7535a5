package config

import (
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// minFiles is the least number of files that a program may be held to. With fewer, most
// cannot even start.
const minFiles = 16

// user returns whom a command runs as: a user of this machine by name or number with the
// group that it has here, or uid:gid. Root is nobody to give rights to.
func (r *reader) user(n *node) (u process.User) {
	text := r.text(n)
	if text == "" {
		return u
	}
	uid, gid, both := strings.Cut(text, ":")
	if !both {
		found, err := lookupUser(text)
		if err != nil {
			r.fault(n, "%q is no user of this machine; name one, or give numbers as uid:gid", n.raw)
			return u
		}
		uid, gid = found.Uid, found.Gid
	}
	u, valid := numbers(uid, gid)
	r.faultFirst(
		wrong{!valid, n, fmt.Sprintf("%q is not a user: a name, or numbers as uid:gid", n.raw)},
		wrong{u.UID == 0, n, fmt.Sprintf("%q is root, and user is there to take rights away", n.raw)})
	return u
}

// lookupUser returns a user of this machine by name or number.
func lookupUser(text string) (*user.User, error) {
	if _, err := strconv.Atoi(text); err == nil {
		return user.LookupId(text)
	}
	return user.Lookup(text)
}

// numbers returns the user of two numbers. The greatest number means nobody to the system
// calls that change a user.
func numbers(uid, gid string) (process.User, bool) {
	u, err := strconv.ParseUint(uid, 10, 32)
	g, other := strconv.ParseUint(gid, 10, 32)
	return process.User{UID: uint32(u), GID: uint32(g)}, err == nil && other == nil && u < math.MaxUint32 &&
		g < math.MaxUint32
}

// processLimits reads what bounds the processes of a command.
func (r *reader) processLimits(l *process.Limits) func(*node) {
	return r.section("limits", fields{
		"memory":    into(&l.Memory, r.size),
		"cpu_time":  into(&l.CPU, r.cpuTime),
		"files":     into(&l.Files, r.between(minFiles, 1<<20)),
		"processes": into(&l.Processes, r.between(1, 1<<20)),
	})
}

// cpuTime returns a duration of whole seconds, which is how the system counts it.
func (r *reader) cpuTime(n *node) time.Duration {
	return parsed(r, n, "a time of at least a second, like 90s, 10m or 24h", time.ParseDuration,
		func(d time.Duration) bool { return d >= time.Second && d%time.Second == 0 })
}

// withheld says why servers cannot get the rights of their own that they are to have, ""
// when they can. system is the operating system, as in runtime.GOOS, and uid the number
// of the user who runs the gateway.
func withheld(rights process.Rights, system string, uid int) string {
	switch {
	case system != "linux" && rights != (process.Rights{}):
		return "user and limits of a server need Linux"
	case uid != 0 && rights.User != (process.User{}):
		return "only root can start a server as another user, and this is not root: run the gateway as " +
			"root, or leave user out"
	}
	return ""
}
