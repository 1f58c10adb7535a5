package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// What the client of a session was last told of lists is kept in the log, so that its next teller repeats nothing.

// knownTime is how long the teller of a session waits for another replica to say what the client knows of lists, before it
// tells the client that all of them have changed. It is much longer than that takes.
const knownTime = 2 * time.Second

// keptLists is the name under which the log keeps what the client of a session was last told of lists.
const keptLists = "lists"

// awaitsKnownLocked tells whether another replica may yet say what the client knows of lists.
func (l *live) awaitsKnownLocked() bool {
	return l.shared && time.Since(l.news.since) < knownTime
}

// learnKept learns from the log what a new teller must know: the subscriptions of the session, and what its client was
// last told of lists.
func (s *Server) learnKept(ctx context.Context, l *live) {
	facts, err := s.config.Log.Facts(ctx, l.inLog())
	if err != nil {
		return
	}
	l.learnWatches(facts)
	l.learnLists(strings.Fields(facts[keptLists]), s.config.Others.Self())
}

// learnLists notes what the client was last told of lists, if another replica told it.
func (l *live) learnLists(contents []string, self replica.ID) {
	if len(contents) != len(l.news.lists) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.news.lists {
		if n := &l.news.lists[i]; n.owed == "" && (n.content != contents[i] || l.news.claim.teller != self && l.news.claim.teller != "") {
			n.told, n.content = "", contents[i]
		}
	}
}

// keepLists has the log keep what the client was told of lists, for the replica that tells it next.
func (s *Server) keepLists(ctx context.Context, l *live) {
	text, due := l.untoldOthers()
	if !due {
		return
	}
	if err := s.config.Log.Keep(ctx, l.inLog(), keptLists, text); err != nil && !errors.Is(err, session.ErrUnknown) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.news.kept = false // the next notice tries again; until then the client may be told once more by another replica
	}
}

// untoldOthers returns what the log is to keep, and notes that it does. It is false if the log has it already, or if the
// client has yet to get a notice.
func (l *live) untoldOthers() (text string, due bool) {
	if !l.shared {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news.kept {
		return "", false
	}
	contents := make([]string, 0, len(l.news.lists))
	for _, n := range l.news.lists {
		if n.owed != "" || n.content == "" {
			return "", false
		}
		contents = append(contents, n.content)
	}
	l.news.kept = true
	return strings.Join(contents, " "), true
}
