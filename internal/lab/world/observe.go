package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

const (
	operatorTime = 5 * time.Second // for one answer of an operator's listener
	mostAnswer   = 16 << 20        // bytes of one
)

// ask returns the status and the body of one of the operator's pages.
func (w *World) ask(ctx context.Context, url string) (status int, body []byte) {
	response, err := w.client.Do(must.Have(http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)))
	must.OK(err)
	defer response.Body.Close() //nolint:errcheck // it was only read
	return response.StatusCode, must.Have(io.ReadAll(io.LimitReader(response.Body, mostAnswer)))
}

// Metric returns the sum of all series of a metric. One without series is 0.
func (r *Replica) Metric(ctx context.Context, name string) float64 { return Sum(r.metrics(ctx), name) }

func (r *Replica) metrics(ctx context.Context) []byte {
	status, body := r.world.ask(ctx, "http://"+r.Operator+"/metrics")
	must.Be(status == http.StatusOK, "%s: /metrics is %d", r.Name, status)
	return body
}

// Sum adds up the series in the text of /metrics whose labels contain those given.
func Sum(text []byte, name string, labels ...string) (total float64) {
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), name)
		if found && rest != "" && (rest[0] == '{' || rest[0] == ' ') &&
			!slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			total += must.Have(strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64))
		}
	}
	return total
}

// isReady panics unless the replica is ready by its own word.
func (r *Replica) isReady(ctx context.Context) {
	must.Be(r.Runs(), "%s: %w", r.Name, errNotRunning)
	err := must.Try(func() {
		status, body := r.world.ask(ctx, "http://"+r.Operator+"/readyz")
		must.Be(status == http.StatusOK, "/readyz is %d: %s", status, bytes.TrimSpace(body))
	})
	must.Be(err == nil, "%s: %w", r.Name, err)
}

// reaches panics unless the replica reaches all that it needs.
func (r *Replica) reaches(ctx context.Context) {
	text := r.metrics(ctx)
	must.Be(Sum(text, "drawbridge_redis_state", `state="up"`) == 1, "%s does not use Redis", r.Name)
	for name := range r.Upstream {
		must.Be(Sum(text, "drawbridge_upstream_up", strconv.Quote(name)) == 1,
			"%s has no connection to %s", r.Name, name)
	}
}

// Usage is what a process holds.
type Usage struct {
	Descriptors int
	Goroutines  int
	Resident    int64 // bytes, without the pages of the program's own file
	Heap        int64 // bytes, with what has not been collected yet
}

// Usage returns what the process holds now.
func (r *Replica) Usage(ctx context.Context) Usage {
	text := r.metrics(ctx)
	return Usage{
		Descriptors: len(must.Have(os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.PID())))),
		Goroutines:  int(Sum(text, "go_goroutines")),
		Resident:    must.Have(Field(r.PID(), "status", "RssAnon")),
		Heap:        int64(Sum(text, "go_memstats_heap_alloc_bytes")),
	}
}

// ErrRefused means that a gateway refused a config and kept the one before.
var ErrRefused = errors.New("the config was refused")

// reloads is the metric of attempts to load the config.
const reloads = "drawbridge_config_reloads_total"

// Rewrite changes the text of the config as Replace does. A text that stays the same is
// no change.
func (r *Replica) Rewrite(ctx context.Context, change func(config string) string) {
	before := string(must.Have(os.ReadFile(r.file())))
	if after := change(before); after != before {
		r.Replace(ctx, configFile, after)
	}
}

// Replace puts a text in the place of the config or of another file of the folder that is
// watched, and waits until a running gateway has taken or refused it. A refusal is the
// error ErrRefused.
func (r *Replica) Replace(ctx context.Context, file, text string) {
	if !r.Runs() {
		r.write(file, text)
		return
	}
	count := r.Metric(ctx, reloads)
	r.write(file, text)
	Until(ctx, func() {
		must.Be(r.Metric(ctx, reloads) > count, "%s has not looked at its config yet", r.Name)
	})
	if r.Metric(ctx, "drawbridge_config_last_reload_successful") != 1 {
		_, why := r.world.ask(ctx, "http://"+r.Operator+"/readyz")
		panic(fmt.Errorf("%s: %w: %s", r.Name, ErrRefused, why))
	}
}
