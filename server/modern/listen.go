package modern

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
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
// order of gateway.Digests.
var listFilters = [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// listen answers subscriptions/listen with an event stream of notices, until the client
// leaves or the time of the stream is over. Every message on it carries the id of the
// request as the id of the subscription.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (e *Endpoint) listen(x *exchange.Exchange, m *mcp.Message) {
	filter, uris, ids, refused := filterOf(m.Params)
	if refused == nil && filter.Has("taskIds") &&
		tasksOf(x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions")) == 0 {
		refused = exchange.ErrTasks
	}
	if refused == nil && !x.AcceptsStream {
		refused = exchange.ErrAccept
	}
	if x.Refuses(m.ID, refused) {
		return
	}
	slot, refused := e.config.Streams.TakeLastingSlot(x, "listen")
	if x.Refuses(m.ID, refused) {
		return
	}
	sub := &subscription{
		endpoint: e, slot: slot, id: mcp.ID(strings.Clone(string(m.ID))),
		memory: notices.Memory{Budget: e.config.Memory, User: share.User(x.Principal.User())},
	}
	for i, name := range listFilters {
		sub.lists[i] = string(filter.Value(name)) == "true"
	}
	// taken before the acknowledgement, so that no change after it goes untold
	for i, list := range e.config.Exchanges.Desk.Lists(x.Caller) {
		sub.notified[i] = list.Listed
	}
	sub.flow = e.config.Streams.NewFlow(sub, slot)
	if !e.config.Streams.IsDraining() { // otherwise the stream ends at once, and tells of nothing
		sub.uris, sub.ids = uris, ids
	}
	sub.flow.Serve(x.Context(), x)
}

// filterOf returns what the client wants to be told of: a filter, with the URIs of the
// resources and the ids of the tasks in it.
func filterOf(params mcp.Object) (filter mcp.Object, uris, ids []string, refused *exchange.Refusal) {
	filter, ok := mcp.ObjectOf(params.Value("notifications"))
	if !ok {
		return filter, nil, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: notifications must be an object")
	}
	uris, refused = wanted(filter, "resourceSubscriptions", exchange.MaxSubscriptions)
	if refused == nil {
		ids, refused = wanted(filter, "taskIds", exchange.MaxSubscriptions-len(uris)) // both have one bound
	}
	return filter, uris, ids, refused
}

// wanted returns what that member of a filter names, at most that many, each once.
func wanted(filter mcp.Object, member string, most int) (names []string, refused *exchange.Refusal) {
	list := filter.Value(member)
	elements, ok := list.Elements()
	if list != nil && !ok {
		return nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: %s must be an array", member)
	}
	if len(elements) > most {
		return nil, exchange.ErrSubscriptions
	}
	for _, element := range elements {
		name, refused := notices.URIOf(element)
		if refused != nil {
			return nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
				"Invalid params: each of %s must be a string of at most %d bytes", member, exchange.MaxURI)
		}
		if !slices.Contains(names, name) {
			names = append(names, strings.Clone(name)) // or all of the body would stay in memory
		}
	}
	return names, nil
}

// subscription is one stream of notices to a modern client. It is the source of a flow.
type subscription struct {
	endpoint *Endpoint
	flow     *streams.Flow
	slot     *streams.Slot
	id       mcp.ID
	lists    [len(listFilters)]bool   // which changed lists the client wants to be told of
	notified [len(listFilters)]string // digests of the lists as the client was last told
	uris     []string                 // the resources that are to be subscribed to; nil when that was tried
	ids      []string                 // the tasks that are to be followed; nil when that was tried
	follows  []followed               // those that are subscribed to
	tasked   []followed               // the tasks that are followed

	memory notices.Memory // of the fields below

	mu      sync.Mutex // guards the fields below
	updates notices.Pending
	tasks   notices.Pending // states of tasks
}

var _ streams.Source = (*subscription)(nil)

// followed is a resource that is subscribed to, or a task that is followed.
type followed struct {
	uri string // of the task: its id
	gateway.Subscription
}

// Open implements source: it subscribes to the resources, begins to follow the tasks, and
// sends the acknowledgement. Those that the caller cannot have are left out of that, as
// the protocol wants.
func (sub *subscription) Open(ctx context.Context, x *exchange.Exchange) (*streams.Stream, error) {
	desk, caller, request := sub.endpoint.config.Exchanges.Desk, x.Caller, requestOfListener(ctx, x)
	patient, stop := context.WithTimeout(ctx, streams.Heartbeat)
	defer stop()
	sub.follows = sub.opened(ctx, patient, x, sub.uris, func(uri string) (gateway.Subscription, error) {
		return desk.Subscribe(ctx, caller, request, uri, func(part string) { sub.updated(uri, part) })
	})
	sub.tasked = sub.opened(ctx, patient, x, sub.ids, func(id string) (gateway.Subscription, error) {
		return desk.FollowTask(ctx, caller, request, id,
			func(state mcp.Object) bool { return sub.taskChanged(id, state) })
	})
	sub.uris, sub.ids = nil, nil
	x.Release()
	out, err := sub.flow.Begin(x)
	if err != nil {
		return out, err
	}
	params := mcp.NewObject(mcp.Member{Name: "notifications", Value: sub.honoured().JSON()})
	return out, out.Send(sub.notice(mcp.NotifyAcknowledged, params))
}

// requestOfListener returns what the desk must know of the client that listens. It lives
// longer than the body of the request.
func requestOfListener(ctx context.Context, x *exchange.Exchange) *gateway.Request {
	r := requestFrom(ctx, x)
	r.Client = strings.Clone(exchange.Cut(r.Client))
	r.From.Name, r.From.Version = r.Client, strings.Clone(exchange.Cut(r.From.Version))
	return &r
}

// opened opens subscriptions, several at a time, and returns those that could be opened.
// Those that are more than a rate of calls allows at once are opened at its pace until
// patient ends, since the client would not learn why they are missing.
func (sub *subscription) opened(ctx, patient context.Context, x *exchange.Exchange, names []string,
	open func(name string) (gateway.Subscription, error),
) []followed {
	found, refused := make([]followed, len(names)), make([]*mcp.Error, len(names))
	try := func(i int) {
		found[i].uri = names[i]
		_, refused[i] = sub.endpoint.config.Exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
			found[i].Subscription, err = open(names[i])
			return result, err
		})
	}
	pace.AtOnce(len(names), openingSubscriptions, try)
	inVain := 0
	for i := range names {
		for ; !sub.endpoint.config.Streams.IsDraining() &&
			exchange.AwaitRate(patient, refused[i], inVain); inVain++ {
			x.Reservation.ReleaseSlot()
			try(i)
		}
		if refused[i] == nil {
			inVain = 0
		}
	}
	return slices.DeleteFunc(found, func(one followed) bool { return one.Stop == nil })
}

// taskChanged takes the state of a task that the client is to be told of. It is false if
// there is no memory for it.
func (sub *subscription) taskChanged(id string, state mcp.Object) bool {
	latest := notices.State{Text: state.JSON()}
	sub.mu.Lock()
	taken := sub.tasks.Put(sub.memory, id, latest)
	sub.mu.Unlock()
	if taken {
		sub.flow.Wake()
	}
	return taken
}

// Close implements source.
func (sub *subscription) Close(context.Context, bool) {
	for _, one := range slices.Concat(sub.follows, sub.tasked) {
		one.Stop()
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.updates.Close(sub.memory)
	sub.tasks.Close(sub.memory)
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
	sub.updates.Add(sub.memory, uri, part)
	sub.mu.Unlock()
	sub.flow.Wake()
}

// carried stands for the stream of the request, of which there is one.
const carried = "listen"

// first returns one of the changes of which the client has yet to be told, and the state
// if it has one. It is false if there are none.
func (sub *subscription) first(of *notices.Pending) (key string, state []byte, ok bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for one := range of.All() {
		if !ok || one < key {
			key, ok = one, true
		}
	}
	if ok {
		of.Assign(key, carried)
	}
	return key, of.State(key).Text, ok
}

// forget notes that the client is about to be told of a change that first returned. If it
// has changed again since, that is another change, and is kept.
func (sub *subscription) forget(of *notices.Pending, key string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	of.Drop(sub.memory, func(changed, stream string) bool { return changed == key && stream == carried })
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
	if !ok || sub.flow.IsDue() {
		return streams.ErrEnded
	}
	sub.reauthorize(caller)
	if err := sub.tellLists(caller, out); err != nil {
		return err
	}
	desk := sub.endpoint.config.Exchanges.Desk
	if err := sub.tell(out, &sub.updates, sub.noticeOfUpdate, desk.Reads); err != nil {
		return err
	}
	return sub.tell(out, &sub.tasks, sub.noticeOfTask, desk.FollowsTask)
}

// tellLists sends a notice of each list that changed.
func (sub *subscription) tellLists(caller gateway.Caller, out *streams.Stream) error {
	for i, list := range sub.endpoint.config.Exchanges.Desk.Lists(caller) {
		if sub.lists[i] && list.Listed != sub.notified[i] {
			if err := out.Send(sub.notice(notices.ListMethods[i], mcp.Object{})); err != nil {
				return err
			}
		}
		sub.notified[i] = list.Listed
	}
	return nil
}

// tell sends a notice of each change that waits and that the caller may still know of. It
// looks up what the caller may do after it has taken the change: otherwise it would tell
// of a change that came after the right to know of it had ended.
func (sub *subscription) tell(out *streams.Stream, of *notices.Pending,
	noticeOf func(key string, state []byte) sse.Event, mayKnow func(c gateway.Caller, key string) bool,
) error {
	for key, state, ok := sub.first(of); ok; key, state, ok = sub.first(of) {
		notice := noticeOf(key, state)
		if err := out.CanTake(len(notice.Data)); err != nil {
			return err // before it is forgotten
		}
		sub.forget(of, key)
		caller, accepted := sub.endpoint.config.Exchanges.Resolve(sub.slot.Principal)
		if !accepted {
			return streams.ErrEnded
		}
		if !mayKnow(caller, key) {
			continue
		}
		if err := out.Send(notice); err != nil {
			return err
		}
	}
	return nil
}

func (sub *subscription) noticeOfUpdate(uri string, _ []byte) sse.Event {
	return sub.notice(mcp.NotifyResourceUpdated,
		mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
}

func (sub *subscription) noticeOfTask(_ string, state []byte) sse.Event {
	params, _ := mcp.ObjectOf(state)
	return sub.notice(mcp.NotifyTasks, params)
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
