package sessions

import (
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
)

// MaxUpdates is how many updates are put into the log before they are sent, because the
// log keeps only so many events.
const MaxUpdates = 32

// Assign returns the methods of the notices of changed lists that the client has yet to
// get, and makes stream the one that carries them: of several streams only one tells each
// change. stream is "" if the client need not be told, because it has yet to list.
func (l *Session) Assign(d gateway.Digests, stream string) (methods []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, list := range d {
		n := &l.notices.lists[i]
		if n.notified == "" && n.content == list.Content { // another replica has told the client
			n.notified = list.Listed
		}
		if n.notified == list.Listed && !l.isUnsentLocked(n.carrier, stream) {
			continue
		}
		n.notified, n.content, n.carrier = list.Listed, list.Content, stream
		methods = append(methods, notices.ListMethods[i])
	}
	return methods
}

// isUnsentLocked tells whether a notice that one stream carries falls to another, because
// no connection has the first one any more.
func (l *Session) isUnsentLocked(carrier, stream string) bool {
	return carrier != "" && carrier != stream && l.holderLocked(carrier) == nil &&
		!slices.ContainsFunc(l.streams.elsewhere, func(one *Listener) bool { return one.Stream == carrier })
}

// Unassign notes that notices with that method, or of that resource, could not be put
// into the log of the stream that carries them. They are assigned again, unless another
// stream has done so already.
func (l *Session) Unassign(stream, method, uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(notices.ListMethods[:], method); i >= 0 && l.notices.lists[i].carrier == stream {
		l.notices.lists[i].carrier = noStream
	}
	l.notices.updates.Unassign(uri, stream)
}

// AssignUpdates does for changed resources what assign does for lists. It returns at most
// MaxUpdates URIs; more tells whether there are others.
func (l *Session) AssignUpdates(stream string) (uris []string, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uri, carrier := range l.notices.updates.All() {
		if carrier == "" || l.isUnsentLocked(carrier, stream) {
			uris = append(uris, uri)
		}
	}
	if len(uris) == 0 || !l.isDueLocked(time.Now()) {
		return nil, false
	}
	slices.Sort(uris)
	more = len(uris) > MaxUpdates
	uris = uris[:min(len(uris), MaxUpdates)]
	for _, uri := range uris {
		l.notices.updates.Assign(uri, stream)
	}
	if !more {
		next := time.Now()
		if l.notices.pacedUntil.After(next) {
			next = l.notices.pacedUntil
		}
		l.notices.pacedUntil = next.Add(updatePace)
	}
	return uris, more
}

// Sent notes that everything on the stream has gone out, including the notices that it
// carried.
func (l *Session) Sent(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.notices.lists {
		if n := &l.notices.lists[i]; n.carrier == stream {
			n.carrier = ""
		}
	}
	l.notices.updates.Drop(l.memory(), func(_, carrier string) bool { return carrier == stream })
}

// noStream is the name of a stream that a session never has: they count from 1.
const noStream = "g0"

// Retell has the client told again of all lists and of all resources that it is
// subscribed to.
func (l *Session) Retell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.notices.lists {
		l.notices.lists[i].carrier = noStream
	}
	for uri := range l.notices.watched {
		l.notices.updates.Add(l.memory(), uri, uri)
	}
}

// NoteUpdate remembers that a resource, or a part of one, has changed. It is true if a
// stream is to tell the client now: the session is subscribed to uri, and the client was
// not told of too many just now.
func (l *Session) NoteUpdate(uri, part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.isOver() || l.notices.watched[uri] == nil {
		return false
	}
	l.notices.updates.Add(l.memory(), uri, part)
	return l.isDueLocked(time.Now())
}

// The client of a shared session is told of changed resources once in updatePace, and
// some more often after a pause: each time costs a write to what replicas share. What
// changes meanwhile is told as one change, of the latest state.
const (
	updatePace  = time.Second
	updateBurst = 8 * updatePace
)

// isDueLocked tells whether the client may be told of changes of resources now. If not,
// its streams are woken when it may be.
func (l *Session) isDueLocked(now time.Time) bool {
	wait := l.notices.pacedUntil.Add(-updateBurst).Sub(now)
	if !l.Shared || wait <= 0 {
		return true
	}
	if !l.notices.paced {
		l.notices.paced = true
		time.AfterFunc(wait, func() {
			l.mu.Lock()
			l.notices.paced = false
			l.mu.Unlock()
			l.WakeStreams()
		})
	}
	return false
}

// memory is that of what the client has yet to be told.
func (l *Session) memory() notices.Memory {
	return notices.Memory{Budget: l.roster.memory, User: share.User(l.User)}
}

// learnListsLocked notes what the client was told of lists, as the entry has it.
func (l *Session) learnListsLocked(text string) {
	contents := strings.Fields(text)
	for i := range l.notices.lists {
		n := &l.notices.lists[i]
		if n.notified, n.content, n.carrier = "", "", ""; len(contents) == len(l.notices.lists) {
			n.content = contents[i]
		}
	}
	l.notices.stored = text
}

// listsLocked returns what the client was told of lists, "" as long as it has yet to get
// a notice, or was told nothing.
func (l *Session) listsLocked() string {
	contents := make([]string, 0, len(l.notices.lists))
	for _, n := range l.notices.lists {
		if n.carrier != "" || n.content == "" {
			return ""
		}
		contents = append(contents, n.content)
	}
	return strings.Join(contents, " ")
}

// ListsDue returns what the client was told of lists. due tells whether the entry is to
// have it and does not, and then counts as having it.
func (l *Session) ListsDue() (text string, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = l.listsLocked()
	due = l.Shared && l.leader.Here && text != "" && text != l.notices.stored
	if due {
		l.notices.stored = text
	}
	return text, due
}

// maxOnceSize is how many bytes a notice has at most that is told once and waits for a
// stream: what is longer is told when the client asks.
const maxOnceSize = 4 << 10

// NoteOnce notes that the client is to be told that notice once, of the task or
// elicitation with that id, of which the latest counts. It is false if this replica does
// not lead the session, or there is no room. The user holds what waits: a session may be
// without a stream for long.
func (l *Session) NoteOnce(id, method string, notice []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.isOver() || l.Shared && !l.leader.Here || len(notice) > maxOnceSize {
		return false
	}
	return l.notices.once.Put(l.memory(), id, notices.State{Method: method, Text: notice})
}

// Once is a notice that is told once, of the task or elicitation with that id.
type Once struct {
	notices.State

	ID string
}

// TakeOnce returns the notices that wait. The stream that takes them tells them.
func (l *Session) TakeOnce() (taken []Once) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices.once.Drop(l.memory(), func(id, _ string) bool {
		taken = append(taken, Once{l.notices.once.State(id), id})
		return true
	})
	return taken
}
