package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

const (
	// drainDelay is how long clients are still taken. The check of a load balancer should
	// fall into it, so that new clients go elsewhere before they are refused.
	drainDelay = 2 * time.Second
	// callPatience is how long calls in work may go on. Containers are commonly killed
	// 30 s after the signal.
	callPatience = 25 * time.Second
	closeTimeout = 3 * time.Second // how long answers that are being written may take

	readHeaderTimeout = 5 * time.Second
	// idleTimeout is longer than that of most load balancers, so that the balancer closes
	// first and never sends into a closed connection.
	idleTimeout    = 75 * time.Second
	maxHeaderBytes = 32 << 10
)

// serveHelp is the help of the command serve.
var serveHelp = help{
	"[-config drawbridge.yaml]",
	"Runs the gateway until SIGTERM or SIGINT, draining. SIGHUP and a changed file reload the " +
		"config.\nExit 0 after a clean stop, 2 for a config that is refused, 1 otherwise.",
}

// serveCommand is the command serve. It refuses a bad config, or addresses that are
// taken, before any part of the gateway starts.
func serveCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	delay := flags.Duration("drain-delay", drainDelay,
		"how long to be not ready before connections are refused, and then how long idle ones may still be "+
			"used; more than the check interval of the load balancer")
	return func(ctx context.Context, _ []string, s streams) error {
		if *delay < 0 {
			return refused("-drain-delay must not be negative")
		}
		loader := config.NewLoader(*file, config.ProcessEnvironment())
		cfg, _, err := loader.Load()
		if err != nil {
			return refusedConfig(serveConfigError(err, *file))
		}
		// SIGHUP is taken from here on, before anybody can see the process: until
		// somebody takes it, the signal ends the process.
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		l, err := bind(ctx, cfg)
		if err != nil {
			return serveBindError(err, cfg)
		}
		defer l.close()
		return serve(ctx, cfg, l, options{delay: *delay, hangups: hangups, loader: loader}, s)
	}
}

// serveConfigError adds to an error of loading the config what a newcomer can do: if the
// file that is missing is the one that is looked for without -config, that flag may have
// been forgotten, and dev needs no file.
func serveConfigError(err error, file string) error {
	if file != defaultConfigFile || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf(
		"drawbridge serve: %w; -config FILE names another config, and drawbridge dev needs none", err)
}

// options are how the two commands that serve differ: serve reloads its config, dev
// prints what a first call needs.
type options struct {
	delay   time.Duration
	hangups <-chan os.Signal // each asks for a reload; nil: the config is never reloaded
	loader  *config.Loader   // of the config, for reloads
	up      func()           // called once, when everything has been started; may be nil

	// The level from which on the fleet logs how the servers are; nil: the level of the
	// config, as for everything else.
	serverLevel slog.Leveler
}

// serve builds the gateway and runs it until ctx ends or a part of it fails, which the
// log says. The log is written by a goroutine of its own, which starts before and ends
// after all else, so that it has the last lines too.
func serve(ctx context.Context, cfg *config.Config, l listeners, o options, s streams) error {
	// A reader of standard output or error may go away. Without this, the next write
	// would end the process; with it, only that write fails.
	brokenPipes := make(chan os.Signal, 1)
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	defer signal.Stop(brokenPipes)
	buffer := newLineBuffer(s.err)
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	log := newLogger(buffer, level, cfg.LogFormat)
	flushing := startTask(context.WithoutCancel(ctx), buffer.Run)
	defer flushing.stopWithin(logPatience)
	plan := planHere(cfg.Limits)
	if plan.ceiling > 0 {
		debug.SetMemoryLimit(plan.ceiling)
	}
	warnOfMemory(cfg, plan)
	p, err := build(cfg, plan, log, level, l)
	if err != nil {
		log.ErrorContext(ctx, "cannot start", slog.Any("error", err))
		return errUnsaid
	}
	if o.serverLevel != nil {
		p.fleet.log = newLogger(buffer, o.serverLevel, cfg.LogFormat)
	}
	p.metrics.LogLost(buffer.lost.Load)
	tellMemory(ctx, plan, log)
	p.collector.tell(ctx, log)
	p.limits.tell(ctx, log)
	freeMemory() // what reading a large config took, before clients and servers take theirs
	if err := p.run(ctx, l, o); err != nil {
		log.ErrorContext(ctx, "stopped by a fault", slog.Any("error", err))
		return errUnsaid
	}
	log.InfoContext(ctx, "stopped")
	return nil
}

// run starts the parts, and stops them in order when ctx ends or a part fails:
//
//	start, top to bottom                  stop, top to bottom
//	--------------------                  -------------------
//	operator's listener                   drain, only if ctx ended (see there)
//	what replicas share, the store        clients' listener
//	verifiers of the issuers' tokens      work ends: it is cancelled for all that has it
//	servers of the fleet
//	server and gateway (housekeeping),    verifiers, then servers of the fleet
//	scavenger, collector
//	clients' listener                     operator's listener
//	reloads                               wait for the goroutines of the group, close the audit log
//
// The operator's listener is the first to start and nearly the last to stop, so that
// /readyz and the metrics tell of both. Clients come in only after the servers have been
// put into the catalogue, though most of these will not be connected yet; until then
// their requests are held, as delayedUntil says. The audit log is closed last because
// every part above may still have a record to write. The returned error joins what made a
// part fail with what went wrong while closing.
func (p *parts) run(ctx context.Context, l listeners, o options) error {
	// ctx ends with the signal that begins the stop. Draining needs the parts to go on
	// after that, so they get the context work, which ends when run calls end or when a
	// part fails.
	group, work := errgroup.WithContext(context.WithoutCancel(ctx))
	work, end := context.WithCancel(work)
	defer end()
	beginning, begun := context.WithCancel(work) // until the stop begins
	defer begun()
	defer context.AfterFunc(ctx, begun)()
	awaited := make(chan struct{}) // closed when there is all that clients need
	clients := p.httpServer(delayedUntil(awaited, p.server.Handler()), p.limits.clients)
	operator := p.httpServer(admin.Handler(admin.Config{
		Metrics: metrics.Handler(p.gatherer), View: p.status.view, AllowsHost: p.operatorAllows,
	}), p.limits.operator)

	start := func(run func(context.Context) error) { group.Go(func() error { return run(work) }) }
	group.Go(func() error { return serveHTTP(operator, p.limits.operator.Listener(l.operator)) })
	p.sharing.run(work, group)
	start(p.storing.run)
	start(p.signIns.run)
	if p.keys != nil {
		start(p.keys.Run)
	}
	p.issuers.start(work)
	p.fleet.apply(work, p.started.ReachedServers())
	start(p.server.Run)
	start(p.gateway.Run)
	start(newScavenger(p.memory.InUse, p.log).Run)
	start(p.collector.Run)
	group.Go(func() error {
		defer close(awaited)
		p.status.await(beginning)
		return nil
	})
	accepting := make(chan struct{}) // closed when no connection is accepted any more
	group.Go(func() error {
		defer close(accepting)
		return serveHTTP(clients, p.limits.clients.Listener(l.clients))
	})
	if o.hangups != nil {
		p.access = newAccessLog(p.gateway, p.log)
		start(p.access.Run)
		group.Go(func() error { return p.reloads(beginning, work, o.hangups, o.loader) })
	}
	tellWarnings(ctx, p.started, p.log, p.metrics)
	p.log.InfoContext(ctx, "serving", slog.String("listen", l.clients.Addr().String()),
		slog.String("operator", l.operator.Addr().String()),
		slog.String("version", thisBuild().version), slog.String("config", summary(p.started)),
		slog.String("audit", auditLocation(p.started)))
	if o.up != nil {
		o.up()
	}
	if pace.Await(work, ctx.Done()) == nil { // otherwise a part failed: the stop begins without a drain
		p.drain(work, o.delay, func() {
			refuseConnections(work, l.clients)
			<-accepting // or one that was accepted last would not be known yet
		})
	}
	p.closeClients(clients)
	end()
	p.issuers.wait()
	p.fleet.close()
	closeHTTP(operator)
	err := group.Wait() // after this nothing is left that could have a record for the audit log
	return errors.Join(err, p.audit.Close())
}

// operatorAllows tells whether requests to the operator's listener may name that host. If
// only this machine reaches it, none may that somebody can have on the web but those of
// allowed_hosts. Load balancers beside the gateway name an address, a word or nothing.
func (p *parts) operatorAllows(host string) bool {
	_, withPort := netip.ParseAddrPort(host)
	_, without := netip.ParseAddr(host)
	isAddress := withPort == nil || without == nil
	return !config.IsLoopback(p.started.Operator) || isAddress || !strings.Contains(host, ".") ||
		p.settings.Load().AllowsHost(host)
}

// drain lets clients go without breaking a call:
//
//	/readyz says not ready, each answer closes its connection ── delay ──▶ a load balancer that asks goes elsewhere
//	connections are refused ─────────────────────────────────────────────▶ one that does not ask goes elsewhere, too
//	event streams end properly, one after the other ─────────────────────▶ clients resume elsewhere
//	idle connections may be used once more ── delay at most ─────────────▶ hardly any is left that is closed under a request
//	calls finish ── callPatience at most, with the two steps before ─────▶ those that are left are cancelled, and told so
//
// Whatever comes on an open connection until it is closed, by closeClients, is served,
// but after callPatience it is told to come again: it would be cancelled in a moment, and
// nobody would know whether it has taken effect. Were streams to end while clients can
// still connect, many would come back here. Were idle connections closed at once, as
// http.Server does, the requests that are on their way on them would be lost. It returns
// earlier when ctx ends.
func (p *parts) drain(ctx context.Context, delay time.Duration, refuse func()) {
	p.log.InfoContext(ctx, "draining", slog.Duration("delay", delay))
	p.status.drain.Store(true)
	p.server.DrainClients()
	pace.Wait(ctx, delay)
	refuse()
	p.server.EndStreams()
	calls, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	p.letUse(calls, delay)
	p.cancelled(ctx, p.server.Wait(calls))
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	p.gateway.Stop()
	p.cancelled(ctx, p.server.Wait(limited)) // also those whose clients are at other replicas
}

// cancelled logs how many calls were cancelled, if there were any.
func (p *parts) cancelled(ctx context.Context, calls int) {
	if calls > 0 {
		p.log.WarnContext(ctx, "calls cancelled: they took too long to wait for", slog.Int("calls", calls))
	}
}

// letUse waits until no connection is idle, for patience at most. Each that is used now
// closes with the answer.
func (p *parts) letUse(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for p.limits.clients.Unused() > 0 && ctx.Err() == nil {
		pace.Wait(ctx, pollInterval)
	}
}

// httpServer returns an HTTP server with the bounds that both listeners have. It has no
// timeout for writing, because an event stream stays open for as long as its client
// wants.
func (p *parts) httpServer(handler http.Handler, limiter *connlimit.Limiter) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Most lines are of what scanners and broken clients cause.
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),

		// Otherwise net/http would answer "OPTIONS *" itself, past every check and record
		// of the handler.
		DisableGeneralOptionsHandler: true,
	}
	limiter.Attach(s)
	return s
}

// closeClients closes the connections of clients, and then the event streams whose
// connections the server no longer has. Most have ended by then; those of clients that do
// not take the end are cut off. A call that came at the last moment, on a connection that
// was open still, is cancelled if it does not end soon, and its client told so. It waits
// in the same time for what other replicas have forwarded here. They do not know yet that
// this one ends, and what they forward now they answer themselves.
func (p *parts) closeClients(clients *http.Server) {
	if shutDown(clients) != nil {
		p.endCalls()
		closeHTTP(clients)
	}
	p.server.EndStreams() // again, because a stop without a drain comes here first
	p.server.DrainReplicas()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var streams sync.WaitGroup
	streams.Go(func() { p.server.CloseStreams(ctx) })
	p.server.Wait(ctx)
	streams.Wait()
}

// endCalls cancels the calls that are in work, and makes their clients be told so.
func (p *parts) endCalls() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	p.server.Wait(over)
}

// shutDown takes no new connections, and closes those that are open when their requests
// are answered. It returns an error if some are not within closeTimeout.
func shutDown(s *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.Shutdown(ctx)
}

// closeHTTP stops a server: it takes no new connections, and requests in work have
// closeTimeout to finish before their connections are closed.
func closeHTTP(s *http.Server) {
	if shutDown(s) != nil {
		_ = s.Close() // whatever is left had its time, and there is nobody to tell
	}
}

// serveHTTP serves until the server or its listener is closed. That is no error; anything
// else is, and stops the gateway.
func serveHTTP(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
