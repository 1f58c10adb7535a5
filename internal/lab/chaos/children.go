package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// childPart is the argument with which this program is a server that speaks over stdio
// and behaves badly.
const childPart = "child"

// The nursery is a tenant of its own with one server, for faults of servers that the
// crowd does not use.
const (
	nursery       = "nursery"
	nurseryServer = "odd"
	nurseryIssuer = "https://nursery.test/"
	nurseryTool   = nurseryServer + "__touch"
)

// childFaults returns what a program that the gateway starts may do, and a server that is
// known by a name alone.
func childFaults() []*fault {
	const last, births = "no room in this world", 12
	child := func(name, done, mode, holds string) *fault {
		answered := judgedCall("its calls are answered", reply.ok)
		return &fault{
			name: "a program " + name, done: done, ground: plain, holds: holds,
			make: raised(mode, ""), seen: all(times(5, soon(answered)), of(victim, servesAll)),
			heal: clean, after: gone,
		}
	}
	refused := judgedCall("its calls are refused as not made",
		func(said reply) bool { return said.code == "DB-UPSTREAM-DOWN" })
	return []*fault{
		child("fills standard error", "1 MiB on standard error with each call", "stderr",
			"its calls are answered, and it ends when the config drops it"),
		child("starts others and ignores SIGTERM",
			"it starts a process with each call, and neither heeds SIGTERM", "forks",
			"its calls are answered, and all of them end when the config drops it"),
		child("ends in the middle of calls", "it exits instead of every second answer", "exits",
			"it is started again, and nothing is left when the config drops it"),
		{
			name: "a program ends as soon as it starts", done: "exit code 1 before it reads anything, " +
				"each time",
			ground: plain,
			holds: "its calls are refused as not made (`DB-UPSTREAM-DOWN`), `/readyz` quotes its last " +
				"words, it is started again and again with longer and longer pauses, and nothing is left " +
				"when the config drops it, not even a zombie",
			make: raised("stillborn", last),
			seen: all(func(_ context.Context, s *scene) {
				paced(s.mark, births)
			},
				of(victim, warns(last), servesAll), refused),
			heal: clean, after: gone,
		},
		child("writes garbage", "lines that are no JSON around each answer", "garbage",
			"its calls are answered, and it ends when the config drops it"),
		{
			name:   "the name of a server does not resolve",
			done:   "it stands in a hosts file of the replica, which loses it while its connections end",
			ground: direct, root: true,
			holds: "its calls are refused as not made, all else goes on, and it is served again without " +
				"a restart",
			before: namedByFile, make: nameLost, seen: all(refused, of(victim, servesAll)),
		},
	}
}

// judgedCall asks whether what the victim answers a call of the nursery is so.
func judgedCall(what string, so func(reply) bool) step {
	return func(ctx context.Context, s *scene) {
		said := ask(ctx, s.victim.Address, s.toolCall(s.victim, s.nursery, nurseryTool, probing, nursery).Bytes())
		is(what, so(said), said)
	}
}

// raised gives the victim a program that behaves badly, until the round is over. Its mark
// is a file that it may write.
func raised(mode, last string) step {
	return func(ctx context.Context, s *scene) {
		program := must.Have(os.Executable())
		s.mark = filepath.Join(s.dir, fmt.Sprintf("child-%d", s.draw.Uint64()))
		s.withNursery(ctx, fmt.Sprintf("{command: %q, args: [%s, %s, %q, %q]}", program, childPart, mode,
			s.mark, last))
	}
}

// withNursery gives the victim the nursery and its server until the round is over. server
// is the text of the server in the config.
func (s *scene) withNursery(ctx context.Context, server string) {
	secret := fmt.Sprintf("%016x%016x%016x", s.draw.Uint64(), s.draw.Uint64(), s.draw.Uint64())
	file := filepath.Join(s.dir, "nursery.secret")
	must.OK(os.WriteFile(file, []byte(secret), 0o600))
	s.nursery = world.Token(secret, nurseryIssuer, s.URL+"/mcp", prober, nil)
	s.rewrite(ctx, s.victim, func(config string) string {
		for section, text := range map[string]string{
			"issuers": fmt.Sprintf("- {issuer: %q, hmac_secret_file: %q, algorithms: [HS256], tenant: %s}",
				nurseryIssuer, file, nursery),
			"tenants": fmt.Sprintf("%s: {servers: [%s], rules: [{allow: [\"*\"]}]}", nursery, nurseryServer),
			"servers": nurseryServer + ": " + server,
		} {
			config = below(section, text)(config)
		}
		return config
	}, s.later)
}

// gone fails if there is a process with the mark, or the victim has any
// child, be it a zombie, which has no arguments any more.
func gone(_ context.Context, s *scene) {
	left := append(marked(s.mark), childrenOf(s.victim.PID())...)
	is("no process of the program is left, not even a zombie", len(left) == 0, left)
}

// paced fails if a program was not started so often, or without pauses
// that grow. An attempt starts it twice at most, to speak with it in each of the two
// eras. The pause before the next attempt is 50 ms at least, and doubles.
func paced(register string, births int) {
	text := must.Have(os.ReadFile(register)) //nolint:gosec // of our own world
	var at []int64
	for line := range strings.Lines(string(text)) {
		when, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		at = append(at, when)
	}
	is(fmt.Sprintf("it is started %d times", births), len(at) >= births, len(at))
	least := 50 * time.Millisecond * time.Duration(1<<(births/2-1)-1)
	took := time.Duration(at[births-1] - at[0])
	is(fmt.Sprintf("%d starts take %v at least", births, least), took >= least, took)
}

// childrenOf returns what the system says of the processes below one, zombies too.
func childrenOf(pid int) (children []string) {
	for _, child := range world.Tree(pid)[1:] {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil { // else it has ended
			children = append(children, strings.TrimSpace(string(text)))
		}
	}
	return children
}

// marked returns the command lines of all processes that have a mark among their
// arguments.
func marked(mark string) (lines []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, file := range files {
		text, _ := os.ReadFile(file) //nolint:gosec // of the kernel; without it the process has ended
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, mark) {
			lines = append(lines, line)
		}
	}
	return lines
}

// beChild is the server, over standard input and output. args are its mode, its mark and
// its last words.
func beChild(ctx context.Context, args []string, _ io.Reader, out io.Writer) {
	mode, mark := args[0], args[1]
	switch mode {
	case "forks":
		signal.Ignore(syscall.SIGTERM)
	case "stillborn":
		dieAtOnce(mark, args[2])
	}
	var calls atomic.Int64
	server := sdk.NewServer(&sdk.Implementation{Name: "odd", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{
		Name: "touch", Description: "says which call it is", InputSchema: map[string]any{"type": "object"},
	}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		n := calls.Add(1)
		text := &sdk.TextContent{Text: fmt.Sprintf("serial %d", n)}
		return &sdk.CallToolResult{Content: []sdk.Content{text}}, misbehave(mode, mark, n, out)
	})
	must.OK(server.Run(ctx, &sdk.StdioTransport{}))
}

// dieAtOnce enters the time in a file and ends with last words.
func dieAtOnce(register, last string) {
	file := must.Have(os.OpenFile(register, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)) //nolint:gosec // of our own world
	say(file, "%d\n", time.Now().UnixNano())
	say(os.Stderr, "%s\n", last)
	os.Exit(1)
}

// misbehave does what the mode says before the answer of a call.
func misbehave(mode, mark string, calls int64, out io.Writer) error {
	switch mode {
	case "stderr":
		say(os.Stderr, "%s", strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10))
	case "forks":
		// Not with a context: that it outlives this process is what is tried.
		return exec.Command("/bin/sh", "-c", `trap "" TERM; sleep 86400; :`, mark).Start() //nolint:noctx,gosec // as above
	case "exits":
		if calls%2 == 0 {
			os.Exit(1)
		}
	case "garbage":
		say(out, "no JSON at all\n{\"jsonrpc\":\n[]\n\n")
	default:
		return fmt.Errorf("there is no mode %q", mode)
	}
	return nil
}

const (
	hostName = "odd.chaos.test"
	hosts    = "127.0.0.1 localhost " + hostName + "\n"
)

// hostsAre writes the hosts file of the victim.
func (s *scene) hostsAre(text string) {
	must.OK(os.WriteFile(s.hostsFile(), []byte(text), 0o600))
}

func (s *scene) hostsFile() string { return filepath.Join(s.dir, "hosts") }

// namedByFile starts the victim with a hosts file of its own.
func namedByFile(ctx context.Context, s *scene) {
	s.hostsAre(hosts)
	wrapped("unshare", "--mount", "/bin/sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`,
		s.hostsFile())(ctx, s)
}

// nameLost gives the victim a server by its name, which resolves no more until the fault
// heals. Connections that are open would go on, so they are cut whenever something is
// asked.
func nameLost(ctx context.Context, s *scene) {
	proxy := must.Have(netfault.Start(s.servers[crowd.Modern].Address))
	s.later(does(proxy.Close))
	_, port, _ := strings.Cut(proxy.Address, ":")
	s.withNursery(ctx,
		fmt.Sprintf("{url: \"http://%s:%s/mcp\", private_addresses: true}", hostName, port))
	served := soon(judgedCall("its calls are answered", reply.ok))
	s.heals(func(ctx context.Context, s *scene) {
		proxy.Heal()
		s.hostsAre(hosts)
		served(ctx, s)
	})
	s.seeing(does(proxy.Cut))
	served(ctx, s)
	s.hostsAre("127.0.0.1 localhost\n")
}
