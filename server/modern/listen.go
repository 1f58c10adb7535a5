package modern

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// openingSubscriptions is how many subscriptions of one request are being opened at the
// same time.
const openingSubscriptions = 4

// listFilters are the members of a filter that ask for notices of changed lists, in the
// order of changes.
var listFilters = [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// listen answers subscriptions/listen with an event stream of notices, until the client
// leaves or the time of the stream is over. Every message on it carries the id of the
// request as the id of the subscription.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (e *Endpoint) listen(x *exchange.Exchange, r *http.Request, m *mcp.Message) {
	filter, uris, refused := filterOf(m.Params)
	var ids []string
	if refused == nil {
		ids, refused = taskIDs(filter, len(uris))
	}
	if refused == nil && filter.Has("taskIds") &&
		tasksOf(x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions")) == 0 {
		refused = exchange.ErrTasks
	}
	if refused == nil && !x.AcceptsStream {
		refused = exchange.ErrAccept
	}
	if refused != nil {
		x.Refuse(m.ID, refused)
		return
	}
	slot, refused := e.config.Streams.TakeLastingSlot(x, r, "listen")
	if refused != nil {
		x.Refuse(m.ID, refused)
		return
	}
	sub := &subscription{
		endpoint: e, slot: slot, id: mcp.ID(strings.Clone(string(m.ID))),
		updates: notices.NewPending(e.config.Memory, share.User(x.Principal.User())),
		tasks:   followedTasks{memory: e.config.Memory, user: share.User(x.Principal.User())},
	}
	for i, name := range listFilters {
		sub.lists[i] = string(filter.Value(name)) == "true"
	}
	// taken before the acknowledgement, so that no change after it goes untold
	for i, change := range notices.Changes(e.config.Exchanges.Desk.Lists(x.Caller)) {
		sub.notified[i] = change.Digest
	}
	sub.flow = e.config.Streams.NewFlow(sub, slot)
	if !e.config.Streams.IsDraining() { // otherwise the stream ends at once, and tells of nothing
		sub.wanted, sub.tasks.wanted = uris, ids
	}
	sub.flow.Serve(x.Context(), x, r)
}

// filterOf returns what the client wants to be told of.
func filterOf(params mcp.Object) (filter mcp.Object, uris []string, refused *exchange.Refusal) {
	filter, ok := mcp.ObjectOf(params.Value("notifications"))
	if !ok {
		return filter, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: notifications must be an object")
	}
	wanted := filter.Value("resourceSubscriptions")
	elements, ok := wanted.Elements()
	if wanted != nil && !ok {
		return filter, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: resourceSubscriptions must be an array")
	}
	if len(elements) > exchange.MaxSubscriptions {
		return filter, nil, exchange.ErrSubscriptions
	}
	for _, element := range elements {
		uri, refused := notices.URIOf(element)
		if refused != nil {
			return filter, nil, refused
		}
		if !slices.Contains(uris, uri) {
			uris = append(uris, strings.Clone(uri)) // or all of the body would stay in memory
		}
	}
	return filter, uris, nil
}

// taskIDs returns the ids of the tasks that a filter names. others is how many resources
// it names: both have one bound.
func taskIDs(filter mcp.Object, others int) (ids []string, refused *exchange.Refusal) {
	wanted := filter.Value("taskIds")
	elements, ok := wanted.Elements()
	if wanted != nil && !ok {
		return nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: taskIds must be an array")
	}
	if len(elements)+others > exchange.MaxSubscriptions {
		return nil, exchange.ErrSubscriptions
	}
	for _, element := range elements {
		id, refused := notices.URIOf(element)
		if refused != nil {
			return nil, refused
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, strings.Clone(id)) // or all of the body would stay in memory
		}
	}
	return ids, nil
}

// subscription is one stream of notices to a modern client. It is the source of a flow.
type subscription struct {
	endpoint *Endpoint
	flow     *streams.Flow
	slot     *streams.Slot
	id       mcp.ID
	lists    [len(listFilters)]bool   // which changed lists the client wants to be told of
	notified [len(listFilters)]string // digests of the lists as the client was last told
	wanted   []string                 // the resources that are to be subscribed to; nil when that was tried
	follows  []followed               // those that are subscribed to
	tasked   []followed               // the tasks that are followed
	tasks    followedTasks

	mu      sync.Mutex // guards the field below
	updates *notices.Pending
}

var _ streams.Source = (*subscription)(nil)

// followed is a resource that is subscribed to, or a task that is followed.
type followed struct {
	uri string // of the task: its id
	gateway.Subscription
}

// Open implements source: it subscribes to the resources, and sends the acknowledgement.
func (sub *subscription) Open(ctx context.Context, x *exchange.Exchange, r *http.Request) (*streams.Stream,
	error,
) {
	sub.subscribe(ctx, x, sub.wanted)
	sub.followTasks(ctx, x)
	sub.wanted = nil
	x.Release()
	out, err := streams.OpenLasting(x, r)
	if err != nil {
		return out, err
	}
	params := mcp.NewObject(mcp.Member{Name: "notifications", Value: sub.honoured().JSON()})
	return out, out.Send(sub.notice(mcp.NotifyAcknowledged, params))
}

// subscribe subscribes to resources, several at a time. Resources that cannot be
// subscribed to are left out of the acknowledgement, as the protocol wants.
func (sub *subscription) subscribe(ctx context.Context, x *exchange.Exchange, uris []string) {
	e, caller := sub.endpoint, x.Caller
	opened := make([]*gateway.Subscription, len(uris))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(openingSubscriptions, len(uris)) {
		all.Go(func() {
			for i := range next {
				_, rpcErr := e.config.Exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
					one, err := e.config.Exchanges.Desk.Subscribe(ctx, caller, x.ID, uris[i],
						func(part string) { sub.updated(uris[i], part) })
					opened[i] = &one
					return result, err
				})
				if rpcErr != nil {
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

// followTasks begins to follow tasks, several at a time. Those that the caller cannot
// follow are left out of the acknowledgement, as resources are.
func (sub *subscription) followTasks(ctx context.Context, x *exchange.Exchange) {
	exchanges, caller, ids := sub.endpoint.config.Exchanges, x.Caller, sub.tasks.wanted
	sub.tasks.wanted = nil
	if len(ids) == 0 {
		return
	}
	declared := x.Meta.Value(mcp.MetaClientCapabilities)
	client, _ := x.Meta.Value(mcp.MetaClientInfo).Member("name").Text()
	request := &gateway.Request{
		ID: x.ID, Client: strings.Clone(client), From: gateway.From{Remote: x.Remote},
		Tasks: tasksOf(declared.Member("extensions")),
		// what a task may ask its client, whose questions are in its state
		Capabilities: mcp.CapabilitiesOf(mcp.LatestModern, x.Meta.Object(mcp.MetaClientCapabilities)),
		Extensions:   x.Declares(ctx, declared.Member("extensions")),
	}
	opened := make([]*gateway.Subscription, len(ids))
	slots := make(chan struct{}, openingSubscriptions)
	var all sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, rpcErr := exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
				one, err := exchanges.Desk.FollowTask(ctx, caller, request, id,
					func(state mcp.Object) bool { return sub.taskChanged(id, state) })
				opened[i] = &one
				return result, err
			})
			if rpcErr != nil {
				opened[i] = nil
			}
		})
	}
	all.Wait()
	for i, one := range opened {
		if one != nil {
			sub.tasked = append(sub.tasked, followed{ids[i], *one})
		}
	}
}

// taskChanged takes the state of a task that the client is to be told of. It is false if
// there is no memory for it.
func (sub *subscription) taskChanged(id string, state mcp.Object) bool {
	if !sub.tasks.put(id, state) {
		return false
	}
	sub.flow.Wake()
	return true
}

// Close implements source.
func (sub *subscription) Close(context.Context, bool) {
	for _, one := range slices.Concat(sub.follows, sub.tasked) {
		one.Stop()
	}
	sub.tasks.close()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.updates.Close()
}

// reauthorize ends the subscriptions that the caller may not have any more.
func (sub *subscription) reauthorize(caller gateway.Caller) {
	lost := func(one followed) bool {
		if one.Allows(caller) {
			return false
		}
		one.Stop()
		return true
	}
	sub.follows = slices.DeleteFunc(sub.follows, lost)
	sub.tasked = slices.DeleteFunc(sub.tasked, lost)
}

// updated notes that a resource, or a part of one, has changed. Until the client is told,
// further changes of it count as the same one.
func (sub *subscription) updated(uri, part string) {
	sub.mu.Lock()
	sub.updates.Add(uri, part)
	sub.mu.Unlock()
	sub.flow.Wake()
}

// firstUpdate returns one of the changes of which the client has yet to be told. It is
// false if there are none.
func (sub *subscription) firstUpdate() (uri string, ok bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for one := range sub.updates.All() {
		if !ok || one < uri {
			uri, ok = one, true
		}
	}
	return uri, ok
}

// forgetUpdate notes that the client is about to be told of a change: the next one is
// another.
func (sub *subscription) forgetUpdate(uri string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.updates.Drop(func(changed, _ string) bool { return changed == uri })
}

// honoured returns the part of its filter that the client will be told of.
func (sub *subscription) honoured() (filter mcp.Object) {
	for i, name := range listFilters {
		if sub.lists[i] {
			filter = filter.With(name, mcp.Bool(true))
		}
	}
	filter = namesOf(filter, "resourceSubscriptions", sub.follows)
	return namesOf(filter, "taskIds", sub.tasked)
}

// namesOf adds to a filter what is followed, if anything is.
func namesOf(filter mcp.Object, member string, follows []followed) mcp.Object {
	if len(follows) == 0 {
		return filter
	}
	names := make([]mcp.RawJSON, 0, len(follows))
	for _, one := range follows {
		names = append(names, mcp.String(one.uri))
	}
	return filter.With(member, mcp.Array(names))
}

// Step implements source.
func (sub *subscription) Step(_ context.Context, out *streams.Stream) error {
	caller, ok := sub.endpoint.config.Exchanges.Resolve(sub.slot.Principal)
	if !ok || sub.endpoint.config.Streams.IsDue(sub.flow) {
		return streams.ErrEnded
	}
	sub.reauthorize(caller)
	if err := sub.tellLists(caller, out); err != nil {
		return err
	}
	if err := sub.tellUpdates(out); err != nil {
		return err
	}
	return sub.tellTasks(out)
}

// tellLists sends a notice of each list that changed.
func (sub *subscription) tellLists(caller gateway.Caller, out *streams.Stream) error {
	for i, change := range notices.Changes(sub.endpoint.config.Exchanges.Desk.Lists(caller)) {
		if sub.lists[i] && change.Digest != sub.notified[i] {
			if err := out.Send(sub.notice(change.Method, mcp.Object{})); err != nil {
				return err
			}
		}
		sub.notified[i] = change.Digest
	}
	return nil
}

// tellUpdates sends a notice of each changed resource that the caller may still read. It
// looks up what the caller may do after it has taken the change: otherwise it would tell
// of a change that came after the right to read it had ended.
func (sub *subscription) tellUpdates(out *streams.Stream) error {
	for uri, ok := sub.firstUpdate(); ok; uri, ok = sub.firstUpdate() {
		notice := sub.notice(mcp.NotifyResourceUpdated,
			mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
		if err := out.CanTake(len(notice.Data)); err != nil {
			return err // before it is forgotten
		}
		sub.forgetUpdate(uri)
		caller, ok := sub.endpoint.config.Exchanges.Resolve(sub.slot.Principal)
		if !ok {
			return streams.ErrEnded
		}
		if !sub.endpoint.config.Exchanges.Desk.Reads(caller, uri) {
			continue
		}
		if err := out.Send(notice); err != nil {
			return err
		}
	}
	return nil
}

// tellTasks sends the states that wait, of tasks that the caller may still follow.
func (sub *subscription) tellTasks(out *streams.Stream) error {
	for id, state, ok := sub.tasks.first(); ok; id, state, ok = sub.tasks.first() {
		params, _ := mcp.ObjectOf(state)
		notice := sub.notice(mcp.NotifyTasks, params)
		if err := out.CanTake(len(notice.Data)); err != nil {
			return err // before it is forgotten
		}
		sub.tasks.forget(id, state)
		caller, ok := sub.endpoint.config.Exchanges.Resolve(sub.slot.Principal)
		if !ok {
			return streams.ErrEnded
		}
		if !sub.endpoint.config.Exchanges.Desk.FollowsTask(caller, id) {
			continue
		}
		if err := out.Send(notice); err != nil {
			return err
		}
	}
	return nil
}

// SendEnd implements source: it sends the result of the request.
func (sub *subscription) SendEnd(out *streams.Stream) error {
	result := mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("complete")},
		mcp.Member{Name: "_meta", Value: sub.meta().With(mcp.MetaServerInfo,
			gateway.ServerInfo(sub.endpoint.config.Name, sub.endpoint.config.Version)).JSON()},
	)
	return out.Send(sse.Event{Data: mcp.AppendResult(nil, sub.id, result)})
}

func (sub *subscription) notice(method string, params mcp.Object) sse.Event {
	params = params.With("_meta", sub.meta().JSON())
	return sse.Event{Data: mcp.AppendRequest(nil, "", method, params)}
}

func (sub *subscription) meta() mcp.Object {
	return mcp.NewObject(mcp.Member{Name: mcp.MetaSubscriptionID, Value: mcp.RawJSON(sub.id)})
}
