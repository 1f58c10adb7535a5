package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// subject is a process that is asked the same again and again.
type subject struct {
	what string // for the line of progress
	pid  int    // whose processor time counts
	ask  request
	done func(ctx context.Context, answered []http.Header) error // after a round, not measured; may be nil
}

// request makes the nth request of a round.
type request func(ctx context.Context, n int) (*http.Request, error)

// compare measures subjects in turn, round after round, so that what disturbs the machine
// disturbs all of them. It returns what a request cost each subject in each round, in
// microseconds of processor time. A first round warms up.
func (l *scaleLab) compare(ctx context.Context, rounds, requests int, subjects []subject,
	progress io.Writer,
) ([][]float64, error) {
	costs := make([][]float64, len(subjects))
	for round := range rounds + 1 {
		for i := range subjects {
			at := (i + round) % len(subjects) // none is always the first
			cost, err := l.cost(ctx, &subjects[at], requests)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", subjects[at].what, err)
			}
			if round > 0 {
				costs[at] = append(costs[at], micros(cost))
			}
		}
	}
	for i, s := range subjects {
		_, _ = fmt.Fprintf(progress, "%-44s %s µs\n", s.what, medianAndEnds(costs[i]))
	}
	return costs, nil
}

// medianAndEnds writes the median of values, and the lowest and highest behind it.
func medianAndEnds(values []float64) string {
	s := spreadOf(values)
	return fmt.Sprintf("%.0f (%.0f–%.0f)", s.median, s.least, s.most)
}

// cost returns how much processor time a request costs, four of which are under way at
// once.
func (l *scaleLab) cost(ctx context.Context, s *subject, requests int) (time.Duration, error) {
	before, err := world.Busy(s.pid)
	if err != nil {
		return 0, err
	}
	answered, err := l.sendAll(ctx, requests, s.ask)
	if err != nil {
		return 0, err
	}
	after, err := world.Busy(s.pid)
	if err == nil && s.done != nil {
		err = s.done(ctx, answered)
	}
	return (after - before) / time.Duration(requests), err
}

// sendAll sends requests, four at a time, and returns the headers of the answers in no
// order.
func (l *scaleLab) sendAll(ctx context.Context, requests int, ask request) ([]http.Header, error) {
	const clients = 4
	var all sync.WaitGroup
	failures, answered := make([]error, clients), make([][]http.Header, clients)
	for c := range clients {
		all.Go(func() {
			for n := c; n < requests && failures[c] == nil; n += clients {
				var header http.Header
				header, failures[c] = l.send(ctx, n, ask)
				answered[c] = append(answered[c], header)
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(answered...), nil
}

func (l *scaleLab) send(ctx context.Context, n int, ask request) (http.Header, error) {
	r, err := ask(ctx, n)
	if err != nil {
		return nil, err
	}
	response, err := l.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 || r.Method == http.MethodPost &&
		!strings.Contains(string(body), `"result"`) {
		return nil, fmt.Errorf("%s: status %d: %.200s (%w)", r.URL, response.StatusCode, body, err)
	}
	return response.Header, nil
}

// asks returns requests in the newest revision or, to open a session, in the newest of
// those that have sessions. The tokens take turns; without any, none is sent.
func asks(url, method, tool string, tokens ...string) request {
	revision, params := mcp.LatestModern, ""
	if method == mcp.MethodToolsCall {
		params = `"name":"` + tool + `","arguments":{"message":"hello"}`
	}
	body := client.Message("1", method, params, revision)
	if method == mcp.MethodInitialize {
		revision = mcp.LatestLegacy
		body = client.Initialize(revision, client.Unable)
	}
	return func(ctx context.Context, n int) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(mcp.HeaderProtocolVersion, revision)
		if method != mcp.MethodInitialize {
			r.Header.Set(mcp.HeaderMethod, method)
		}
		if tool != "" {
			r.Header.Set(mcp.HeaderName, tool)
		}
		if len(tokens) > 0 {
			r.Header.Set("Authorization", "Bearer "+tokens[n%len(tokens)])
		}
		return r, nil
	}
}

// endSessions ends the sessions that answers opened.
func (l *scaleLab) endSessions(ctx context.Context, url, token string, answered []http.Header) error {
	_, err := l.sendAll(ctx, len(answered), func(ctx context.Context, n int) (*http.Request, error) {
		id := answered[n].Get(mcp.HeaderSessionID)
		if id == "" {
			return nil, errNoSession
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set(mcp.HeaderSessionID, id)
		r.Header.Set("Authorization", "Bearer "+token)
		return r, nil
	})
	return err
}
