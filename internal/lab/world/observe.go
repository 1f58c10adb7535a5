package world

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

const (
	operatorTime = 5 * time.Second // for one answer of an operator's listener
	mostAnswer   = 16 << 20        // bytes of one
	mostLog      = 8 << 20         // bytes of a log that are kept in memory
)

// ask returns the status and the body of one of the operator's pages.
func (w *World) ask(ctx context.Context, url string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	return response.StatusCode, body, err
}

// Metric returns the sum of all series of a metric whose labels contain those given, such
// as Metric(ctx, "drawbridge_redis_state", `state="up"`). A metric without such series is
// 0.
func (r *Replica) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	body, err := r.metrics(ctx)
	if err != nil {
		return 0, err
	}
	return sum(body, name, labels...)
}

func (r *Replica) metrics(ctx context.Context) ([]byte, error) {
	status, body, err := r.world.ask(ctx, "http://"+r.Operator+"/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: /metrics is %d", r.Name, status)
	}
	return body, err
}

// sum adds up series in the text of /metrics.
func sum(text []byte, name string, labels ...string) (total float64, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' || !all(rest, labels) {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		total += value
	}
	return total, nil
}

func all(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// wrong says why the replica is not ready by its own word.
func (r *Replica) wrong(ctx context.Context) error {
	if !r.child.Runs() {
		return fmt.Errorf("%s: %w", r.Name, errNotRunning)
	}
	status, body, err := r.world.ask(ctx, "http://"+r.Operator+"/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/readyz is %d: %s", status, bytes.TrimSpace(body))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}

// wrongBeyond says what the replica cannot reach.
func (r *Replica) wrongBeyond(ctx context.Context) error {
	text, err := r.metrics(ctx)
	if err != nil {
		return err
	}
	if up, err := sum(text, "drawbridge_redis_state", `state="up"`); err != nil || up != 1 {
		return errors.Join(err, fmt.Errorf("%s does not use Redis", r.Name))
	}
	for name := range r.Upstream {
		if up, err := sum(text, "drawbridge_upstream_up", strconv.Quote(name)); err != nil || up != 1 {
			return errors.Join(err, fmt.Errorf("%s has no connection to %s", r.Name, name))
		}
	}
	return nil
}

// Log returns the end of what the gateway has written to standard error, of all its
// processes: 8 MiB at most.
func (r *Replica) Log() string { return tail(filepath.Join(r.Dir, logFile), mostLog) }

// Usage is what a process holds.
type Usage struct {
	Descriptors int
	Goroutines  int
	Resident    int64 // bytes, without the pages of the program's own file
	Heap        int64 // bytes, with what has not been collected yet
}

// Usage returns what the process holds now.
func (r *Replica) Usage(ctx context.Context) Usage {
	text := must.Have(r.metrics(ctx))
	goroutines, err := sum(text, "go_goroutines")
	heap, wrong := sum(text, "go_memstats_heap_alloc_bytes")
	files, unread := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.PID()))
	resident, unknown := Field(r.PID(), "status", "RssAnon")
	must.OK(errors.Join(err, wrong, unread, unknown))
	return Usage{
		Descriptors: len(files), Goroutines: int(goroutines), Resident: resident, Heap: int64(heap),
	}
}

// PID returns the id of the process that was started last.
func (r *Replica) PID() int { return r.child.command.Process.Pid }

// ErrRefused means that a gateway refused a config and kept the one before.
var ErrRefused = errors.New("the config was refused")

// reloads is the metric of attempts to load the config.
const reloads = "drawbridge_config_reloads_total"

// Rewrite changes the text of the config and waits until a running gateway has taken or
// refused it. A refusal is the error ErrRefused. A text that stays the same is no change.
func (r *Replica) Rewrite(ctx context.Context, change func(config string) string) {
	before := must.Have(os.ReadFile(r.file()))
	after := change(string(before))
	if after == string(before) {
		return
	}
	if !r.child.Runs() {
		must.OK(r.write(after))
		return
	}
	count := must.Have(r.Metric(ctx, reloads))
	must.OK(r.write(after))
	must.OK(Until(ctx, func() error { return r.reloaded(ctx, count) }))
	must.OK(r.refused(ctx))
}

// reloaded tells unless the config was loaded more often than that.
func (r *Replica) reloaded(ctx context.Context, count float64) error {
	now, err := r.Metric(ctx, reloads)
	if err == nil && now <= count {
		err = fmt.Errorf("%s has not looked at its config yet", r.Name)
	}
	return err
}

// refused returns why the config was refused, if it was.
func (r *Replica) refused(ctx context.Context) error {
	taken, err := r.Metric(ctx, "drawbridge_config_last_reload_successful")
	if err != nil || taken == 1 {
		return err
	}
	_, body, err := r.world.ask(ctx, "http://"+r.Operator+"/readyz")
	return errors.Join(err, fmt.Errorf("%s: %w: %s", r.Name, ErrRefused, body))
}
