package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// maxRefusalsShown bounds how many items that were left out of one server the warnings
// name, and how many the log names at once.
const maxRefusalsShown = 10

// fleet keeps the servers of the config running: built-in tools, HTTP APIs and upstreams
// (programs and MCP servers at an address). It puts what they offer into the catalogue,
// and tells log, metrics and the operator's page how they are.
//
//	apply(config) --> start --> startOwn: built-in tools, HTTP APIs, known at once ----> offer --+
//	   |                |                                                                        v
//	   |                +-----> upstream.Run in a task, which connects and lists           catalogue
//	   |                             |  puts its lists there itself ------------------------> ^
//	   |                             |  each change of its status
//	   |                             v
//	   |                           note --> statuses --> metrics, log, warnings
//	   |
//	   +--> end of each that is gone or differs, side by side; one that differs starts when it has ended
//
// There are two locks, because starting and stopping waits for servers and telling how
// they are must not: changing is held through a whole apply or close, mu for a few lines
// only. Stopping a server waits for its task, which may be inside note. So note takes mu
// and never changing, or both would wait for ever.
type fleet struct {
	catalogue  *registry.Registry
	metrics    *metrics.Metrics
	log        *slog.Logger
	memory     *share.Budget       // as upstream.Config.Memory; set before apply
	turns      *fairqueue.Queue    // as upstream.Config.Turns; set before apply
	overheard  func(name string)   // has other replicas read the lists of a server again; set before apply
	extensions *mcp.ExtensionTable // as upstream.Config.Extensions; set before apply
	signer     *credential.Signer  // of those who call, for servers that are told; set before apply
	// shared is where replicas keep tokens for servers. It is nil if there are no other
	// replicas, and is set before apply.
	shared *credential.Shared
	signs  atomic.Bool // there is such a server

	// changing guards running. It is held while servers start and stop, so that there is
	// one change at a time.
	changing sync.Mutex
	running  map[string]runningServer // by the servers' names, as are the maps below

	mu        sync.Mutex                 // guards the fields below
	statuses  map[string]upstream.Status // the newest of each server
	connected map[string]connected       // the servers that it connects to, which are the upstreams
	// what the log has named of each that is quarantined, and of what else is left out;
	// see tells
	loggedHeld, loggedLeftOut map[string]map[string]bool
	applied                   bool // the servers of the config were started
}

// connected is an upstream, or what stands in for one in a test.
type connected interface {
	Load() upstream.Load
	Reread()
}

// runningServer is a server with the config that it was started with, which apply
// compares with the next one.
type runningServer struct {
	config config.Server
	end    func() // begins to end the server
	stop   func() // ends the server and waits for it
}

// newFleet returns a fleet without servers. It registers itself with the metrics, which
// ask for the servers' loads when they are scraped.
func newFleet(catalogue *registry.Registry, m *metrics.Metrics, log *slog.Logger) *fleet {
	f := &fleet{
		catalogue: catalogue, metrics: m, log: log,
		running: map[string]runningServer{}, statuses: map[string]upstream.Status{},
		connected: map[string]connected{}, loggedHeld: map[string]map[string]bool{},
		loggedLeftOut: map[string]map[string]bool{}, signer: credential.NewSigner(time.Now),
	}
	m.UpstreamLoads.Of(func(tell metrics.Tell) {
		for name, load := range f.loads() {
			tell(name, float64(load.Processes), float64(load.Sessions))
		}
	})
	return f
}

// apply makes the running servers those of the config: it stops those that are gone,
// restarts those whose config differs, starts new ones and leaves the rest connected.
// Servers run until they are stopped or ctx ends. A server that cannot start is down,
// with the reason in its status. Neither that nor a server that is slow to stop keeps the
// others from starting. It waits for servers to stop, but not for new ones to connect.
func (f *fleet) apply(ctx context.Context, servers []config.Server) {
	f.changing.Lock()
	defer f.changing.Unlock()
	wanted := make(map[string]config.Server, len(servers))
	for _, s := range servers {
		wanted[s.Name] = s
	}
	stopping := f.changed(servers)
	for name := range f.running {
		if _, stops := stopping[name]; stops {
			delete(f.running, name)
		} else {
			delete(wanted, name)
		}
	}
	f.signs.Store(slices.ContainsFunc(servers, func(s config.Server) bool { return s.Auth.Issuer != "" }))
	var starting sync.Mutex // guards running here, and has one server start at a time
	start := func(s config.Server) {
		starting.Lock()
		defer starting.Unlock()
		own, end := context.WithCancel(ctx)
		f.running[s.Name] = runningServer{s, end, f.start(own, s)}
	}
	var all sync.WaitGroup
	for name, r := range stopping {
		next, returns := wanted[name]
		delete(wanted, name)
		all.Go(func() {
			if f.end(r, next, returns); returns {
				start(next)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		start(wanted[name])
	}
	all.Wait()
	f.countIdle()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = true
}

// withdraw has calls of those servers fail that apply would stop, as if they were down,
// and begins to end them. It does not wait. Rules that come into force between the two
// are for the servers of the new config: by them a server of the old one could be called
// as neither config allows.
func (f *fleet) withdraw(servers []config.Server) {
	f.changing.Lock()
	defer f.changing.Unlock()
	for name, r := range f.changed(servers) {
		r.end()
		f.catalogue.Lose(name, r.config.Prefix)
	}
}

// changed returns the running servers that are not among those given, or differ. The
// caller holds changing.
func (f *fleet) changed(servers []config.Server) map[string]runningServer {
	changed := maps.Clone(f.running)
	for _, s := range servers {
		if r, runs := changed[s.Name]; runs && reflect.DeepEqual(s, r.config) {
			delete(changed, s.Name)
		}
	}
	return changed
}

// end stops a server and waits for it. If it returns, it will be started again as next.
// Then what it offered stays known to the catalogue, so that clients see no change of
// lists for a restart, unless another prefix gives its items other names, or some of them
// might be let in no more. Of any other, items and metrics are removed.
func (f *fleet) end(r runningServer, next config.Server, returns bool) {
	r.end()
	r.stop()
	name := r.config.Name
	f.mu.Lock()
	before := f.statuses[name]
	delete(f.statuses, name)
	delete(f.connected, name)
	if !returns {
		delete(f.loggedHeld, name)
		delete(f.loggedLeftOut, name)
	}
	f.mu.Unlock()
	f.countRefusals(name, before.Refused, nil)
	switch {
	case !returns:
		f.metrics.UpstreamRemoved(name)
		f.catalogue.Remove(name)
	case next.Prefix != r.config.Prefix, admitsLess(next, r.config, before.Idle):
		f.catalogue.Forget(name)
	}
}

// admitsLess tells whether a definition that was offered before may be quarantined now.
// The catalogue must not keep it until the server is read again, which a server can put
// off. idle are the digests that let nothing in.
func admitsLess(now, before config.Server, idle []string) bool {
	return now.Pinned && !before.Pinned || slices.ContainsFunc(before.Released, func(digest string) bool {
		return !slices.Contains(now.Released, digest) && !slices.Contains(idle, digest)
	})
}

// close stops every server and waits for all of them.
func (f *fleet) close() {
	f.changing.Lock()
	defer f.changing.Unlock()
	var all sync.WaitGroup
	for _, r := range f.running {
		all.Go(func() { f.end(r, config.Server{}, false) })
	}
	all.Wait()
	f.countIdle()
	clear(f.running)
}

// start starts a server of any kind and returns how to stop it. The caller holds
// changing.
func (f *fleet) start(ctx context.Context, s config.Server) (stop func()) {
	if len(s.Builtin) > 0 || s.API.Document != nil {
		return f.startOwn(ctx, s)
	}
	// The server counts as down from before the first call until it is reached, so that
	// early callers are told that it is down and not that there is no such tool.
	outage := f.catalogue.Lose(s.Name, s.Prefix)
	f.note(ctx, upstream.Status{Server: s.Name, Since: outage.Since})
	cfg := f.connection(s)
	cfg.Status = func(status upstream.Status) { f.note(ctx, withoutMeant(s, status)) }
	cfg.Count = func(kind upstream.Anomaly, n int) { f.metrics.UpstreamMisbehaved(s.Name, string(kind), n) }
	if s.URL != "" && f.overheard != nil { // a program is each replica's own, and knows nothing of the others
		cfg.Overheard = func() { f.overheard(s.Name) }
	}
	u := upstream.New(cfg, f.catalogue)
	f.mu.Lock()
	f.connected[s.Name] = u
	f.mu.Unlock()
	task := startTask(ctx, u.Run)
	return func() {
		task.stop()
		cfg.Credential.Close()
	}
}

// connection is upstreamConfig with what the servers of a fleet have in common, as
// -online connects, too. Its credential is for the caller to close.
func (f *fleet) connection(s config.Server) upstream.Config {
	cfg := upstreamConfig(s, f.log)
	cfg.Credential = f.credential(s)
	cfg.Memory, cfg.Turns, cfg.Extensions = f.memory, f.turns, f.extensions
	cfg.Panicked = f.metrics.Panicked
	return cfg
}

// credential returns what requests to a server carry by who calls, nil for nothing.
func (f *fleet) credential(s config.Server) *credential.Source {
	if s.Auth.IsZero() {
		return nil
	}
	return credential.New(credential.Config{
		Server: s.Name, Spec: s.Auth.Spec, Tenants: s.Auth.Tenants, Issuer: s.Auth.Issuer, Signer: f.signer,
		Client: dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}), Logger: f.log,
		Shared: f.shared, Panicked: f.metrics.Panicked,
		Count: func(result string) { f.metrics.CredentialMade(s.Name, result) },
	})
}

// keySet returns the keys by which servers check who calls, nil if no server is told.
func (f *fleet) keySet() []byte {
	if !f.signs.Load() {
		return nil
	}
	return f.signer.KeySet()
}

// reread has the lists of a server read again. It does not block, and does nothing if
// there is no such server.
func (f *fleet) reread(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u := f.connected[name]; u != nil {
		u.Reread()
	}
}

// rereadAll has the lists of all servers read again, soon.
func (f *fleet) rereadAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.connected {
		u.Reread()
	}
}

// startOwn offers tools that are known without a connection: those that are built in,
// which run in this process, or the operations of an HTTP API. It does not connect to the
// API, which has no request that is sure to be harmless; whether the API answers shows at
// each call.
func (f *fleet) startOwn(ctx context.Context, s config.Server) (stop func()) {
	credentials := f.credential(s)
	tools, err := f.ownTools(s, credentials)
	if err != nil {
		credentials.Close()
		return f.fail(ctx, s, err)
	}
	f.offer(ctx, s, tools)
	return func() {
		f.catalogue.Lose(s.Name, s.Prefix)
		credentials.Close()
	}
}

// ownTools makes the tools for startOwn. What requests carry is for an API alone.
func (f *fleet) ownTools(s config.Server, credentials *credential.Source) (*openapi.Loaded, error) {
	if s.API.Document != nil {
		cfg := s.OpenAPIConfig()
		cfg.Turns, cfg.Credential = f.turns, credentials
		return openapi.Load(cfg)
	}
	cfg := s.BuiltinConfig()
	cfg.Turns = f.turns
	offers, err := builtin.New(cfg)
	return &openapi.Loaded{Offers: offers}, err
}

// fail notes that a server of built-in tools or an HTTP API cannot start. Nothing tries
// again, since only another config can mend that, and so its items leave the lists at
// once.
func (f *fleet) fail(ctx context.Context, s config.Server, err error) (stop func()) {
	outage := f.catalogue.Lose(s.Name, s.Prefix)
	f.catalogue.Unlist(s.Name, outage)
	f.note(ctx, upstream.Status{
		Server: s.Name, Tried: true, Failed: 1, Problem: err.Error(), Since: outage.Since,
	})
	return func() {}
}

// offer puts the tools of a server that is known without a connection into the catalogue,
// and notes what the catalogue has of them and what was left out.
func (f *fleet) offer(ctx context.Context, s config.Server, tools *openapi.Loaded) {
	for i := range tools.Offers {
		if own := s.ToolTimeouts[tools.Offers[i].Definition.Text("name")]; own > 0 {
			tools.Offers[i].Timeout = own
		}
	}
	left := f.catalogue.Replace(registry.Source{
		Name: s.Name, Prefix: s.Prefix, Own: true, Tools: tools.Offers,
	})
	f.note(ctx, withoutMeant(s, upstream.Status{
		Server: s.Name, Up: true, Tried: true, Idle: tools.Idle,
		Refused: append(tools.Refusals, left...), Offered: f.catalogue.Catalogue().Offered(s.Name),
	}))
}

// upstreamConfig returns what package upstream needs of a server by its config alone.
func upstreamConfig(s config.Server, log *slog.Logger) upstream.Config {
	return upstream.Config{
		Name:         s.Name,
		Prefix:       s.Prefix,
		Command:      s.Command,
		Args:         s.Args,
		Dir:          s.Dir,
		Env:          s.Env,
		Rights:       s.Rights,
		Keeper:       keeper(),
		StartTimeout: s.StartTimeout,
		MaxChildren:  s.MaxChildren,
		URL:          s.URL,
		Personal:     s.Auth.OwnLists,
		Type:         s.Transport,
		Revision:     s.Revision,
		Headers:      s.Headers,
		Client:       dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}),
		Shared:       s.Shared,
		OneUser:      s.OneUser,
		Grace:        s.Grace,
		Timeout:      s.Timeout,
		ToolTimeouts: s.ToolTimeouts,
		Idempotent:   s.Idempotent,
		Released:     s.Released,
		Pinned:       s.Pinned,
		Version:      thisBuild().version,
		Logger:       log,
	}
}

// keepCommand is the command by which the gateway starts itself as the keeper of a child.
// It is not for people, and so not in the list of commands.
const keepCommand = "keep"

// keeper returns how the command line of a child's keeper begins, nil where the system
// has none.
func keeper() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	return []string{"drawbridge", keepCommand}
}

// note keeps the newest status of a server, and tells metrics and log what changed. The
// upstreams call it from their own goroutines. That a server is down is a warning once,
// and then again only for another reason: each further attempt is logged at debug level,
// or a server that is down for a night would fill the log.
func (f *fleet) note(ctx context.Context, now upstream.Status) {
	before, known := f.keep(now)
	f.metrics.UpstreamUp(now.Server, now.Up, now.Tools)
	if known && now.Restarts > before.Restarts {
		f.metrics.UpstreamReconnected(now.Server)
	}
	held, others := quarantined(now.Refused)
	f.countRefusals(now.Server, before.Refused, others)
	switch {
	case now.Up && (!before.Up || howMany(before) != howMany(now)):
		f.tellUp(ctx, before, now)
	case !now.Up && now.Tried && (before.Up || before.Problem != now.Problem):
		f.log.LogAttrs(ctx, slog.LevelWarn, "server down", whyDown(now)...)
	case !now.Up && now.Tried:
		f.log.LogAttrs(ctx, slog.LevelDebug, "server still down", whyDown(now)...)
	}
	f.tellQuarantine(ctx, now, held)
	lines := 0
	for _, r := range others {
		if lines < maxRefusalsShown &&
			f.tells(f.loggedLeftOut, now.Server, string(r.Kind)+" "+r.Item+", "+r.Reason) {
			lines++
			f.log.WarnContext(ctx, "item left out", slog.String("server", r.Server),
				slog.String("kind", string(r.Kind)), slog.String("item", r.Item),
				slog.String("reason", r.Reason), slog.Any("error", r.Err))
		}
	}
	if n := len(now.Unenforced); n > 0 && !slices.Equal(before.Unenforced, now.Unenforced) {
		f.log.WarnContext(ctx, "parts of schemas are not enforced", slog.String("server", now.Server),
			slog.Int("parts", n),
			slog.Any("first", now.Unenforced[:min(n, maxRefusalsShown)]))
	}
}

// keep puts the newest status of a server in the place of the one before and returns the
// latter; known is false if there was none.
func (f *fleet) keep(now upstream.Status) (before upstream.Status, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known = f.statuses[now.Server]
	f.statuses[now.Server] = now
	return before, known
}

// howMany returns how many items of each kind a server offers.
func howMany(s upstream.Status) [4]int { return [4]int{s.Tools, s.Prompts, s.Resources, s.Templates} }

// tellUp logs that a server is up, or that one which was up offers more or less now. For
// a server that had to be connected to, the line has the number of attempts and the time
// since the server was lost or first tried. If it was up before that, the line also has
// the reason why it was lost.
func (f *fleet) tellUp(ctx context.Context, before, now upstream.Status) {
	attributes := []slog.Attr{
		slog.String("server", now.Server), slog.String("revision", now.Revision),
		slog.Int("tools", now.Tools), slog.Int("prompts", now.Prompts), slog.Int("resources", now.Resources),
		slog.Int("templates", now.Templates),
	}
	if before.Up {
		f.log.LogAttrs(ctx, slog.LevelInfo, "server offers more or less than before", attributes...)
		return
	}
	if !before.Since.IsZero() {
		attributes = append(attributes, slog.Int("attempt", now.Failed+1),
			slog.Float64("after_seconds", time.Since(before.Since).Seconds()))
	}
	if now.Restarts > before.Restarts {
		attributes = append(attributes, slog.Int("restarts", now.Restarts), slog.String("reason", now.Lost))
		f.log.LogAttrs(ctx, slog.LevelInfo, "server restarted", attributes...)
		return
	}
	f.log.LogAttrs(ctx, slog.LevelInfo, "server up", attributes...)
}

// whyDown returns for the log why a server is down, and how many attempts to connect have
// failed.
func whyDown(now upstream.Status) []slog.Attr {
	attributes := []slog.Attr{slog.String("server", now.Server), slog.String("problem", now.Problem)}
	if len(now.Said) > 0 {
		attributes = append(attributes, slog.String("stderr", strings.Join(now.Said, " | ")))
	}
	if now.Failed > 0 {
		attributes = append(attributes, slog.Int("attempt", now.Failed))
	}
	return attributes
}

// countRefusals sets the metric of refused items for each reason. A reason that was there
// before and is gone is set to zero, or its old count would stay for ever.
func (f *fleet) countRefusals(server string, before, now []registry.Refusal) {
	counts := make(map[string]int)
	for _, r := range before {
		counts[r.Reason] = 0
	}
	for _, r := range now {
		counts[r.Reason]++
	}
	for reason, n := range counts {
		f.metrics.ItemsRefused(server, reason, n)
	}
}

// tried tells whether an attempt to reach each server has ended, well or not. Until then
// the gateway is not ready, see status.
func (f *fleet) tried() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.statuses {
		if !s.Tried {
			return false
		}
	}
	return f.applied
}

// warnings says, by the servers' names, which servers are starting or down, what
// operators can mend at those that are up, which items are left out, and what of schemas
// is not enforced.
func (f *fleet) warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(f.statuses)) {
		s := f.statuses[name]
		switch since := s.Since.UTC().Format(time.RFC3339); {
		case s.Up:
		case !s.Tried:
			out = append(out, fmt.Sprintf("server %s is starting (since %s)", name, since))
		default:
			out = append(out, fmt.Sprintf("server %s is down: %s (since %s)%s", name, s.Problem, since,
				lastSaid(s)))
		}
		if s.Advice != "" {
			out = append(out, fmt.Sprintf("server %s: %s", name, s.Advice))
		}
		out = append(out, idleReleases(s)...)
		out = append(out, sayEach(s, s.Refused, maxRefusalsShown, "items are left out", leftOut)...)
		out = append(out, unenforced(s, maxRefusalsShown)...)
	}
	return out
}

// sayEach says something of each of the first things about a server, and how many more
// there are.
func sayEach[T any](s upstream.Status, all []T, most int, what string, say func(T) string) []string {
	var out []string
	for i, one := range all {
		if i == most {
			return append(out, fmt.Sprintf("server %s: %d more %s", s.Server, len(all)-i, what))
		}
		out = append(out, "server "+s.Server+": "+say(one))
	}
	return out
}

// unenforced says what of the schemas of a server's tools is not enforced.
func unenforced(s upstream.Status, most int) []string {
	return sayEach(s, s.Unenforced, most, "parts of schemas are not enforced",
		func(part string) string { return "not enforced: " + part })
}

// lastSaid quotes the last lines that the program of a server wrote to standard error, ""
// when there are none.
func lastSaid(s upstream.Status) string {
	return when(len(s.Said) > 0, "; last on its standard error: %s", strings.Join(s.Said, " | "))
}

// maxReason bounds how much the warnings say of what is wrong with one item, in bytes:
// servers name what stands in a schema.
const maxReason = 300

// leftOut says in words what a refusal leaves out: one item, or a whole list that could
// not be read. Of one that the operator can release it says how.
func leftOut(r registry.Refusal) string {
	if why, ok := errors.AsType[*registry.QuarantineError](r.Err); ok {
		return fmt.Sprintf("%s '%s' is quarantined: %v; %s", r.Kind, r.Item, why, why.Cure())
	}
	if isList(r) {
		return fmt.Sprintf("its list of %ss cannot be read", r.Kind)
	}
	return fmt.Sprintf("%s %q is left out: %s", r.Kind, r.Item, mcp.Clip(legible(whyLeftOut(r)), maxReason))
}

// isList tells whether a refusal leaves out a whole list that could not be read.
func isList(r registry.Refusal) bool { return r.Item == "" && r.Reason == "list" }

// whyLeftOut says what is wrong with an item that is left out.
func whyLeftOut(r registry.Refusal) string {
	return r.Reason + when(r.Reason != registry.ReasonQuarantined && r.Err != nil, ", %v", r.Err)
}
