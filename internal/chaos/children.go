package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// childPart is the argument with which this program is a server that speaks over stdio and behaves badly.
const childPart = "child"

// childFaults returns what a program that the gateway starts may do. It serves a tenant of its own beside the crowd.
func childFaults() []*fault {
	child := func(name, done, mode, holds string) *fault {
		return &fault{
			name: "a program " + name, done: done, ground: plain, holds: holds,
			make: func(ctx context.Context, s *scene) (effect, error) { return s.raise(ctx, mode) },
		}
	}
	return []*fault{
		child("fills standard error", "1 MiB on standard error with each call", "stderr", "its calls are answered, and it ends when the config drops it"),
		child("starts others and ignores SIGTERM", "it starts a process with each call, and neither heeds SIGTERM", "forks", "its calls are answered, and all of them end when the config drops it"),
		child("ends in the middle of calls", "it exits instead of every second answer", "exits", "it is started again, and nothing is left when the config drops it"),
		child("writes garbage", "lines that are no JSON around each answer", "garbage", "its calls are answered, and it ends when the config drops it"),
		nameLost(),
	}
}

// raise gives the victim a program that behaves badly, calls it for as long as the round lasts, and drops it.
func (s *scene) raise(ctx context.Context, mode string) (effect, error) {
	program, err := os.Executable()
	if err != nil {
		return effect{}, err
	}
	mark := fmt.Sprintf("chaos-%d-%d", os.Getpid(), s.draw.Uint64())
	token, err := s.withNursery(ctx, fmt.Sprintf("{command: %q, args: [%s, %s, %s]}", program, childPart, mode, mark), s.victim)
	if err != nil {
		return effect{}, err
	}
	answered := 0
	gone := func(context.Context) error {
		left, err := marked(mark)
		return is("no process of the program is left", len(left) == 0, left, err)
	}
	return effect{
		seen: all(func(ctx context.Context) error {
			if err := s.servesOdd(s.victim, token, "touch")(ctx); err != nil {
				return err
			}
			answered++
			return is("five calls are answered", answered >= 5, answered, nil)
		}, s.servesAll(s.victim)),
		heal:  s.clean,
		after: gone,
	}, nil
}

// marked returns the command lines of all processes that have a mark among their arguments.
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
	if mode == "forks" {
		signal.Ignore(syscall.SIGTERM)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for calls := 0; lines.Scan(); {
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Revision string `json:"protocolVersion"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil || message.ID == nil { //nolint:forbidigo // what the gateway sends, in a tool for trials
			continue
		}
		result := `{}`
		switch message.Method {
		case "initialize":
			result = `{"protocolVersion":"` + legacyRevision + `","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`
		case "server/discover":
			say(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", message.ID)
			continue
		case "tools/list":
			result = `{"tools":[{"name":"touch","description":"says which call it is","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			calls++
			if err := misbehave(mode, mark, calls, out); err != nil {
				return err
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"serial %d"}]}`, calls)
		}
		say(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", message.ID, result)
	}
	return lines.Err()
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
