package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// cores says on which processors parts run, as lists that taskset reads; "" is all of
// them.
type cores struct{ served, quiet, loud string }

// coresOfThisMachine gives the first half of the processors to the quiet tenant and the
// other half to attackers, so that an attacker's own work never delays the clock of the
// one who measures. The gateway, the dummy and the servers have all processors, as in
// life. Without taskset, or with one processor, nothing is pinned.
func coresOfThisMachine() cores {
	status, _ := os.ReadFile("/proc/self/status") // without it there are none
	usable := coresIn(string(status))
	if _, err := exec.LookPath("taskset"); err != nil || len(usable) < 2 {
		return cores{}
	}
	half := len(usable) / 2
	return cores{quiet: strings.Join(usable[:half], ","), loud: strings.Join(usable[half:], ",")}
}

// coresIn returns the processors that a process may use, in the text of its status:
// "0-2,5" are four.
func coresIn(status string) (usable []string) {
	list := regexp.MustCompile(`(?m)^Cpus_allowed_list:\s*(\S+)$`).FindStringSubmatch(status)
	if list == nil {
		return nil
	}
	for part := range strings.SplitSeq(list[1], ",") {
		first, last, _ := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to, wrong := strconv.Atoi(cmp.Or(last, first))
		if errors.Join(err, wrong) != nil {
			return nil
		}
		for ; from <= to; from++ {
			usable = append(usable, strconv.Itoa(from))
		}
	}
	return usable
}

// describe says in words what runs where.
func (c cores) describe() string {
	return page.Either(c.quiet == "", "nothing is pinned to a processor", fmt.Sprintf(
		"the quiet tenant on processor %s, attackers on %s; gateway, dummy and servers have all", c.quiet,
		c.loud))
}

// start runs a program on the processors of a list.
func (l *lab) start(on string, talks bool, command ...string) *world.Process {
	if on != "" {
		command = append([]string{"taskset", "-c", on}, command...)
	}
	l.started++
	return l.Start(world.Order{
		Dir: l.Dir, Log: fmt.Sprintf("log%d", l.started), Command: command,
		Talks: talks,
	})
}

// startPart runs this program as one of its parts, which ends when its standard input
// does.
func (l *lab) startPart(on, name, argument string) *world.Process {
	return l.start(on, true, l.Self, name, argument)
}

// partTime is how long a part may take to end.
const partTime = time.Minute
