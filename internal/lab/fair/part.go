package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// cores says on which processors parts run, as lists that taskset reads; "" is all of them.
type cores struct{ served, quiet, loud string }

// coresOfThisMachine gives the first half of the processors to the quiet tenant and the other half to attackers, so
// that an attacker's own work never delays the clock of the one who measures. The gateway, the dummy and the servers
// have all processors, as in life. Without taskset, or with one processor, nothing is pinned.
func coresOfThisMachine() cores {
	status, _ := os.ReadFile("/proc/self/status") // without it there are none
	usable := coresIn(string(status))
	if _, err := exec.LookPath("taskset"); err != nil || len(usable) < 2 {
		return cores{}
	}
	half := len(usable) / 2
	return cores{quiet: strings.Join(usable[:half], ","), loud: strings.Join(usable[half:], ",")}
}

// coresIn returns the processors that a process may use, in the text of its status: "0-2,5" are four.
func coresIn(status string) (usable []string) {
	list := regexp.MustCompile(`(?m)^Cpus_allowed_list:\s*(\S+)$`).FindStringSubmatch(status)
	if list == nil {
		return nil
	}
	for part := range strings.SplitSeq(list[1], ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil
		}
		to := from
		if isRange {
			if to, err = strconv.Atoi(last); err != nil {
				return nil
			}
		}
		for ; from <= to; from++ {
			usable = append(usable, strconv.Itoa(from))
		}
	}
	return usable
}

// describe says in words what runs where.
func (c cores) describe() string {
	if c.quiet == "" {
		return "nothing is pinned to a processor"
	}
	return fmt.Sprintf("the quiet tenant on processor %s, attackers on %s; gateway, dummy and servers have all", c.quiet, c.loud)
}

// part is a process.
type part struct {
	cmd   *exec.Cmd
	in    io.Closer
	pipe  io.Closer
	out   *bufio.Reader // what a part of this program says; nil for a gateway
	log   string        // the file with what it wrote besides
	ended chan struct{} // closed when it has ended
}

// start runs a program on the processors of a list. What it writes goes to a log.
func (l *lab) start(ctx context.Context, on, binary string, args ...string) (*part, error) {
	logs, err := os.CreateTemp(l.dir, filepath.Base(binary)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the child has a descriptor of its own
	return l.startInto(ctx, logs, logs, on, binary, args...)
}

// startPart runs this program as one of its parts. What it says is there to read.
func (l *lab) startPart(ctx context.Context, on, name, argument string) (*part, error) {
	logs, err := os.CreateTemp(l.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the child has a descriptor of its own
	// A pipe of our own, because that of exec is closed as soon as the process has ended, even if nobody has read it.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = writer.Close() }() // as above
	p, err := l.startInto(ctx, writer, logs, on, l.self, name, argument)
	if err != nil {
		_ = reader.Close() // nothing comes
		return nil, err
	}
	p.pipe, p.out = reader, bufio.NewReader(reader)
	return p, nil
}

func (l *lab) startInto(ctx context.Context, out, logs *os.File, on, binary string, args ...string) (*part, error) {
	if on != "" {
		binary, args = "taskset", append([]string{"-c", on, binary}, args...)
	}
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own programs
	cmd.Stdout, cmd.Stderr = out, logs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &part{cmd: cmd, in: in, log: logs.Name(), ended: make(chan struct{})}
	go func() { // end waits for it
		_ = cmd.Wait() // how it ended does not matter, or its output says it
		close(p.ended)
	}()
	return p, nil
}

// end ends the process and waits for it. A part of this program ends by itself when its standard input does; a gateway
// has nothing to lose here and is killed.
func (p *part) end() {
	_ = p.in.Close() // it may be gone
	grace := time.Minute
	if p.out == nil {
		grace = 0
	}
	select {
	case <-p.ended:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill() // as above
		<-p.ended
	}
	if p.pipe != nil {
		_ = p.pipe.Close() // it was read as far as anybody wanted
	}
}

// alive tells whether the process has not ended.
func (p *part) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// reads reads the next line of what the process says, as JSON.
func (p *part) reads(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		<-p.ended
		return fmt.Errorf("%w: %s", err, p.lastWords())
	}
	return strictjson.Unmarshal(line, v)
}

// lastWords returns the end of what the process wrote for people.
func (p *part) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
