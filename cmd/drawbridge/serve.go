package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

const (
	drainDelay   = 2 * time.Second  // a load balancer's check, so that it looks elsewhere before connections end
	callPatience = 25 * time.Second // for calls in work; containers are killed after 30 s
	closeTimeout = 3 * time.Second  // for answers on their way

	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 75 * time.Second // longer than a load balancer's, so that it closes first
	maxHeaderBytes    = 32 << 10
)

func runServe(ctx context.Context, args []string, s streams) int {
	flags := newFlags("serve", "[-config drawbridge.yaml]",
		"Runs the gateway until SIGTERM or SIGINT, draining. SIGHUP and a changed file reload the config.\nExit 0 after a clean stop, 2 for a config that is refused, 1 otherwise.", s)
	file := flags.String("config", defaultConfigFile, "the config `file`")
	delay := flags.Duration("drain-delay", drainDelay, "how long to be not ready before connections end; the check interval of the load balancer")
	if code, done := parseFlags(flags, args, s); done {
		return code
	}
	cfg, err := config.Load(*file, config.ProcessEnvironment())
	if err != nil {
		s.complain("%v\n", serveConfigError(err, *file))
		return exitRefused
	}
	hangups := make(chan os.Signal, 1) // before anybody can see that the process is there: a signal without a taker would end it
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	l, err := bind(ctx, cfg)
	if err != nil {
		s.complain("drawbridge serve: %v\n", serveBindError(err, cfg))
		return exitFailure
	}
	defer l.close()
	return serve(ctx, cfg, l, options{delay: *delay, hangups: hangups, env: config.ProcessEnvironment()}, s)
}

// serveConfigError adds how to do without the config that was looked for when the command line named none.
func serveConfigError(err error, file string) error {
	if file != defaultConfigFile || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("drawbridge serve: %w; -config FILE names another config, and drawbridge dev needs none", err)
}

// options are how the two commands that serve differ.
type options struct {
	delay   time.Duration
	hangups <-chan os.Signal // ask for a reload; nil: the config is not reloaded at all
	env     config.Environment
	up      func() // called when everything runs; may be nil

	serverLevel slog.Leveler // from which on is logged how the servers are; nil: the level of the config, as for all else
}

// serve runs the gateway until ctx ends or a part fails.
func serve(ctx context.Context, cfg *config.Config, l listeners, o options, s streams) int {
	brokenPipes := make(chan os.Signal, 1) // so that a reader of standard output or error who leaves ends a write, not the process
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	defer signal.Stop(brokenPipes)
	buffer := newLineBuffer(s.err)
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	log := newLogger(buffer, level, cfg.LogFormat)
	flushing := startTask(context.WithoutCancel(ctx), buffer.Run)
	defer flushing.stopWithin(logPatience)
	p, err := build(cfg, log, level, l)
	if err != nil {
		log.ErrorContext(ctx, "cannot start", slog.Any("error", err))
		return exitFailure
	}
	if o.serverLevel != nil {
		p.fleet.log = newLogger(buffer, o.serverLevel, cfg.LogFormat)
	}
	p.metrics.LogLost(buffer.lost.Load)
	if err := p.run(ctx, l, o); err != nil {
		log.ErrorContext(ctx, "stopped by a fault", slog.Any("error", err))
		return exitFailure
	}
	log.InfoContext(ctx, "stopped")
	return exitOK
}

// run starts everything and stops it in order when ctx ends or a part fails.
func (p *parts) run(ctx context.Context, l listeners, o options) error {
	// What serves must outlive the signal that begins the stop; shutDown ends it.
	group, work := errgroup.WithContext(context.WithoutCancel(ctx))
	work, end := context.WithCancel(work)
	defer end()
	clients := p.httpServer(p.server.Handler())
	operator := p.httpServer(admin.Handler(admin.Config{Metrics: metrics.Handler(p.gatherer), View: p.status.view}))

	group.Go(func() error { return serveHTTP(operator, l.operator) })
	p.issuers.start(work)
	p.fleet.apply(work, p.started.Servers)
	group.Go(func() error { return p.server.Run(work) })
	group.Go(func() error { return p.gateway.Run(work) })
	group.Go(func() error { return serveHTTP(clients, l.clients) })
	if o.hangups != nil {
		group.Go(func() error { return p.reloads(ctx, work, o.hangups, o.env) })
	}
	tellWarnings(ctx, p.started, p.log, p.metrics)
	p.log.InfoContext(ctx, "serving", slog.String("listen", l.clients.Addr().String()), slog.String("operator", l.operator.Addr().String()),
		slog.String("version", thisBuild().version), slog.String("config", summary(p.started)),
		slog.String("audit", auditPlace(p.started)))
	if o.up != nil {
		o.up()
	}
	select {
	case <-ctx.Done():
		p.drain(work, clients, o.delay)
	case <-work.Done(): // a part failed
	}
	closeHTTP(clients)
	end()
	p.issuers.wait()
	p.fleet.close()
	closeHTTP(operator)
	err := group.Wait() // all that could still have a record
	return errors.Join(err, p.audit.Close())
}

// drain lets go of clients without breaking a call: not ready, one check of the load balancer, streams ended properly,
// calls finished.
func (p *parts) drain(ctx context.Context, clients *http.Server, delay time.Duration) {
	p.log.InfoContext(ctx, "draining", slog.Duration("delay", delay))
	p.status.drain.Store(true)
	clients.SetKeepAlivesEnabled(false)
	wait(ctx, delay)
	p.server.EndStreams()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	if n := p.server.Wait(ctx); n > 0 {
		p.log.WarnContext(ctx, "calls cancelled: they took too long to wait for", slog.Int("calls", n))
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (p *parts) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug), // mostly what scanners and broken clients cause

		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" past every check and record of the handler
	}
}

// closeHTTP ends a server: answers on their way have a moment.
func closeHTTP(s *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close() // what is left had its moment
	}
}

func serveHTTP(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// tellWarnings logs the warnings of a config that comes into force, and counts them. What patterns match is the
// gateway's to tell, which knows it.
func tellWarnings(ctx context.Context, cfg *config.Config, log *slog.Logger, m *metrics.Metrics) {
	counts := make(map[string]int)
	for _, w := range cfg.Warnings {
		counts[w.Code]++
		log.WarnContext(ctx, "config warning", slog.String("code", w.Code), slog.String("place", fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Column)),
			slog.String("warning", w.Text))
	}
	for _, code := range config.Codes() {
		if code != gateway.CodeNoMatch {
			m.ConfigWarnings(code, counts[code])
		}
	}
}
