package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// look is how often the files of the config are looked at. Watching their directory instead would wake the process at
// every audit line that is written beside them.
const look = 250 * time.Millisecond

// reloads reads the config again after a hangup and after a change of the file, or of a file it names, until ctx ends.
// What it starts lives until work ends.
func (p *parts) reloads(ctx, work context.Context, hangups <-chan os.Signal, env environment) error {
	watch := newWatch(p.started.sources)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-work.Done():
			return nil
		case <-hangups:
			p.reopenAudit(ctx)
			watch.follow(p.reload(ctx, work, env))
		case <-tick.C:
			if watch.settled() && watch.changed() {
				watch.follow(p.reload(ctx, work, env))
			}
		}
	}
}

// reopenAudit lets a rotated file go.
func (p *parts) reopenAudit(ctx context.Context) {
	if err := p.audit.Reopen(); err != nil {
		p.log.ErrorContext(ctx, "the audit file cannot be opened anew", slog.Any("error", err))
	}
}

// reload checks the whole new config first and only then changes anything. It returns what it read, also of a config that it refused.
func (p *parts) reload(ctx, work context.Context, env environment) sources {
	cfg, read, err := readConfig(p.started.file, env)
	if err == nil {
		cfg.keepAddress(p.started)
		err = p.replace(work, cfg)
	}
	p.metrics.Reloaded(err == nil)
	if err != nil {
		p.status.setRefused(firstLine(err))
		p.log.ErrorContext(ctx, "config refused; the one before it stays in force", slog.String("file", p.started.file), slog.String("problems", err.Error()))
		return read
	}
	p.status.setRefused("")
	restart := restartNeeded(p.started, cfg)
	p.status.setRestart(restart)
	tellWarnings(ctx, cfg, p.log, p.metrics)
	p.log.InfoContext(ctx, "config reloaded", slog.String("config", cfg.summary()), slog.String("changes", changes(p.inForce, cfg)))
	p.inForce = cfg
	if len(restart) > 0 {
		p.log.WarnContext(ctx, "some changes need a restart", slog.Any("settings", restart))
	}
	return read
}

// keepAddress makes tokens be for the address that is listened on, which only a restart changes.
func (c *config) keepAddress(started *config) {
	if c.publicURL != "" {
		return
	}
	wrong, right := c.publicAddress()+"/", started.publicAddress()+"/"
	for i := range c.issuers {
		for j, audience := range c.issuers[i].Audiences {
			if rest, ok := strings.CutPrefix(audience, wrong); ok {
				c.issuers[i].Audiences[j] = right + rest
			}
		}
	}
}

// replace puts a checked config in force. Whatever can fail comes before the first change.
func (p *parts) replace(work context.Context, cfg *config) error {
	verifier, err := newVerifier(cfg.issuers, p.log)
	if err != nil {
		return err
	}
	before := p.settings.Swap(settingsOf(cfg, p.address)) // first, because new tenants wake the streams, which ask whose tokens count
	if err := p.gateway.SetTenants(cfg.tenants); err != nil {
		p.settings.Store(before)
		return err
	}
	p.issuers.replace(work, cfg.issuers, verifier)
	p.level.Set(cfg.logLevel)
	p.fleet.apply(work, cfg.servers)
	return nil
}

// restartNeeded names the settings that differ from those the process runs with and that only a restart changes.
func restartNeeded(started, next *config) []string {
	return differing(map[string]bool{
		"listen":               started.listen == next.listen,
		"operator":             started.operator == next.operator,
		"revisions.legacy_sse": started.legacySSE == next.legacySSE,
		"audit":                reflect.DeepEqual(started.audit, next.audit),
		"limits":               started.limits == next.limits,
		"lists.page_size":      started.pageSize == next.pageSize,
		"sessions":             reflect.DeepEqual(started.sessions, next.sessions),
		"log.format":           started.logFormat == next.logFormat,
	})
}

// firstLine is the first problem, with a word about how many more there are.
func firstLine(err error) string {
	var all problems
	if !errors.As(err, &all) || len(all) < 2 {
		return err.Error()
	}
	return all[0].String() + ", and " + count(len(all)-1, "more problem")
}

// fileWatch notices changes of the config file and of the files it includes and names, be they written in place or put
// there anew, themselves or through a symbolic link, and files that are to be included and come or go.
type fileWatch struct {
	sources               // as they were read last
	seen    []os.FileInfo // when last looked at; nil for one that is not there
	matched []string      // what the patterns of files to include matched then
	moved   bool          // something differed then: it may be half written
}

func newWatch(read sources) *fileWatch {
	w := &fileWatch{}
	w.follow(read)
	return w
}

// follow watches the files that were read. The next look finds all of them touched, because they may have changed since.
func (w *fileWatch) follow(read sources) {
	w.sources, w.seen, w.matched = read, nil, nil
}

func (w *fileWatch) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(w.files))
	for i, file := range w.files {
		seen[i], _ = os.Stat(file) // one that is not there differs from one that is
	}
	return seen
}

// settled tells whether files were touched and are quiet since the last look: an editor or a volume update makes several
// changes.
func (w *fileWatch) settled() bool {
	seen, matched := w.look(), w.match()
	before := w.moved
	w.moved = !slices.EqualFunc(seen, w.seen, sameFile) || !slices.Equal(matched, w.matched)
	w.seen, w.matched = seen, matched
	return before && !w.moved
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// match returns the files that are to be included.
func (w *fileWatch) match() []string {
	var names []string
	for _, pattern := range w.patterns {
		files, _ := matching(pattern) // a bad pattern is reported by the reader, and matches nothing
		names = append(names, files...)
	}
	return names
}

// changed tells whether the content of a file differs from what was read last, or other files are to be included.
func (w *fileWatch) changed() bool {
	sum, names := w.digest(), w.match()
	differs := !bytes.Equal(sum, w.sum) || !slices.Equal(names, w.names)
	w.sum, w.names = sum, names
	return differs
}

func (w *fileWatch) digest() []byte {
	var sum []byte
	for _, file := range w.files {
		data, err := readFile(file)
		sum = chain(sum, data, err)
	}
	return sum
}

// chain adds a file's content, or why there is none, to a digest of the files before it.
func chain(sum, data []byte, err error) []byte {
	if err != nil {
		data = []byte(err.Error())
	}
	content := sha256.Sum256(data)
	next := sha256.Sum256(append(slices.Clip(sum), content[:]...))
	return next[:]
}
