package server

import (
	"context"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
)

// maxTold is how many updates are put into the log before they are sent, because the log
// keeps only so many events.
const maxTold = 32

// news is what the client of a session has yet to be told: changed lists, changed
// resources. The mutex of the session guards it. A notice is put into the log of one
// stream, which carries it to the client. If no connection sends that stream any
// more before the notice went out, another stream takes over.
type news struct {
	lists [3]struct {
		told    string // digest of what the client was last told of; "": not known here
		content string // digest of what that holds
		carrier string // the stream that has the notice and has not sent it yet; "" for none
	}
	kept    string            // what the record has of the lists
	updates *notices.Pending  // changed resources; nil: none has changed yet
	watched map[string]*watch // subscriptions, by URI
	// those of the primary before that are to be made again; true: that was tried
	lost          map[string]bool
	reopening     map[string]bool // those that are being made again
	resubscribing bool            // somebody makes them
}

// watch is the subscription of a session to one resource.
type watch struct {
	kept         bool          // the record is to have it
	opened       chan struct{} // closed when the fields below are set
	told         *mcp.Error    // why it could not be opened; nil: it was
	subscription gateway.Subscription
}

// isOpen tells whether the subscription was opened, or could not be; otherwise it is
// being opened.
func (w *watch) isOpen() bool {
	select {
	case <-w.opened:
		return true
	default:
		return false
	}
}

// assign returns the methods of the notices of changed lists that the client has yet to
// get, and makes stream the one that carries them: of several streams only one tells each
// change. stream is "" if the client need not be told, because it has yet to list.
func (l *live) assign(d gateway.Digests, stream string) (methods []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, change := range notices.Changes(d) {
		n := &l.news.lists[i]
		if n.told == "" && n.content == change.Content { // another replica has told the client
			n.told = change.Digest
		}
		if n.told == change.Digest && !l.isUnsentLocked(n.carrier, stream) {
			continue
		}
		n.told, n.content, n.carrier = change.Digest, change.Content, stream
		methods = append(methods, change.Method)
	}
	return methods
}

// isUnsentLocked tells whether a notice that one stream carries falls to another, because
// no connection has the first one any more.
func (l *live) isUnsentLocked(carrier, stream string) bool {
	return carrier != "" && carrier != stream && l.holderLocked(carrier) == nil
}

// unassign notes that notices with that method, or of that resource, could not be put into
// the log of the stream that carries them. They are assigned again, unless another stream has
// done so already.
func (l *live) unassign(stream, method, uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, change := range notices.Changes(gateway.Digests{}) {
		if change.Method == method && l.news.lists[i].carrier == stream {
			l.news.lists[i].told, l.news.lists[i].content, l.news.lists[i].carrier = "", "", ""
		}
	}
	l.news.updates.Unassign(uri, stream)
}

// assignUpdates does for changed resources what assign does for lists. It returns at most
// maxTold URIs; more tells whether there are others.
func (l *live) assignUpdates(stream string) (uris []string, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uri, carrier := range l.news.updates.All() {
		if carrier == "" || l.isUnsentLocked(carrier, stream) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	more = len(uris) > maxTold
	uris = uris[:min(len(uris), maxTold)]
	for _, uri := range uris {
		l.news.updates.Assign(uri, stream)
	}
	return uris, more
}

// sent notes that everything on the stream has gone out, including the notices that it
// carried.
func (l *live) sent(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.news.lists {
		if n := &l.news.lists[i]; n.carrier == stream {
			n.carrier = ""
		}
	}
	l.news.updates.Drop(func(_, carrier string) bool { return carrier == stream })
}

// updated notes that a resource, or a part of one, has changed; the subscription to uri
// said so. Until the client is told, further changes of it count as the same one.
func (s *Server) updated(l *live, uri, part string) {
	if l.noteUpdate(uri, part) {
		l.wakeStreams()
	}
}

func (l *live) noteUpdate(uri, part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.news.watched[uri] == nil {
		return false
	}
	l.addUpdateLocked(uri, part)
	return true
}

// subscribe opens a subscription of the session, unless it is open already or about to
// be.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (s *Server) subscribe(ctx context.Context, c gateway.Caller, id string, l *live,
	params mcp.Object,
) *mcp.Error {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return refused.Told
	}
	w, mine := l.reserve(uri)
	switch {
	case w == nil:
		return exchange.ErrSubscriptions.Told
	case !mine:
		select {
		case <-w.opened:
			return w.told
		case <-ctx.Done():
			return exchange.ErrGone
		}
	}
	_, w.told = s.exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
		w.subscription, err = s.desk.Subscribe(ctx, c, id, uri, func(part string) { s.updated(l, uri, part) })
		return result, err
	})
	if !l.finishOpening(uri, w) && w.told == nil {
		w.subscription.Stop() // the client unsubscribed, or the session ended, while it was being opened
	}
	if w.told == nil {
		s.sessions.keepWatch(ctx, l, uri)
	}
	if now, ok := s.exchanges.Resolve(c.Principal); ok { // rules may have changed while it was being opened
		s.forgetWatches(ctx, l.judge(now))
	}
	return w.told
}

// reserve adds a subscription that is about to be opened. It returns nil if there are too
// many. mine is false if another request has opened the same one already, or is opening
// it.
func (l *live) reserve(uri string) (w *watch, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w = l.news.watched[uri]; w != nil {
		return w, false
	}
	if l.over || !l.lead.leads || len(l.news.watched) >= exchange.MaxSubscriptions {
		return nil, false
	}
	if l.news.watched == nil {
		l.news.watched = make(map[string]*watch)
	}
	w = &watch{opened: make(chan struct{}), kept: l.keepsLocked(uri)}
	l.news.watched[uri] = w
	return w, true
}

// finishOpening tells those who wait for the subscription what became of it. It is false
// if the subscription was ended meanwhile.
func (l *live) finishOpening(uri string, w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(w.opened)
	if l.news.watched[uri] != w {
		return false
	}
	if w.told != nil {
		delete(l.news.watched, uri)
	}
	return true
}

// end stops a subscription that is open. One that is still being opened is stopped by
// whoever opens it.
func (w *watch) end() {
	if w.isOpen() && w.told == nil {
		w.subscription.Stop()
	}
}

// addUpdateLocked remembers that a resource, or a part of one, has changed.
func (l *live) addUpdateLocked(uri, part string) {
	if l.over {
		return
	}
	if l.news.updates == nil {
		l.news.updates = notices.NewPending(l.roster.memory, share.User(l.user))
	}
	l.news.updates.Add(uri, part)
}

// learnLists notes what the client was told of lists, as the record has it.
func (l *live) learnLists(text string) {
	contents := strings.Fields(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.news.lists {
		n := &l.news.lists[i]
		if n.told, n.content, n.carrier = "", "", ""; len(contents) == len(l.news.lists) {
			n.content = contents[i]
		}
	}
	l.news.kept = text
}

// listsLocked returns what the client was told of lists, "" as long as it has yet to get
// a notice, or was told nothing.
func (l *live) listsLocked() string {
	contents := make([]string, 0, len(l.news.lists))
	for _, n := range l.news.lists {
		if n.carrier != "" || n.content == "" {
			return ""
		}
		contents = append(contents, n.content)
	}
	return strings.Join(contents, " ")
}

// keepLists has the record say what the client was told of lists, so that the next
// primary repeats nothing.
func (s *Server) keepLists(ctx context.Context, l *live) {
	l.mu.Lock()
	text := l.listsLocked()
	due := l.shared && l.lead.leads && text != "" && text != l.news.kept
	if due {
		l.news.kept = text
	}
	l.mu.Unlock()
	if due {
		s.sessions.keep(ctx, l, factLists, text)
	}
}
