package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

const usersOfTenant = 8

// The limits are the default ones but for the rates of tenant blue, which let attacks
// through that the rates of tenant red refuse. Sessions and what is kept for resuming end
// sooner than by default, so that what is left of the siege soon after it has ended says
// something; while it lasts, both are at their bounds all the time. The last line differs
// from reload to reload.
const gatewayConfig = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
issuers:
  - {issuer: "https://siege.test/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: team}, tenants_allowed: [quiet, red, blue]}
  - github: {client_id: lab, client_secret_file: secret, tenants: {claim: orgs, map: {acme: quiet}}}
data: {dir: kept}
access_keys: on
tenants:
  quiet: {servers: [calm], rules: [{allow: ["*"]}]}
  red: {servers: [storm], rules: [{allow: ["*"]}]}
  blue:
    servers: [storm, library]
    rules: [{allow: ["*"]}]
    limits: ` + raid.HighRates + `
  spare:
    servers: [calm]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 100, burst: %[6]d}}
servers:
  calm: {url: "http://%[3]s/mcp", private_addresses: true}
  storm: {url: "http://%[4]s/mcp", private_addresses: true}
  library: {builtin: {query_database: {databases: {library: {sqlite: library.db}}}}}
sessions: {idle: %[5]s, events: {age: %[5]s}}
audit: {file: "%[7]s", sync: interval}
log: {level: info, format: json}
`

// lab is the program of the gateway, its servers, and who knows which token.
type lab struct {
	*world.Lab

	addr   string // of the gateway
	admin  string // of its operator's listener
	text   string // its config, with a place for what differs from reload to reload
	tokens map[string][]string
	storm  *httptest.Server // of the attackers
	quiet  *world.Process   // see beQuiet
	disk   *disk            // of log and audit; nil: they share none
	audit  string           // the file that the gateway writes it to
}

// newLab builds the gateway and starts its servers. Sessions and what is kept for
// resuming last for lapse. Log and audit share a disk of so many bytes, unless it is
// zero. Everything that it makes lies in a temporary folder.
func newLab(ctx context.Context, lapse time.Duration, diskSize int64) *lab {
	l := &lab{Lab: world.NewLab("siege"), tokens: map[string][]string{}, audit: "audit.jsonl"}
	defer must.Else(l.close)
	if diskSize > 0 {
		l.disk = mountDisk(filepath.Join(l.Dir, "disk"), diskSize)
		l.audit = filepath.Join(l.disk.dir, "audit.jsonl")
	}
	l.begin(ctx, lapse)
	return l
}

func (l *lab) begin(ctx context.Context, lapse time.Duration) {
	l.Build(ctx)
	addresses := world.Addresses(2)
	l.addr, l.admin = addresses[0], addresses[1]
	l.storm = httptest.NewServer(upstream.NewCareless())
	l.quiet = l.Start(world.Order{Dir: l.Dir, Command: []string{l.Self, quietPart}, Talks: true})
	calm, err := l.quiet.Out.ReadString('\n') // the address of its server
	must.Be(err == nil, "the quiet tenant: %w: %s", err, l.quiet.Words())
	const secret = "siege-7c61f0a2d94be853-hmac-secret" //nolint:gosec // G101: of a gateway that lives for minutes
	for _, tenant := range []string{"quiet", "red", "blue"} {
		l.tokens[tenant] = quiet.Tokens(secret, "https://siege.test/", l.addr, tenant, usersOfTenant)
	}
	l.text = fmt.Sprintf(gatewayConfig, l.addr, l.admin, strings.TrimSpace(calm),
		l.storm.Listener.Addr(), lapse, 1, l.audit)
	l.Write(map[string]string{"secret": secret, "library.db": ""}) // a database without tables
	l.configure(1)
}

// configure writes the gateway's config, with something that differs from turn to turn.
func (l *lab) configure(turn int) {
	text := strings.Replace(l.text, "burst: 1}", "burst: "+strconv.Itoa(100+turn%2)+"}", 1)
	world.ReplaceFile(filepath.Join(l.Dir, "drawbridge.yaml"), text)
}

// reloads returns how many configs the gateway has taken, 0 if it has ended.
func (l *lab) reloads(ctx context.Context) (taken int) {
	_ = must.Try(func() { // a gateway that has ended tells nothing
		metrics := client.Once(ctx, client.Request{
			Addr: l.admin, Method: http.MethodGet, Path: "/metrics",
		}, 4<<20)
		taken = int(world.Sum(metrics.Body, "drawbridge_config_reloads_total", `result="ok"`))
	})
	return taken
}

func (l *lab) close() {
	l.Keeper.Close()
	if l.storm != nil {
		l.storm.CloseClientConnections()
		l.storm.Close()
	}
	l.disk.unmount()
	_ = os.RemoveAll(l.Dir) // temporary anyway
}

// process is a gateway that runs in a cage.
type process struct {
	*world.Process

	words *lastWords
}

// serve starts a gateway in a cage and waits until it answers calls of all tenants.
func (l *lab) serve(ctx context.Context, c *world.Cage) *process {
	p := &process{words: &lastWords{}}
	command := c.Command(l.Program, "serve", "-config", "drawbridge.yaml")
	p.Process = l.Start(world.Order{Dir: l.Dir, Command: command, Output: l.disk.words(p.words)})
	defer must.Else(p.Kill)
	err := quiet.Serves(ctx, l.addr, l.tokens, map[string]string{
		"quiet": "calm", "red": "storm", "blue": "storm",
	})
	must.Be(err == nil, "%w\n%s", err, p.words)
	return p
}

// resident returns the resident memory in bytes, without the pages of the program's own
// file, of which the kernel keeps as many as it likes, and the most that it ever was.
// Both are zero once the gateway has ended.
func (p *process) resident() (now, most int64) {
	now, _ = world.Field(p.PID(), "status", "RssAnon") // without it the gateway has ended
	file, _ := world.Field(p.PID(), "status", "RssFile")
	most, _ = world.Field(p.PID(), "status", "VmHWM")
	return now, max(most-file, now)
}

// lastWords keeps the end of what is written to it, so that a log of any length needs no
// disk.
type lastWords struct {
	mu   sync.Mutex // guards the field below
	text []byte
}

const wordsKept = 64 << 10 // bytes

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if len(w.text) > 2*wordsKept {
		w.text = append([]byte(nil), w.text[len(w.text)-wordsKept:]...)
	}
	return len(p), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text[max(0, len(w.text)-1000):])
}
