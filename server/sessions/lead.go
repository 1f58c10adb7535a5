package sessions

import (
	"maps"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// PrimaryOf returns the other replica that leads the session, "" if this one does or if
// none is known.
func (l *Session) PrimaryOf() replica.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.primary
}

// WantLogs notes how grave a log message must be for the client to get it.
func (l *Session) WantLogs(level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client.level = level
}

// IsLeading tells whether this replica leads the session. It is true of a session that is
// not shared.
func (l *Session) IsLeading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.leads
}

// IsSureSince tells whether this replica was sure at that time or later that it leads the
// session or, of one that another leads, which one does.
func (l *Session) IsSureSince(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.Shared || !l.lead.confirmed.Before(since)
}

// Epoch returns that of the session, as this replica has it.
func (l *Session) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.epoch
}

// FormerOf returns the replica that led the session before, and may have calls of it, ""
// if there is none.
func (l *Session) FormerOf() replica.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.former
}

// EntryKey names the session in the entries.
func (l *Session) EntryKey() primary.Key { return primary.Key{Tenant: l.User.TenantID, Name: l.Name} }

// Facts returns all that is kept of a session that this replica leads, and the text ""
// for what is to be forgotten. It is called when all of it is about to be written.
func (l *Session) Facts() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	facts := l.lead.forgotten
	if l.lead.forgotten = nil; facts == nil {
		facts = make(map[string]string)
	}
	if l.client.level != 0 {
		facts[FactLevel] = l.client.level.String()
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

// learn takes what is kept of a session that this replica leads from now on.
func (l *Session) learn(facts map[string]string) {
	if level, ok := mcp.LevelOf(facts[FactLevel]); ok {
		l.WantLogs(level)
	}
	l.learnLists(facts[FactLists])
	l.learnWatches(facts)
}

// Names of facts.
const (
	FactLevel = "level" // of log messages, by name
	FactLists = "lists" // digests of what the client was told of lists last
)

// SetUnwritten notes whether the entry lacks something.
func (l *Session) SetUnwritten(unwritten bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.unwritten = unwritten
}

// NoteUnwritten notes that some facts could not be written. Facts returns them later.
func (l *Session) NoteUnwritten(facts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.unwritten = true
	for name, text := range facts {
		if text == "" && len(l.lead.forgotten) < maxForgotten {
			if l.lead.forgotten == nil {
				l.lead.forgotten = make(map[string]string)
			}
			l.lead.forgotten[name] = ""
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
	l.lead.rewritten = true
}

// IsRewritten returns what NoteRewritten has noted.
func (l *Session) IsRewritten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.rewritten
}

// IsUnwritten tells whether this replica leads the session, and its entry lacks
// something.
func (l *Session) IsUnwritten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.leads && l.lead.unwritten
}

// BeginLeading notes that this replica has opened the session.
func (l *Session) BeginLeading(epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead = lead{leads: true, epoch: epoch, confirmed: time.Now()}
}

// BecomePrimary notes that this replica leads the session from now on, and what its
// entry has of it. former led it before and answers the requests that are running; it is
// "" if that is gone.
func (l *Session) BecomePrimary(r primary.Entry, former replica.ID, running map[mcp.ID]bool) {
	l.mu.Lock()
	l.lead = lead{leads: true, epoch: r.Epoch, confirmed: time.Now(), former: former, running: running}
	l.life.reach(ready)
	l.mu.Unlock()
	l.learn(r.Facts)
}

// Confirm notes that this replica was sure at that time that it leads the session.
func (l *Session) Confirm(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.confirmed = at
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
	was := l.lead
	l.lead = lead{epoch: epoch, primary: at}
	var lost []*Holder
	for _, h := range l.streams.holders {
		if was.leads && h.flow != nil && h.Stream[0] == 'g' {
			lost = append(lost, h)
		}
	}
	l.dropListenersLocked(func(*Holder) bool { return true })
	watched := l.notices.watched
	l.notices.watched, l.notices.lost = nil, nil
	l.mu.Unlock()
	for _, w := range watched {
		w.stop()
	}
	for _, h := range lost {
		h.lose()
	}
	return was.epoch, was.leads, elsewhere
}

// IsUsedSince tells whether this replica leads the session, which is shared, and the
// session is in use or was used since then.
func (l *Session) IsUsedSince(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Shared && l.lead.leads && !l.life.isOver() && (l.isBusyLocked() || l.life.used.After(since))
}
