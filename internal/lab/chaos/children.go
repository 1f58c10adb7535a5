package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// childPart is the argument with which this program is a server that speaks over stdio
// and behaves badly.
const childPart = "child"

// childFaults returns what a program that the gateway starts may do. It serves a tenant
// of its own beside the crowd.
func childFaults() []*fault {
	child := func(name, done, mode, holds string) *fault {
		return &fault{
			name: "a program " + name, done: done, ground: plain, holds: holds,
			make: func(ctx context.Context, s *scene) (effect, error) { return s.raise(ctx, mode) },
		}
	}
	return []*fault{
		child("fills standard error", "1 MiB on standard error with each call", "stderr",
			"its calls are answered, and it ends when the config drops it"),
		child("starts others and ignores SIGTERM",
			"it starts a process with each call, and neither heeds SIGTERM", "forks",
			"its calls are answered, and all of them end when the config drops it"),
		child("ends in the middle of calls", "it exits instead of every second answer", "exits",
			"it is started again, and nothing is left when the config drops it"),
		stillborn(),
		child("writes garbage", "lines that are no JSON around each answer", "garbage",
			"its calls are answered, and it ends when the config drops it"),
		nameLost(),
	}
}

// raise gives the victim a program that behaves badly, calls it for as long as the round
// lasts, and drops it.
func (s *scene) raise(ctx context.Context, mode string) (effect, error) {
	program, err := os.Executable()
	if err != nil {
		return effect{}, err
	}
	mark := fmt.Sprintf("chaos-%d-%d", os.Getpid(), s.draw.Uint64())
	token, err := s.withNursery(ctx, fmt.Sprintf("{command: %q, args: [%s, %s, %s]}", program, childPart,
		mode, mark), s.victim)
	if err != nil {
		return effect{}, err
	}
	answered := 0
	return effect{
		seen: all(func(ctx context.Context) error {
			if err := s.servesOdd(s.victim, token, "touch")(ctx); err != nil {
				return err
			}
			answered++
			return is("five calls are answered", answered >= 5, answered, nil)
		}, s.servesAll(s.victim)),
		heal:  s.clean,
		after: s.gone(mark),
	}, nil
}

// gone returns what is wrong when there is a process with a mark, or the victim has any
// child, be it a zombie, which has no arguments any more.
func (s *scene) gone(mark string) func(context.Context) error {
	return func(context.Context) error {
		left, err := marked(mark)
		children, wrong := childrenOf(s.victim.PID())
		left = append(left, children...)
		return is("no process of the program is left, not even a zombie", len(left) == 0, left,
			errors.Join(err, wrong))
	}
}

// stillborn gives the victim a program that ends before it has said anything.
func stillborn() *fault {
	const last, births = "no room in this world", 12
	return &fault{
		name: "a program ends as soon as it starts", done: "exit code 1 before it reads anything, each time",
		ground: plain,
		holds:  "its calls are refused as not made (`DB-UPSTREAM-DOWN`), `/readyz` quotes its last words, it is started again and again with longer and longer pauses, and nothing is left when the config drops it, not even a zombie",
		make: func(ctx context.Context, s *scene) (effect, error) {
			program, err := os.Executable()
			if err != nil {
				return effect{}, err
			}
			register := filepath.Join(s.dir, fmt.Sprintf("births-%d", s.draw.Uint64()))
			token, err := s.withNursery(ctx, fmt.Sprintf("{command: %q, args: [%s, stillborn, %q, %q]}",
				program, childPart, register, last), s.victim)
			if err != nil {
				return effect{}, err
			}
			refused := func(ctx context.Context) error {
				said, err := s.call(ctx, at(s.victim), token, nurseryServer+"__touch", nursery)
				return is("calls of it are refused as not made", said.code == "DB-UPSTREAM-DOWN", said, err)
			}
			says := s.judged(s.victim, "the program is down, and its last words", func(v view) bool {
				return strings.Contains(strings.Join(v.Warnings, " "), last)
			})
			return effect{
				seen: all(paced(register, births), says, s.servesAll(s.victim), refused),
				heal: s.clean, after: s.gone(register),
			}, nil
		},
	}
}

// paced returns what is wrong when a program was not started so often, or without pauses
// that grow. An attempt starts it twice at most, to speak with it in each of the two
// eras. The pause before the next attempt is 50 ms at least, and doubles.
func paced(register string, births int) func(context.Context) error {
	return func(context.Context) error {
		text, err := os.ReadFile(register) //nolint:gosec // of our own world
		var at []int64
		for line := range strings.Lines(string(text)) {
			when, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			at = append(at, when)
		}
		if err := is(fmt.Sprintf("it is started %d times", births), len(at) >= births, len(at),
			err); err != nil {
			return err
		}
		pauses := births/2 - 1
		least := 50 * time.Millisecond * time.Duration(1<<pauses-1)
		took := time.Duration(at[births-1] - at[0])
		return is(fmt.Sprintf("%d starts take %v at least", births, least), took >= least, took, nil)
	}
}

// childrenOf returns what the system says of the processes below one, zombies too.
func childrenOf(pid int) (children []string, err error) {
	tree, err := world.Tree(pid)
	if err != nil {
		return nil, err
	}
	for _, child := range tree[1:] {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil { // else it has ended
			children = append(children, strings.TrimSpace(string(text)))
		}
	}
	return children, nil
}

// marked returns the command lines of all processes that have a mark among their
// arguments.
func marked(mark string) (lines []string, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of the kernel
		if err != nil {
			continue // it has ended
		}
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, mark) {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// beChild is the server. args are its mode and its mark.
func beChild(args []string, in io.Reader, out io.Writer) error {
	mode, mark := args[0], args[1]
	switch mode {
	case "forks":
		signal.Ignore(syscall.SIGTERM)
	case "stillborn": // its mark is a file, where it enters when it was started
		return dieAtOnce(mark, args[2])
	}
	calls := 0
	return upstream.EachRequest(in, func(m *mcp.Message) error {
		result := mcp.Object{}
		switch m.Method {
		case mcp.MethodInitialize:
			result, _ = mcp.ObjectOf(mcp.RawJSON(`{"protocolVersion":"` + legacyRevision +
				`","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`)) // our own texts are objects
		case mcp.MethodDiscover:
			say(out, "%s\n", mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))
			return nil
		case mcp.MethodToolsList:
			result, _ = mcp.ObjectOf(mcp.RawJSON( // as above
				`{"tools":[{"name":"touch","description":"says which call it is","inputSchema":{"type":"object"}}]}`))
		case mcp.MethodToolsCall:
			calls++
			if err := misbehave(mode, mark, calls, out); err != nil {
				return err
			}
			result = mcp.TextResult(fmt.Sprintf("serial %d", calls))
		}
		say(out, "%s\n", mcp.AppendResult(nil, m.ID, result))
		return nil
	})
}

// dieAtOnce enters the time in a file and ends with last words.
func dieAtOnce(register, last string) error {
	file, err := os.OpenFile(register, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // of our own world
	if err != nil {
		return err
	}
	say(file, "%d\n", time.Now().UnixNano())
	say(os.Stderr, "%s\n", last)
	os.Exit(1)
	return nil
}

// misbehave does what the mode says before the answer of a call.
func misbehave(mode, mark string, calls int, out io.Writer) error {
	switch mode {
	case "stderr":
		for range 1 << 10 {
			say(os.Stderr, "%s\n", strings.Repeat("x", 1023))
		}
	case "forks":
		// Not with a context: that it outlives this process is what is tried.
		return exec.Command("/bin/sh", "-c", `trap "" TERM; sleep 86400; :`, mark).Start() //nolint:noctx,gosec // as above
	case "exits":
		if calls%2 == 0 {
			os.Exit(1)
		}
	case "garbage":
		say(out, "no JSON at all\n{\"jsonrpc\":\n[]\n\n")
	}
	return nil
}
