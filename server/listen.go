package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// openingSubscriptions is how many subscriptions of one request are being opened at the same time.
const openingSubscriptions = 4

// listFilters are the members of a filter that ask for notices of changed lists, in the order of changes.
var listFilters = [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// listen answers subscriptions/listen with an event stream of notices, until the client leaves or the time of the
// stream is over. Every message on it carries the id of the request as the id of the subscription.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (s *Server) listen(x *exchange, m *mcp.Message) {
	filter, uris, refused := filterOf(m.Params)
	if refused == nil && filter.Has("taskIds") && tasksOf(x) == 0 {
		refused = errTasks
	}
	if refused == nil && !x.acceptsStream {
		refused = errAccept
	}
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	place, refused := s.takeStreamPlace(x, "listen")
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	defer place.leave()
	sub := &subscription{server: s, x: x, place: place, id: m.ID, stirred: make(chan struct{}, 1), updates: updates{memory: s.config.Memory, user: share.User(x.principal.User())}}
	for i, name := range listFilters {
		sub.lists[i] = string(filter.Value(name)) == "true"
	}
	sub.told = s.catalogue.Lists(x.caller) // taken before the acknowledgement, so that no change after it goes untold
	defer sub.stop()
	sub.open(x.context(), uris)
	s.leave(x)
	var err error
	if sub.out, err = openStream(x); err != nil {
		return // the client is gone
	}
	sub.serve(x.context())
	x.noteRevoked()
}

// filterOf returns what the client wants to be told of.
func filterOf(params mcp.Object) (filter mcp.Object, uris []string, refused *refusal) {
	filter, ok := mcp.ObjectOf(params.Value("notifications"))
	if !ok {
		return filter, nil, refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: notifications must be an object")
	}
	wanted := filter.Value("resourceSubscriptions")
	elements, ok := wanted.Elements()
	if wanted != nil && !ok {
		return filter, nil, refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: resourceSubscriptions must be an array")
	}
	if len(elements) > maxSubscriptions {
		return filter, nil, errSubscriptions
	}
	for _, element := range elements {
		uri, ok := element.Text()
		if !ok {
			return filter, nil, errURI
		}
		if !slices.Contains(uris, uri) {
			uris = append(uris, uri)
		}
	}
	return filter, uris, nil
}

// subscription is one stream of notices to a modern client.
type subscription struct {
	server  *Server
	out     *stream
	x       *exchange
	place   *streamPlace
	id      mcp.ID
	lists   [len(listFilters)]bool // which changed lists the client wants to be told of
	told    gateway.Digests        // of the lists as the client was last told
	follows []followed             // the resources that are subscribed to

	stirred chan struct{} // holds a value if there are updates to tell
	mu      sync.Mutex    // guards the field below
	updates updates
}

// followed is a resource that is subscribed to.
type followed struct {
	uri string
	gateway.Subscription
}

// open subscribes to resources, several at a time. Resources that cannot be subscribed to are left out of the
// acknowledgement, as the protocol wants.
func (sub *subscription) open(ctx context.Context, uris []string) {
	s, caller := sub.server, sub.x.caller
	opened := make([]*gateway.Subscription, len(uris))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(openingSubscriptions, len(uris)) {
		all.Go(func() {
			for i := range next {
				_, told := s.guarded(ctx, func() (result mcp.Object, err error) {
					one, err := s.resources.Subscribe(ctx, caller, sub.x.id, uris[i], func(part string) { sub.updated(uris[i], part) })
					opened[i] = &one
					return result, err
				})
				if told != nil {
					opened[i] = nil
				}
			}
		})
	}
	for i := range uris {
		next <- i
	}
	close(next)
	all.Wait()
	for i, one := range opened {
		if one != nil {
			sub.follows = append(sub.follows, followed{uris[i], *one})
		}
	}
}

func (sub *subscription) stop() {
	for _, one := range sub.follows {
		one.Stop()
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.updates.close()
}

// judge ends the subscriptions that the caller may not have any more.
func (sub *subscription) judge(caller gateway.Caller) {
	sub.follows = slices.DeleteFunc(sub.follows, func(one followed) bool {
		if one.Allows(caller) {
			return false
		}
		one.Stop()
		return true
	})
}

// updated notes that a resource, or a part of one, has changed. Until the client is told, further changes of it count
// as the same one.
func (sub *subscription) updated(uri, part string) {
	sub.mu.Lock()
	sub.updates.add(uri, part)
	sub.mu.Unlock()
	select {
	case sub.stirred <- struct{}{}:
	default:
	}
}

// take returns what has changed since it was last called.
func (sub *subscription) take() (uris []string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.updates.drop(func(uri, _ string) bool {
		uris = append(uris, uri)
		return true
	})
	slices.Sort(uris)
	return uris
}

// serve sends the acknowledgement, then the notices and, unless the client has left, the result.
func (sub *subscription) serve(ctx context.Context) {
	defer sub.out.close()
	params := mcp.NewObject(mcp.Member{Name: "notifications", Value: sub.honoured().JSON()})
	if sub.notify(mcp.NotifyAcknowledged, params) != nil || !sub.wait(ctx) {
		return
	}
	result := mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("complete")},
		mcp.Member{Name: "_meta", Value: sub.meta().With(mcp.MetaServerInfo, gateway.ServerInfo(sub.server.config.Version)).JSON()},
	)
	_ = sub.out.send(sse.Event{Data: mcp.AppendResult(nil, sub.id, result)}) // the client may be gone
}

// honoured returns the part of its filter that the client will be told of.
func (sub *subscription) honoured() (filter mcp.Object) {
	for i, name := range listFilters {
		if sub.lists[i] {
			filter = filter.With(name, mcp.Bool(true))
		}
	}
	if len(sub.follows) == 0 {
		return filter
	}
	uris := make([]mcp.RawJSON, 0, len(sub.follows))
	for _, one := range sub.follows {
		uris = append(uris, mcp.String(one.uri))
	}
	return filter.With("resourceSubscriptions", mcp.Array(uris))
}

// wait sends notices until the subscription is over. It is false if the client is gone.
func (sub *subscription) wait(ctx context.Context) bool {
	s := sub.server
	silence := time.NewTimer(s.config.Heartbeat)
	defer silence.Stop()
	var over <-chan time.Time
	if expiry := sub.x.principal.Expiry; !expiry.IsZero() {
		timer := time.NewTimer(time.Until(expiry) + expiryLeeway)
		defer timer.Stop()
		over = timer.C
	}
	for {
		changed := s.catalogue.Changed()
		caller, ok := s.resolve(sub.x.principal)
		if !ok {
			return true
		}
		sub.judge(caller)
		told, err := sub.tell(caller)
		if err != nil {
			return false
		}
		if told {
			silence.Reset(s.config.Heartbeat)
		}
		select {
		case <-changed:
		case <-sub.stirred:
		case <-silence.C:
			silence.Reset(s.config.Heartbeat)
			if sub.out.comment() != nil {
				return false
			}
		case <-over:
			return true
		case <-sub.place.revoked:
			return true
		case <-s.draining:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// tell sends a notice of each list that changed, and of each changed resource that the caller may still read. told
// tells whether it sent any.
func (sub *subscription) tell(caller gateway.Caller) (told bool, err error) {
	digests := sub.server.catalogue.Lists(caller)
	before := changes(sub.told)
	sub.told = digests
	for i, change := range changes(digests) {
		if !sub.lists[i] || change.digest == before[i].digest {
			continue
		}
		if err := sub.notify(change.method, mcp.Object{}); err != nil {
			return told, err
		}
		told = true
	}
	for _, uri := range sub.take() {
		if !sub.server.resources.Reads(caller, uri) {
			continue
		}
		if err := sub.notify(mcp.NotifyResourceUpdated, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})); err != nil {
			return told, err
		}
		told = true
	}
	return told, nil
}

func (sub *subscription) notify(method string, params mcp.Object) error {
	params = params.With("_meta", sub.meta().JSON())
	return sub.out.send(sse.Event{Data: mcp.AppendRequest(nil, "", method, params)})
}

func (sub *subscription) meta() mcp.Object {
	return mcp.NewObject(mcp.Member{Name: mcp.MetaSubscriptionID, Value: mcp.RawJSON(sub.id)})
}
