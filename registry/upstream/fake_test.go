package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// fake is a small server of either era, over stdio, with habits that tests ask for.
type fake struct {
	kind   string
	deaf   atomic.Bool
	mu     sync.Mutex // guards the fields below
	tools  []string
	listen json.RawMessage
	out    io.Writer
	host   bool // of kind apps: its client declares that it shows apps
	held   map[string]chan struct{}
	over   bool // its connection has ended, and nothing is held any more
	cancel int
	asked  map[string]chan string
}

type wire struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string                     `json:"name"`
		URI             string                     `json:"uri"`
		Notifications   map[string]json.RawMessage `json:"notifications"`
		Cursor          *string                    `json:"cursor"`
		ProtocolVersion string                     `json:"protocolVersion"`
		Arguments       map[string]any             `json:"arguments"`
		RequestID       json.RawMessage            `json:"requestId"`
		Meta            map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// serveFake is the whole program when the test binary runs as a server.
func serveFake(kind string) {
	switch kind {
	case "quick":
		serveQuick()
		return
	case "sdk":
		_ = sdkServer().Run(context.Background(), &sdk.StdioTransport{}) // ends with its input
		return
	case "sdk-late":
		_ = lateSDK().Run(context.Background(), &sdk.StdioTransport{}) // ends with its input
		return
	case "sdk-asks":
		_ = roundsSDK().Run(context.Background(), &sdk.StdioTransport{}) // ends with its input
		return
	case "chat":
		serveChat()
		return
	case "fastmcp":
		serveFastMCP()
		return
	case "exit":
		os.Exit(3)
	case "complain":
		complain()
	case "once":
		once()
		kind = "legacy"
	case "sdk-slow":
		_ = sdkServer().Run(context.Background(), &sdk.IOTransport{Reader: slowStart(), Writer: os.Stdout})
		return
	case "late", "later", "latest":
		if firstStart() {
			newFake(kind, os.Stdout).serveLate()
			return
		}
		kind = "both"
	case "mute-once":
		if firstStart() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		}
		kind = "both"
	case "crash-once":
		if firstStart() {
			os.Exit(1)
		}
		kind = "both"
	case "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	case "orphan":
		select {}
	}
	f := newFake(kind, os.Stdout)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		if f.deaf.Load() {
			select {}
		}
		var m wire
		if json.Unmarshal(line, &m) == nil {
			f.handle(m, line)
		}
	}
	if kind == "stubborn" {
		select {} // even the end of its input does not end it
	}
}

func newFake(kind string, out io.Writer) *fake {
	return &fake{
		kind: kind, out: out, tools: []string{
			"echo", "progress", "slow", "env", "crash", "old", "neither", "change", "ask", "huge", "garbage",
			"foreign", "twice",
			"fail", "broken", "task", "fork", "stderr", "deaf", "flood", "badutf8", "batch", "badresult",
		},
		held: map[string]chan struct{}{}, asked: map[string]chan string{},
	}
}

// end does what follows when the connection has ended, of which no cancellation comes any
// more.
func (f *fake) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out, f.over = io.Discard, true
	for id, held := range f.held {
		close(held)
		delete(f.held, id)
	}
}

func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) handle(m wire, line []byte) {
	switch m.Method {
	case "":
		f.mu.Lock()
		waiting := f.asked[string(m.ID)]
		f.mu.Unlock()
		if waiting != nil {
			waiting <- string(bytes.TrimSpace(line))
		}
	case "server/discover":
		f.discover(m)
	case "initialize":
		// one that also opened sessions would be taken for an older one where it was not
		// heard in time
		if f.kind == "modern" {
			f.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
			return
		}
		f.locked(func() { f.host = bytes.Contains(line, []byte("io.modelcontextprotocol/ui")) })
		version := m.Params.ProtocolVersion
		if f.kind == "old" {
			version = "2024-11-05"
		}
		f.reply(
			m.ID, fmt.Sprintf(
				`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}%s},"serverInfo":{"name":"fake","version":"1"}}`, version,
				map[string]string{"apps": `,"prompts":{},"resources":{}`}[f.kind]))
	case "subscriptions/listen":
		f.mu.Lock()
		f.listen = m.ID
		f.mu.Unlock()
		f.line(
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID)
	case "tools/list":
		f.list(m)
	case "prompts/list", "resources/list", "resources/templates/list":
		f.reply(m.ID, `{"prompts":[],"resources":[],"resourceTemplates":[]}`)
	case "tools/call":
		held := make(chan struct{})
		if m.Params.Name == "slow" { // here, since the cancellation may be read before the goroutine runs
			f.locked(func() {
				if f.over {
					close(held)
					return
				}
				f.held[string(m.ID)] = held
			})
		}
		go f.call(m, line, held)
	case "ping":
		f.reply(m.ID, `{}`)
	case "notifications/cancelled":
		f.mu.Lock()
		f.cancel++
		if held := f.held[string(m.Params.RequestID)]; held != nil {
			close(held)
			delete(f.held, string(m.Params.RequestID))
		}
		f.mu.Unlock()
	}
}

func (f *fake) discover(m wire) {
	switch f.kind {
	case "modern", "both":
		f.reply(
			m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}`)
	case "both-but-legacy":
		f.reply(
			m.ID, `{"resultType":"complete","supportedVersions":["2025-11-25"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`)
	case "unsupported":
		f.line(
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`, m.ID)
	case "upset":
		os.Exit(4)
	case "silent": // says nothing to what it does not know
	default:
		f.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not initialized"}}`, m.ID)
	}
}

// list answers in pages of seven tools.
func (f *fake) list(m wire) {
	f.mu.Lock()
	host, tools := f.host, append([]string(nil), f.tools...)
	f.mu.Unlock()
	if f.kind == "apps" {
		f.reply(m.ID, `{"tools":[`+appTools(host)+`]}`)
		return
	}
	from := 0
	if m.Params.Cursor != nil {
		_, _ = fmt.Sscan(strings.TrimPrefix(*m.Params.Cursor, "page-"), &from)
	}
	var out []string
	for i := from; i < min(from+7, len(tools)); i++ {
		out = append(out, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"x-vendor":1.0}`, tools[i]))
	}
	next := ""
	if from+7 < len(tools) {
		next = fmt.Sprintf(`,"nextCursor":"page-%d"`, from+7)
	}
	f.reply(m.ID, `{"tools":[`+strings.Join(out, ",")+`]`+next+`}`)
}

// call answers a call; one of slow waits for the end of held first.
func (f *fake) call(m wire, line []byte, held <-chan struct{}) {
	number := func(name string) int {
		n, _ := m.Params.Arguments[name].(float64)
		return int(n)
	}
	switch m.Params.Name {
	case "draw", "describe":
		f.mu.Lock()
		with := map[bool]string{true: "with", false: "without"}[f.host]
		f.mu.Unlock()
		f.text(m.ID, m.Params.Name+" "+with+" a view")
	case "echo":
		f.reply(m.ID, `{"content":[{"type":"text","text":`+quote(string(bytes.TrimSpace(line))+
			strings.Repeat(".", number("more")))+`}],"x-future":9007199254740993}`)
	case "progress":
		for i := range number("n") {
			f.line(
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"x-note":"kept%s"}}`, m.Params.Meta["progressToken"], i, strings.Repeat(".", number("size")))
		}
		f.text(m.ID, "done")
	case "slow":
		<-held
	case "env":
		f.text(m.ID, dump())
	case "crash":
		// nobody is left to tell
		_, _ = os.Stderr.WriteString("database file is locked\n\x1b[31mkey: " + os.Getenv("SHOP_KEY") + "\n")
		os.Exit(1)
	case "old":
		f.reply(m.ID, `{"toolResult":{"answer":42}}`)
	case "neither":
		f.reply(m.ID, `{"isError":false}`)
	case "change":
		f.mu.Lock()
		f.tools = append(f.tools, fmt.Sprint(m.Params.Arguments["name"]))
		f.mu.Unlock()
		f.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		f.text(m.ID, "changed")
	case "ask":
		f.text(m.ID, f.ask("ping", `"ping-1"`)+f.ask("sampling/createMessage", "7"))
	case "huge":
		f.reply(m.ID, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20+number("more"))+`"}]}`)
	case "garbage":
		f.line("Listening on port 3000")
		f.line("{not json")
		f.line("\x00\x01\x02")
		f.line("")
		f.line(`{"jsonrpc":"1.0","id":%s,"method":"x"}`, m.ID)
		f.line(`{"level":"info","msg":"called","id":%s}`, m.ID)
		f.text(m.ID, "after garbage")
	case "foreign":
		f.text(json.RawMessage("999999"), "not yours")
		f.text(json.RawMessage(quote(string(m.ID))), "almost yours")
		f.text(m.ID, "yours")
	case "twice":
		f.text(m.ID, "first")
		f.text(m.ID, "second")
	case "fail":
		f.line(
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such thing","data":{"reason":"x"}}}`, m.ID)
	case "broken":
		f.line(`{"jsonrpc":"2.0","id":%s,"result":"no object"}`, m.ID)
	case "task":
		f.reply(m.ID, `{"resultType":"task","taskId":"1"}`)
	case "badresult":
		f.reply(m.ID, `{"content":"text"}`)
	case "fork":
		child := exec.CommandContext(context.Background(), os.Args[0])
		child.Env = []string{fakeServer + "=orphan"}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			f.text(m.ID, err.Error())
			return
		}
		f.text(m.ID, fmt.Sprint(child.Process.Pid))
	case "stderr":
		fmt.Fprint(os.Stderr, strings.Repeat("a line of noise that nobody reads \x1b[31mred\n", 20_000),
			strings.Repeat("one long line ", 20_000))
		f.text(m.ID, "said much")
	case "deaf":
		f.deaf.Store(true)
		f.text(m.ID, "from now on I do not read")
	case "flood":
		for range 5000 {
			f.line(
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"noise"}}`)
			f.line(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		}
		f.text(m.ID, "flooded")
	case "badutf8":
		f.line(
			"{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"half \xf0\x9f\x98 and \\ud83d\"}]}}", m.ID)
	case "batch":
		f.line(
			`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}},{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, m.Params.Meta["progressToken"], m.ID)
	}
}

func (f *fake) ask(method, id string) string {
	answer := make(chan string, 1)
	f.mu.Lock()
	f.asked[id] = answer
	f.mu.Unlock()
	f.line(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, method)
	return <-answer
}

func (f *fake) text(id json.RawMessage, text string) {
	f.reply(id, `{"content":[{"type":"text","text":`+quote(text)+`}]}`)
}

func (f *fake) reply(id json.RawMessage, result string) {
	f.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (f *fake) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...) + "\n"
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = io.WriteString(f.out, text)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// dump says what a child can see of its surroundings.
func dump() string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") {
			open = append(open, e.Name()+"="+target)
		}
	}
	dir, _ := os.Getwd()
	all, _ := json.Marshal(map[string]any{
		"dir": dir, "env": os.Environ(), "fds": open, "args": os.Args[1:],
		"pgid": syscall.Getpgrp(), "pid": os.Getpid(),
	})
	return string(all)
}
