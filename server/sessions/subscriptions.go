package sessions

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// Reauthorize ends the subscriptions of the session that its caller may not have any
// more, and returns them.
func (l *Session) Reauthorize(c gateway.Caller) (given []Revoked) {
	given = l.loseWatches(c)
	for _, one := range given {
		one.watch.stop()
	}
	if len(given) > 0 {
		l.MarkUsed()
	}
	return given
}

// loseWatches takes out the subscriptions that are open and that the caller may not have.
func (l *Session) loseWatches(c gateway.Caller) (lost []Revoked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.notices.watched, func(uri string, w *Subscription) bool {
		refused := w.isOpen() && w.Err == nil && !w.Subscription.Allows(c)
		if refused {
			lost = append(lost, Revoked{l, uri, w})
		}
		return refused
	})
	return lost
}

// Reserve adds a subscription that is about to be opened. It returns nil if there are too
// many. mine is false if another request has opened the same one already, or is opening
// it.
func (l *Session) Reserve(uri string) (w *Subscription, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w = l.notices.watched[uri]; w != nil {
		return w, false
	}
	if l.life.isOver() || !l.leader.Here || len(l.notices.watched) >= exchange.MaxSubscriptions {
		return nil, false
	}
	w = &Subscription{Opened: make(chan struct{}), stored: l.keepsLocked(uri)}
	put(&l.notices.watched, uri, w)
	return w, true
}

// FinishOpening tells those who wait for the subscription what became of it. It is false
// if the subscription was ended meanwhile.
func (l *Session) FinishOpening(uri string, w *Subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(w.Opened)
	if l.notices.watched[uri] != w {
		return false
	}
	if w.Err != nil {
		delete(l.notices.watched, uri)
	}
	return true
}

// factWatch is the name of the fact of a subscription, without the digest of its URI:
// names of facts are not sealed.
const factWatch = "watch-"

// maxStoredURIs is how many bytes of URIs are kept of one session. What is beyond is lost
// with its replica.
const maxStoredURIs = 64 << 10

// WatchFact returns the name of the fact of a subscription.
func WatchFact(uri string) string {
	digest := sha256.Sum256([]byte(uri))
	return factWatch + hex.EncodeToString(digest[:16])
}

// keepsLocked tells whether the entry has room for one more subscription.
func (l *Session) keepsLocked(uri string) bool {
	size := len(uri)
	for other, w := range l.notices.watched {
		if w.stored {
			size += len(other)
		}
	}
	return l.Shared && size <= maxStoredURIs
}

// learnWatchesLocked notes which subscriptions the session had at the replica that led it
// before.
func (l *Session) learnWatchesLocked(facts map[string]string) {
	for name, uri := range facts {
		if strings.HasPrefix(name, factWatch) && len(uri) <= exchange.MaxURI &&
			len(l.notices.lost) < exchange.MaxSubscriptions &&
			l.notices.watched[uri] == nil {
			put(&l.notices.lost, uri, false)
		}
	}
}

// BeginResubscribing returns the subscriptions that are to be made again. There are none
// if somebody else is about to. end notes that the caller makes none any more.
func (l *Session) BeginResubscribing() (lost []string, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isLostLocked() {
		return nil, func() {} // the end of another is not this caller's to note
	}
	l.notices.resubscribing = true
	return slices.Collect(maps.Keys(l.notices.lost)), l.endResubscribing
}

func (l *Session) endResubscribing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices.resubscribing = false
}

// Lost tells whether a subscription is still to be made again: the client may have ended
// it meanwhile, or another replica leads the session. tried tells whether that was tried.
func (l *Session) Lost(uri string) (tried, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tried, lost = l.notices.lost[uri]
	return tried, lost
}

// Resubscribed notes that it was tried to make a subscription again, which is to be tried
// once more if again is true. One that the client has made or ended meanwhile is not.
func (l *Session) Resubscribed(uri string, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, lost := l.notices.lost[uri]; lost && again && l.notices.watched[uri] == nil {
		l.notices.lost[uri] = true
		return
	}
	delete(l.notices.lost, uri)
}

// IsLost tells whether subscriptions are to be made again.
func (l *Session) IsLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isLostLocked()
}

func (l *Session) isLostLocked() bool {
	return l.leader.Here && len(l.notices.lost) > 0 && !l.notices.resubscribing && !l.life.isOver()
}

// DropWatch ends the subscription to a resource, and forgets its changes.
func (l *Session) DropWatch(uri string) {
	l.mu.Lock()
	w := l.notices.watched[uri]
	delete(l.notices.watched, uri)
	delete(l.notices.lost, uri)
	l.notices.updates.Forget(l.memory(), uri, l.watchOfLocked)
	l.mu.Unlock()
	if w != nil {
		w.stop()
		l.MarkUsed()
	}
}

// watchOfLocked returns the URI of a subscription to a resource, or to one that it is a
// part of, "" if there is none. A change was told by each of them, and is remembered
// once.
func (l *Session) watchOfLocked(changed string) string {
	for uri := range l.notices.watched {
		if registry.Covers(uri, changed) {
			return uri
		}
	}
	return ""
}

// Revoked is a subscription that the caller of its session may not have any more.
type Revoked struct {
	Session *Session
	URI     string
	watch   *Subscription
}

// IsWatched tells whether the session is subscribed to a resource, or about to be, and
// whether the entry is to say so.
func (l *Session) IsWatched(uri string) (watched, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.notices.watched[uri]
	return w != nil, w != nil && w.stored
}
