package sessions

import (
	"maps"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// Leader returns what this replica knows of who leads the session.
func (l *Session) Leader() Leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

// WantLogs notes how grave a log message must be for the client to get it.
func (l *Session) WantLogs(level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client.Level = level
}

// IsSureSince tells whether this replica was sure at that time or later that it leads the
// session or, of one that another leads, which one does.
func (l *Session) IsSureSince(since time.Time) bool {
	return !l.Shared || !l.Leader().confirmed.Before(since)
}

// EntryKey names the session in the entries.
func (l *Session) EntryKey() primary.Key { return primary.Key{Tenant: l.User.TenantID, Name: l.Name} }

// Facts returns all that is kept of a session that this replica leads, and the text ""
// for what is to be forgotten. It is called when all of it is about to be written, and
// counts as written then.
func (l *Session) Facts() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	facts := l.leader.forgotten
	if l.leader.forgotten, l.leader.Unwritten = nil, false; facts == nil {
		facts = make(map[string]string)
	}
	if l.client.Level != 0 {
		facts[FactLevel] = l.client.Level.String()
	}
	if lists := l.listsLocked(); lists != "" {
		facts[FactLists] = lists
	}
	for uri, w := range l.notices.watched {
		if w.stored {
			facts[WatchFact(uri)] = uri
		}
	}
	for uri := range l.notices.lost {
		facts[WatchFact(uri)] = uri
	}
	return facts
}

// learnLocked takes what is kept of a session that this replica leads from now on.
func (l *Session) learnLocked(facts map[string]string) {
	if level, ok := mcp.LevelOf(facts[FactLevel]); ok {
		l.client.Level = level
	}
	l.learnListsLocked(facts[FactLists])
	l.learnWatchesLocked(facts)
}

// Names of facts.
const (
	FactLevel = "level" // of log messages, by name
	FactLists = "lists" // digests of what the client was told of lists last
)

// NoteUnwritten notes that the entry lacks something, such as facts that could not be
// written. Facts returns them later, also those that are to be forgotten. nil: it is not
// known what the entry lacks.
func (l *Session) NoteUnwritten(facts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader.Unwritten = true
	for name, text := range facts {
		if text == "" && len(l.leader.forgotten) < maxForgotten {
			put(&l.leader.forgotten, name, "")
		}
	}
}

// maxForgotten is how many facts are kept in mind that the entry is to forget. Beyond, a
// client that unsubscribes without end would fill memory while Redis is away.
const maxForgotten = exchange.MaxSubscriptions

// NoteRewritten notes that the entry was written whole again. That stays: one DELETE of
// two, of which the other fails, must not forget it.
func (l *Session) NoteRewritten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader.Rewritten = true
}

// BeginLeading notes that this replica has opened the session.
func (l *Session) BeginLeading(epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = Leader{Here: true, Epoch: epoch, confirmed: time.Now()}
}

// BecomePrimary notes that this replica leads the session from now on, and what its
// entry has of it. former led it before and answers the requests that are running; it is
// "" if that is gone.
func (l *Session) BecomePrimary(r primary.Entry, former replica.ID, running map[mcp.ID]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = Leader{Here: true, Epoch: r.Epoch, confirmed: time.Now(), Former: former, Running: running}
	l.life.reach(Ready)
	l.learnLocked(r.Facts)
}

// Confirm notes that this replica was sure at that time that it leads the session.
func (l *Session) Confirm(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader.confirmed = at
}

// BecomeFollower notes that another replica leads the session. Streams for notices end
// here, and the subscriptions. It returns the epoch before, whether this replica led the
// session, and the replicas that hold streams for notices, by stream: that of a call
// follows the log, whoever leads.
func (l *Session) BecomeFollower(at replica.ID, epoch uint64) (before uint64, led bool,
	elsewhere map[string]replica.ID,
) {
	elsewhere = l.StreamsAt()
	maps.DeleteFunc(elsewhere, func(stream string, _ replica.ID) bool { return stream[0] != 'g' })
	l.mu.Lock()
	was := l.leader
	l.leader = Leader{At: at, Epoch: epoch}
	var lost []*Holder
	if was.Here {
		lost = l.forNoticesLocked()
	}
	l.streams.elsewhere = nil
	watched := l.notices.watched
	l.notices.watched, l.notices.lost = nil, nil
	l.mu.Unlock()
	for _, w := range watched {
		w.stop()
	}
	for _, h := range lost {
		h.lose()
	}
	return was.Epoch, was.Here, elsewhere
}

// IsUsedSince tells whether this replica leads the session, which is shared, and the
// session is in use or was used since then.
func (l *Session) IsUsedSince(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Shared && l.leader.Here && !l.life.isOver() && (l.isBusyLocked() || l.life.used.After(since))
}
