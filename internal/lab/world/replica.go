package world

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// Replica is a gateway: one address and config, at which a process runs most of the time.
// Its methods are for one goroutine.
type Replica struct {
	Name string // such as "replica-0"
	Dir  string // of its files: drawbridge.yaml, keys, audit.jsonl, log
	// host:port where the gateway itself listens for clients, past Balancer
	Address  string
	Operator string          // host:port of /readyz and /metrics
	Balancer *netfault.Proxy // from the load balancer; nil in a Direct world
	// to the address of redis.url: the server, the sentinel, or a node of the cluster
	Redis    *netfault.Proxy
	Upstream map[string]*netfault.Proxy // to each server, by its name
	// from the other replicas to its listener for them, which is at LinkAddress; nil in a
	// world without Links
	Link        *netfault.Proxy
	LinkAddress string

	Env []string // further ones such as "GOMEMLIMIT=100MiB", from the next Start on
	// a program with arguments that becomes the gateway, such as prlimit --nofile=256,
	// from the next Start on
	Wrapper []string

	*Process // the last one; nil: there was none

	world   *World
	program string
	audits  []string // all files that its processes had, the last one in use
}

const (
	configFile = "drawbridge.yaml" // in the folder of a replica
	drainDelay = "500ms"           // of the gateways, which two checks of the balancer need
)

func replicaName(i int) string { return fmt.Sprintf("replica-%d", i) }

// newReplica prepares a replica that does not run: its proxies, the one of the balancer
// refusing, and its files.
func (w *World) newReplica(i int) *Replica {
	r := &Replica{
		Name: replicaName(i), world: w, program: w.config.Program, Upstream: map[string]*netfault.Proxy{},
	}
	r.Dir = filepath.Join(w.config.Dir, r.Name)
	r.audits = []string{filepath.Join(r.Dir, "audit.jsonl")}
	defer must.Else(r.closeProxies)
	take := func(part string) string { return w.network.address(part) }
	before := func(target string) *netfault.Proxy { return must.Have(netfault.StartAt(take(""), target)) }
	r.Address, r.Operator, r.Redis = take(r.Name), take(r.Name), before(w.Redis.door().Address)
	if !w.config.Direct {
		r.Balancer = must.Have(netfault.Start(r.Address))
		r.Balancer.Refuse()
	}
	for name, target := range w.config.Upstreams {
		address, _, _ := strings.Cut(target, "/")
		r.Upstream[name] = before(address)
	}
	if w.config.Links {
		r.LinkAddress = take(r.Name)
		r.Link = before(r.LinkAddress)
	}
	key := base64.StdEncoding.EncodeToString([]byte(secret)[:32]) + "\n"
	must.OK(os.Mkdir(r.Dir, 0o700))
	WriteFiles(r.Dir, map[string]string{"keys": key, configFile: w.text(r, r.audits[0])})
	return r
}

func (r *Replica) closeProxies() {
	for _, p := range append(slices.Collect(maps.Values(r.Upstream)), r.Balancer, r.Redis, r.Link) {
		if p != nil {
			p.Close()
		}
	}
}

// file is the config.
func (r *Replica) file() string { return filepath.Join(r.Dir, configFile) }

// write puts a text in the place of a file at once.
func (r *Replica) write(file, text string) {
	ReplaceFile(filepath.Join(r.Dir, file), text)
}

// Start starts the process, and returns when it answers /readyz with 200, or with an
// error that has the end of its log.
func (r *Replica) Start(ctx context.Context) {
	r.Launch(ctx)
	r.ready(ctx)
}

// Launch is Start without the wait, for a gateway that cannot get ready.
func (r *Replica) Launch(ctx context.Context) {
	must.OK(ctx.Err())
	must.Be(!r.Runs(), "%s runs already", r.Name)
	command := slices.Concat(r.Wrapper, []string{
		r.program, "serve", "-config", r.file(), "-drain-delay", drainDelay,
	})
	o := Order{Dir: r.Dir, Command: r.world.network.command(r.Name, command...), Env: r.Env}
	if r.Balancer != nil {
		o.ended = r.Balancer.Refuse // as the kernel would, if there were no proxy
	}
	if r.Process = r.world.Start(o); r.Balancer != nil {
		r.Balancer.Accept()
	}
}

// ready waits until /readyz is 200, as long as the process runs.
func (r *Replica) ready(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.life, stop)()
	err := must.Try(func() { Until(ctx, func() { r.isReady(ctx) }) })
	if err == nil {
		return
	}
	if !r.Runs() {
		err = fmt.Errorf("%s has ended with exit code %d", r.Name, r.command.ProcessState.ExitCode())
	}
	panic(fmt.Errorf("%w\n%s", err, r.Words()))
}

// Stop asks the process to end with SIGTERM, waits for that, and returns the exit code.
// When ctx ends, which is an error, it writes into its log what it does, and is killed.
func (r *Replica) Stop(ctx context.Context) (exit int, err error) {
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("%s: %w", r.Name, err)
	}
	select {
	case <-r.life.Done():
		return r.command.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		r.quit()
		return 0, fmt.Errorf("%s did not stop: %w", r.Name, ctx.Err())
	}
}

// Program names the program of the next Start.
func (r *Replica) Program(path string) { r.program = path }

// auditLine is where the config says which file audit records go to.
var auditLine = regexp.MustCompile(`(?m)^audit: \{file: [^,}\s]+`)

// AuditTo names another audit file, from the next Start on. World.Audit reads those
// before too.
func (r *Replica) AuditTo(path string) {
	text := must.Have(os.ReadFile(r.file()))
	must.Be(auditLine.Match(text), "%s has no line of the audit file", r.file())
	r.audits = append(slices.DeleteFunc(r.audits, func(old string) bool { return old == path }), path)
	r.write(configFile, auditLine.ReplaceAllLiteralString(string(text), "audit: {file: "+path))
}
