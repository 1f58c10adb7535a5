package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// press is a modern server that tells of changes of resources when a test says so.
type press struct {
	*web
	hold chan bool // what each subscription waits for before it is acknowledged; nil: nothing

	mu   sync.Mutex // guards the field below
	open map[string][]*openSubscription
}

// openSubscription is one open subscription.
type openSubscription struct {
	id   string
	send chan string // events, which the handler writes
	cut  chan bool
}

func newPress(t *testing.T) *press {
	t.Helper()
	p := &press{web: full(true), open: map[string][]*openSubscription{}}
	p.web.listen = p.listen
	serve(t, p.web)
	return p
}

func (p *press) listen(w http.ResponseWriter, r *http.Request, m wire) {
	raw := m.Params.Notifications["resourceSubscriptions"]
	if raw == nil {
		events(w)(
			"%s", data(
				`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID))
		<-r.Context().Done()
		return
	}
	uri := strings.Trim(string(raw), `[]"`)
	send := events(w)
	one := &openSubscription{id: string(m.ID), send: make(chan string, 10), cut: make(chan bool, 1)}
	if p.hold != nil {
		// What comes before the acknowledgement is no event of a live subscription.
		send("%s", updated(uri, one.id))
		select {
		case <-p.hold:
		case <-r.Context().Done():
			return
		}
	}
	acknowledged := string(raw)
	if strings.Contains(uri, "deaf") {
		acknowledged = `["file:///other"]`
	}
	send(
		"%s", data(
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":%s},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, acknowledged, one.id))
	p.mu.Lock()
	p.open[uri] = append(p.open[uri], one)
	p.mu.Unlock()
	for open := true; open; {
		select {
		case event := <-one.send:
			send("%s", event)
		case <-r.Context().Done():
			open = false
		case <-one.cut:
			open = false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.open[uri] {
		if p.open[uri][i] == one {
			p.open[uri] = append(p.open[uri][:i:i], p.open[uri][i+1:]...)
			break
		}
	}
}

func updated(uri, id string) string {
	return data(
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, uri, id)
}

// asked returns the requests for subscriptions to resources.
func (p *press) asked() []seenRequest {
	return slices.DeleteFunc(p.sights("subscriptions/listen"), func(one seenRequest) bool {
		return one.wire.Params.Notifications["resourceSubscriptions"] == nil
	})
}

// issues returns the open subscriptions to a resource.
func (p *press) issues(uri string) []*openSubscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*openSubscription(nil), p.open[uri]...)
}

// watcher is somebody who follows a resource.
type watcher struct {
	ctx    context.Context //nolint:containedctx // of the test's own
	cancel context.CancelFunc
	got    chan string
}

func newWatcher(t *testing.T) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &watcher{ctx, cancel, make(chan string, 100)}
}

func (w *watcher) follow(r *rig, tenantID, uri string) error {
	r.t.Helper()
	return w.followAs(r, share.User{TenantID: tenantID}, uri)
}

func (w *watcher) followAs(r *rig, user share.User, uri string) error {
	r.t.Helper()
	ok, err := r.resource(uri).Subscribe(w.ctx, user, func(uri string) { w.got <- uri })
	if !ok {
		return errors.New("the server does not tell")
	}
	return err
}

const watchedURI = "file:///a.txt"

// TestTrap10_SubscriptionIsLiveBeforeItIsAcknowledged shows that Subscribe returns only
// when the server has confirmed that it tells, and how soon a change is told.
func TestTrap10_SubscriptionIsLiveBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	p.hold = make(chan bool)
	r := start(t, p.config())
	r.untilUp()
	r.until("the resource is there", func() bool { return len(r.names()) == 4 })
	w, done := newWatcher(t), make(chan error, 1)
	go func() { done <- w.follow(r, "t", watchedURI) }()
	eventually(t, "the subscription is asked for", func() bool {
		return len(p.asked()) == 1
	})
	select {
	case err := <-done:
		t.Fatalf("Subscribe returned %v before the server confirmed", err)
	default:
	}
	p.hold <- true
	if err := await(t, done); err != nil {
		t.Fatalf("Subscribe: %v (%s)", err, cause(err))
	}
	eventually(t, "the server has it", func() bool { return len(p.issues(watchedURI)) == 1 })
	one := p.issues(watchedURI)[0]
	began := time.Now()
	one.send <- updated(watchedURI, "424242") // of another subscription
	one.send <- updated("mcp.other+"+watchedURI, one.id)
	one.send <- updated(watchedURI+"2", one.id)
	one.send <- updated(watchedURI+"#p1", one.id) // of a part
	if got := await(t, w.got); got != watchedURI+"#p1" {
		t.Errorf("updated: got %q, want the part and nothing before it", got)
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("the change was told after %v, want it at once", took)
	}
	if got := listened(p.asked()[0].wire); got != `{"resourceSubscriptions":["file:///a.txt"]}` {
		t.Errorf("asked for %s, want this resource alone", got)
	}
	w.cancel()
	eventually(t, "the subscription ends", func() bool { return len(p.issues(watchedURI)) == 0 })
}

// TestSubscriptionThatIsNotHonouredFails subscribes to what a server acknowledges without
// listing it, and at a server without subscriptions.
func TestSubscriptionThatIsNotHonouredFails(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	r := start(t, p.config())
	r.untilUp()
	r.until("the resource is there", func() bool { return len(r.names()) == 4 })
	if err := newWatcher(t).follow(r, "t", "file:///deaf"); kindOf(mcp.Object{}, err) != "error" {
		t.Errorf("not listed: got %v (%s), want an error", err, cause(err))
	}
	eventually(t, "the subscription is given up", func() bool { return len(p.issues("file:///deaf")) == 0 })
	if err := newWatcher(t).follow(start(t, serve(t, full(true)).config()).ready(), "t",
		watchedURI); kindOf(mcp.Object{}, err) != "error" {
		t.Errorf("no subscriptions: got %v (%s), want the server's error", err, cause(err))
	}
	s := full(true)
	s.declares = `{"resources":{}}`
	if err := newWatcher(t).follow(start(t, serve(t, s).config()).ready(), "t", watchedURI); err == nil ||
		err.Error() != "the server does not tell" {
		t.Errorf("not declared: got %v, want that the server does not tell", err)
	}
}

// TestUsersWhoAreRefusedTogetherLeaveNothing has the users of a tenant follow at once
// what the server does not honour: each leaves as soon as it is told, the one that holds
// the slot as well as the others.
func TestUsersWhoAreRefusedTogetherLeaveNothing(t *testing.T) {
	t.Parallel()
	r := start(t, newPress(t).config()).ready()
	for range 50 {
		var all sync.WaitGroup
		for i := range 8 {
			user := share.User{TenantID: "t", Subject: fmt.Sprint(i)}
			all.Go(func() {
				if newWatcher(t).followAs(r, user, "file:///deaf") == nil {
					t.Error("got a subscription, want none")
				}
			})
		}
		all.Wait()
	}
}

func (r *rig) ready() *rig {
	r.t.Helper()
	r.untilUp()
	r.until("the resource is there", func() bool { return len(r.view().Resources) == 1 })
	return r
}

// TestOneSubscriptionServesATenant counts what the server sees of several subscribers of
// two tenants.
func TestOneSubscriptionServesATenant(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	r := start(t, p.config()).ready()
	a, b, other := newWatcher(t), newWatcher(t), newWatcher(t)
	for w, tenant := range map[*watcher]string{a: "one", b: "one", other: "two"} {
		if err := w.follow(r, tenant, watchedURI); err != nil {
			t.Fatalf("Subscribe: %v (%s)", err, cause(err))
		}
	}
	eventually(t, "there are two", func() bool { return len(p.issues(watchedURI)) == 2 })
	for _, one := range p.issues(watchedURI) {
		one.send <- updated(watchedURI, one.id)
	}
	for _, w := range []*watcher{a, b, other} {
		if got := await(t, w.got); got != watchedURI {
			t.Errorf("updated: got %q, want %q", got, watchedURI)
		}
	}
	a.cancel()
	other.cancel()
	eventually(t, "one is left", func() bool { return len(p.issues(watchedURI)) == 1 })
	one := p.issues(watchedURI)[0]
	one.send <- updated(watchedURI, one.id)
	await(t, b.got)
	if len(a.got)+len(other.got)+len(b.got) != 0 {
		t.Error("who left was told, or somebody was told twice")
	}
	b.cancel()
	eventually(t, "none is left", func() bool { return len(p.issues(watchedURI)) == 0 })
}

// TestSubscriptionSurvivesItsStream cuts the stream, then the whole server: the
// subscription is opened again and tells of a change, because one may have been missed.
func TestSubscriptionSurvivesItsStream(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	r := start(t, p.config()).ready()
	w := newWatcher(t)
	if err := w.follow(r, "t", watchedURI); err != nil {
		t.Fatalf("Subscribe: %v (%s)", err, cause(err))
	}
	eventually(t, "it is open", func() bool { return len(p.issues(watchedURI)) == 1 })
	p.issues(watchedURI)[0].cut <- true
	if got := await(t, w.got); got != watchedURI {
		t.Errorf("after the cut: got %q, want %q", got, watchedURI)
	}
	eventually(t, "it is open again", func() bool { return len(p.issues(watchedURI)) == 1 })
	one := p.issues(watchedURI)[0]
	one.send <- updated(watchedURI+"/2", one.id)
	if got := await(t, w.got); got != watchedURI+"/2" {
		t.Errorf("after it is open again: got %q, want the change", got)
	}
	if r.last().Restarts != 0 {
		t.Error("a cut stream restarted the upstream")
	}
}

// TestSubscriptionSurvivesAReloadOfItsServer ends the upstream and runs another in its
// place, as a reload does that changes a setting of the server. The client was told that
// it is subscribed, and hears of nothing else. Its URI is the same under another prefix.
func TestSubscriptionSurvivesAReloadOfItsServer(t *testing.T) {
	t.Parallel()
	for _, prefixes := range [][2]string{{"", ""}, {"one", "two"}} {
		t.Run(prefixes[0], func(t *testing.T) {
			t.Parallel()
			reloaded(t, prefixes[0], prefixes[1])
		})
	}
}

// reloaded is a reload of a server with one prefix that gives it another.
func reloaded(t *testing.T, before, after string) {
	t.Helper()
	p, exposed := newPress(t), watchedURI
	if before != "" {
		exposed = "mcp.up+" + watchedURI
	}
	cfg := p.config()
	cfg.Prefix = before
	r := start(t, cfg).ready()
	w, left := newWatcher(t), newWatcher(t)
	// who leaves holds the slot that both share
	for _, one := range []*watcher{left, w} {
		user := share.User{TenantID: "t", Subject: fmt.Sprintf("%p", one)}
		if err := one.followAs(r, user, exposed); err != nil {
			t.Fatalf("Subscribe: %v (%s)", err, cause(err))
		}
	}
	r.stop()
	left.cancel()
	cfg.Prefix = after
	if after != before {
		r.reg.Forget(r.name)
	}
	next := newRig(t, cfg, r.reg)
	next.run()
	if got := await(t, w.got); got != exposed {
		t.Errorf("after the reload: got %q, want %q, which may have changed", got, exposed)
	}
	eventually(t, "it is open again", func() bool { return len(p.issues(watchedURI)) == 1 })
	one := p.issues(watchedURI)[0]
	one.send <- updated(watchedURI+"/2", one.id)
	if got := await(t, w.got); got != exposed+"/2" {
		t.Errorf("of the other upstream: got %q, want the change", got)
	}
	if len(left.got) > 0 {
		t.Error("who left was told")
	}
	w.cancel()
	eventually(t, "none is left", func() bool { return len(p.issues(watchedURI)) == 0 })
}

// TestSubscriptionSurvivesItsServer lets the server go away for minutes, on exact time.
func TestSubscriptionSurvivesItsServer(t *testing.T) {
	t.Parallel()
	s := &wired{web: *full(true)}
	// a recorder cannot stay open: it ends after the acknowledgement
	s.listen = func(w http.ResponseWriter, _ *http.Request, m wire) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(
			w, data(
				`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["file:///a.txt"]},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID))
	}
	bubble(t, s, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		told := 0
		subscribe := func() error {
			_, err := r.resource(watchedURI).Subscribe(ctx, share.User{TenantID: "t"},
				func(string) { told++ })
			return err
		}
		resource := r.resource(watchedURI)
		if err := subscribe(); err != nil {
			t.Fatalf("Subscribe: %v (%s)", err, cause(err))
		}
		s.state.Store(dead)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if r.last().Up {
			t.Fatal("up, want down")
		}
		if _, err := resource.Subscribe(ctx, share.User{TenantID: "other"},
			func(string) {}); kindOf(mcp.Object{}, err) != "not sent" {
			t.Errorf("Subscribe at a lost server: got %v (%s), want unavailable", err, cause(err))
		}
		told = 0
		s.state.Store(answering)
		time.Sleep(40 * time.Second) // the longest pause between attempts to connect
		synctest.Wait()
		if told == 0 {
			t.Error("nobody was told that changes may have been missed")
		}
		// Each stream ends at once, so the subscription is opened again and again, ever
		// more slowly.
		if told > 12 {
			t.Errorf("told %d times in 40 s, want a growing pause", told)
		}
	})
}

// manyWatches runs a story at a server that confirms no subscription. follow follows one
// resource more for a user, and tells how it ended, if it did at once.
func manyWatches(t *testing.T, story func(t *testing.T, follow func(user share.User) error, end func())) {
	s := &wired{web: *full(true)}
	s.listen = func(_ http.ResponseWriter, r *http.Request, _ wire) { <-r.Context().Done() }
	bubble(t, s, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		n := 0
		story(t, func(user share.User) error {
			n++
			one, done := r.resource(fmt.Sprintf("file:///%d", n)), make(chan error, 1)
			work.Go(func() {
				_, err := one.Subscribe(ctx, user, func(string) {})
				done <- err
			})
			synctest.Wait()
			select {
			case err := <-done:
				return err
			default:
				return nil
			}
		}, func() {
			cancel()
			synctest.Wait()
			ctx, cancel = context.WithCancel(context.Background()) //nolint:fatcontext // it is a new one, of the next caller
		})
		cancel()
		work.Wait()
	})
}

// TestFollowedResourcesAreSharedOut has two users follow all that they may, and others
// some.
func TestFollowedResourcesAreSharedOut(t *testing.T) {
	t.Parallel()
	manyWatches(t, func(t *testing.T, follow func(user share.User) error, end func()) {
		most := func(user share.User) (n int, err error) {
			for ; err == nil; n++ {
				err = follow(user)
			}
			return n - 1, err
		}
		for _, user := range []share.User{{TenantID: "a", Subject: "one"}, {TenantID: "b", Subject: "two"}} {
			n, err := most(user)
			full, ok := errors.AsType[*registry.SubscribedError](err)
			if !ok || !errors.Is(err, share.ErrUser) || full.Server != "up" || n < 100 || n > 300 {
				t.Errorf("%s follows %d, then %v; want its share, and to be told so", user.Subject, n, err)
			}
		}
		for i := range 20 {
			for _, tenant := range []string{"a", "c"} {
				if err := follow(share.User{TenantID: tenant, Subject: fmt.Sprint(i)}); err != nil {
					t.Errorf("user %d of %s: got %v, want room", i, tenant, err)
				}
			}
		}
		end()
		if n, _ := most(share.User{TenantID: "d"}); n != int(share.New(1000).Most()) {
			t.Errorf("after all have ended, one user follows %d, want what one alone may", n)
		}
	})
}

// TestSubscriptionThatIsNotConfirmedIsGivenUp follows a resource at a server that never
// confirms it.
func TestSubscriptionThatIsNotConfirmedIsGivenUp(t *testing.T) {
	t.Parallel()
	s := &wired{web: *full(true)}
	s.listen = func(_ http.ResponseWriter, r *http.Request, _ wire) { <-r.Context().Done() }
	bubble(t, s, func(t *testing.T, r *rig) {
		began := time.Now()
		_, err := r.resource("file:///1").Subscribe(t.Context(), share.User{TenantID: "t"}, func(string) {})
		if kindOf(mcp.Object{}, err) != "sent" || time.Since(began) != 10*time.Second {
			t.Errorf("got %v (%s) after %v, want unavailable after 10 s", err, cause(err), time.Since(began))
		}
	})
}

// TestPlaceOfAFollowedResourceIsHeldByWhoFollowsIt has users of one tenant join and
// leave, and counts what the first could follow then.
func TestPlaceOfAFollowedResourceIsHeldByWhoFollowsIt(t *testing.T) {
	t.Parallel()
	s := &wired{web: *full(true)}
	s.listen = func(_ http.ResponseWriter, r *http.Request, _ wire) { <-r.Context().Done() }
	bubble(t, s, func(t *testing.T, r *rig) {
		var work sync.WaitGroup
		follow := func(subject string, from, n int) (leave func(), refused *atomic.Int32) {
			ctx, cancel := context.WithCancel(t.Context())
			refused = &atomic.Int32{}
			for i := range n {
				one := r.resource(fmt.Sprintf("file:///%d", from+i))
				work.Go(func() {
					_, err := one.Subscribe(ctx, share.User{TenantID: "t", Subject: subject}, func(string) {})
					if _, full := errors.AsType[*registry.SubscribedError](err); full {
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
			return cancel, refused
		}
		leave, _ := follow("first", 0, 150)
		stay, _ := follow("second", 0, 150)
		leave()
		synctest.Wait()
		again, refused := follow("first", 1000, 150)
		if got := refused.Load(); got != 0 {
			t.Errorf("who left 150 resources that another follows was refused %d, want none", got)
		}
		again()
		stay()
		work.Wait()
	})
}

// TestSubscribersMayLeaveAnyTime leaves before the confirmation, and ends the upstream
// before it.
func TestSubscribersMayLeaveAnyTime(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	p.hold = make(chan bool)
	r := start(t, p.config()).ready()
	one := r.resource(watchedURI)
	subscribe := func(ctx context.Context, uri string) <-chan error {
		one := r.resource(uri)
		done := make(chan error, 1)
		before := len(p.asked())
		go func() {
			_, err := one.Subscribe(ctx, share.User{TenantID: "t"}, func(string) {})
			done <- err
		}()
		eventually(t, "it is asked for", func() bool { return len(p.asked()) > before })
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := subscribe(ctx, watchedURI)
	cancel()
	if err := await(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("a subscriber that left: got %v, want the context's error", err)
	}
	done = subscribe(t.Context(), watchedURI+"2")
	r.stop()
	if err := await(t, done); err == nil {
		t.Error("a subscription at an upstream that ended: got no error")
	}
	if _, err := one.Subscribe(t.Context(), share.User{TenantID: "t"}, func(string) {}); kindOf(mcp.Object{},
		err) != "not sent" {
		t.Errorf("Subscribe at an upstream that ended: got %v, want unavailable", err)
	}
}
