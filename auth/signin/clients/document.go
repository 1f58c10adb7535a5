package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	maxDocument  = 16 << 10 // bytes
	maxDocuments = 1000     // that are remembered
	maxFetches   = 16       // at once; strangers cause them
	fetchTime    = 5 * time.Second
	leastFresh   = 30 * time.Second // for how long a document is not fetched again
	mostFresh    = 24 * time.Hour
	usualFresh   = time.Hour        // of one whose server does not say
	failedFresh  = 10 * time.Second // for how long a failure stands
)

// unfit returns the error of a client whose document is there, and is not fit.
func unfit(id string) error {
	return fmt.Errorf("%w: what is at its address does not describe it, or says that it proves itself by "+
		"a secret or key: %s", ErrUnknown, id)
}

// documents fetches what programs say of themselves on the web. Whoever sends an id of
// that kind chooses where this gateway connects to: the client that it is given connects
// to public addresses only, and what is fetched is bounded in size, time and number.
// https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
type documents struct {
	client  *http.Client
	now     func() time.Time
	flights pace.Once[document]
	fetches *semaphore.Weighted // of maxFetches

	mu    sync.Mutex // guards the field below
	known map[string]document
}

// document is what a fetch brought.
type document struct {
	client  Client
	err     error
	fetched time.Time
	until   time.Time // when it is fetched again
}

func newDocuments(client *http.Client, now func() time.Time) *documents {
	return &documents{
		client: client, now: now, known: make(map[string]document),
		fetches: semaphore.NewWeighted(maxFetches),
	}
}

// isDocument tells whether an id is an address that a document may stand at.
func isDocument(id string) bool {
	if !strings.HasPrefix(id, "https://") || len(id) > maxRedirect || strings.ContainsFunc(id, isUnfit) {
		return false
	}
	u, err := url.Parse(id)
	if err != nil || u.User != nil || hostOf(u) != nil || len(u.Path) < 2 {
		return false
	}
	for step := range strings.SplitSeq(u.Path, "/") { // decoded, so that %2e is a dot, too
		if step == "." || step == ".." {
			return false
		}
	}
	return true
}

// find returns the client with that address as its id. The error is ErrUnknown if the
// document is none or somebody else's, and any other if it could not be fetched.
func (d *documents) find(ctx context.Context, id string) (Client, error) {
	if !isDocument(id) {
		return Client{}, ErrUnknown
	}
	if known, ok := d.remembered(id); ok {
		return known.client, known.err
	}
	made, err := d.flights.Do(ctx, id, func(ctx context.Context) (document, error) {
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		return d.fetch(ctx, id), nil
	})
	return made.client, cmp.Or(made.err, err)
}

// remembered returns the document that was fetched lately.
func (d *documents) remembered(id string) (document, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[id]
	return known, ok && d.now().Before(known.until)
}

// errBusy says that no more documents can be fetched now.
var errBusy = errors.New("too many documents of clients are being fetched")

// fetch fetches a document and remembers what came. While it cannot be fetched, what was
// fetched in the last day serves: strangers can keep all fetches busy with slow documents
// of their own.
func (d *documents) fetch(ctx context.Context, id string) document {
	client, fresh, err := d.loadAmong(ctx, id)
	now := d.now()
	made := document{client: client, err: err, fetched: now, until: now.Add(fresh)}
	d.mu.Lock()
	defer d.mu.Unlock()
	old, known := d.known[id]
	away := err != nil && !errors.Is(err, ErrUnknown)
	switch {
	case away && known && old.err == nil && now.Sub(old.fetched) < mostFresh:
		made = old
		made.until = now.Add(failedFresh)
	case errors.Is(err, errBusy):
		return made
	}
	if !known && len(d.known) >= maxDocuments {
		// Of all, what is out of date goes and, if nothing is, what will be soonest.
		evict.One(d.known, maxDocuments, func(_ string, one document) (worth float64, may bool) {
			return one.until.Sub(now).Seconds(), true
		})
	}
	d.known[id] = made
	return made
}

// loadAmong is load, unless too many others are being fetched.
func (d *documents) loadAmong(ctx context.Context, id string) (Client, time.Duration, error) {
	if !d.fetches.TryAcquire(1) {
		return Client{}, 0, errBusy
	}
	defer d.fetches.Release(1)
	return d.load(ctx, id)
}

// load gets a document and says for how long it is fresh.
func (d *documents) load(ctx context.Context, id string) (Client, time.Duration, error) {
	answer, err := fetch.Do(ctx, d.client, fetch.Request{
		Address: id, Header: http.Header{"Accept": {"application/json"}}, Most: maxDocument,
	})
	if err != nil {
		return Client{}, failedFresh, fmt.Errorf("fetch the client's document: %w", err)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.Status >= http.StatusInternalServerError || answer.Status == http.StatusTooManyRequests {
		return Client{}, failedFresh, fmt.Errorf("fetch the client's document: status %d", answer.Status)
	}
	if answer.Status != http.StatusOK ||
		kind != "application/json" &&
			(!strings.HasPrefix(kind, "application/") || !strings.HasSuffix(kind, "+json")) {
		return Client{}, failedFresh, unfit(id)
	}
	client, err := readDocument(id, answer.Body)
	if err != nil {
		return Client{}, failedFresh, err
	}
	return client, freshness(answer.Header.Get("Cache-Control")), nil
}

// readDocument returns the client that a document describes.
func readDocument(id string, data []byte) (Client, error) {
	s, err := read(data)
	u, bad := url.Parse(id)
	if err != nil || bad != nil || s.id != id || s.secret || !s.public {
		return Client{}, unfit(id)
	}
	made := Client{
		Kind: Document, ID: id, Digest: DigestOf(id), Name: s.name, Host: u.Host, Redirects: s.redirects,
	}
	made.Localhost = made.isLocal()
	return made, nil
}

// freshness returns for how long a document need not be fetched again.
func freshness(control string) time.Duration {
	fresh := usualFresh
	for directive := range strings.SplitSeq(strings.ToLower(control), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return leastFresh
		case "max-age":
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				fresh = time.Duration(seconds) * time.Second
			}
		}
	}
	return min(max(fresh, leastFresh), mostFresh)
}
