package crowd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// watch is a stream on which a client is told of changes. In 2026-07-28 it is so as long
// as the stream is open; in sessions a client that resumes the stream is told of what it
// missed:
//
//	change ─▶ owed ─┬─▶ told on the stream ─▶ told
//	                ├─▶ stream ends, is resumed ─▶ still owed
//	                ├─▶ stream ends, cannot be resumed; session gone ─▶ forgiven
//	                └─▶ the client's patience with an open stream ends ─▶ lost
type watch struct {
	uris  []string // that the client has subscribed to: of each server one, unless it was refused
	own   []string // that nobody else has subscribed to; uris are of these
	lists bool     // it wants to know of changed lists of tools too
	heard chan *mcp.Message
	last  string // id of the last event; it may be read when the stream has ended
	retry time.Duration
	over  bool      // the stream ended with its result; as last
	ended time.Time // when the gateway ended the stream in good order; as last

	owed *owed // the change that the client waits for; nil: none
	// ids of all events with a message that came; nil: they are not looked at. As last
	seen map[string]bool
	// an event of this connection had no id, so what followed cannot be resumed; as last
	unnumbered bool
}

// owed is a change of which a client is to be told.
type owed struct {
	*deed

	method, uri string // of the notification; uri is "" for a list
	resumed     int    // how often the stream was resumed since
}

// forgive forgets the change that a client was not told of before its stream ended,
// unless the stream can be resumed.
func (w *watch) forgive(resumable bool) {
	if !resumable || w.last == "" || w.unnumbered {
		w.owed = nil
	}
}

// watched is how many messages wait for a client that makes a call meanwhile.
const watched = 1024

// things returns URIs of resources that no other client knows, as the gateway exposes
// them: one of each server.
func (p *person) things() []string {
	name := fmt.Sprintf("%016x", p.dice.Uint64())
	return []string{exposed(Modern) + Modern + "://thing/" + name, exposed(Legacy) + Legacy + "://thing/" +
		name}
}

// exposed is what the gateway puts before the URIs of a server.
func exposed(server string) string { return "mcp." + server + "+" }

// read reads a stream to its end, and passes on what it tells of changes.
func (p *person) read(w *watch, response *reply) {
	defer close(w.heard)
	for e, err := range events(response) {
		if err != nil {
			p.garbled(err)
			return // broken, as streams are
		}
		if e.HasID {
			w.last = e.ID
		}
		if e.Retry > 0 {
			w.retry = e.Retry
		}
		m := e.message
		if m != nil {
			p.identify(w, e)
		}
		switch {
		case m == nil:
		case m.Method == "":
			w.over = true
			if m.Err != nil {
				p.failed(m.Err)
			}
		case m.Method == mcp.NotifyResourceUpdated && !slices.Contains(w.own, m.Params.Text("uri")):
			p.ledger.Misdelivered(p.tenant + " " + p.kind + " heard of " + m.Params.Text("uri"))
		default:
			select {
			case w.heard <- m:
			default: // it has changes enough to go on with
			}
		}
	}
	w.ended = time.Now()
	p.crowd.goodbyes.Add(1)
	if p.kind == "2026 listen" && !w.over {
		p.crowd.meets("a subscription ended without its result")
	}
}

// identify looks at the id of an event with a message. No two events of a session have
// the same one, so one that comes again was sent again, although the client said which
// event was its last.
func (p *person) identify(w *watch, e event) {
	switch {
	case w.seen == nil:
	case !e.HasID:
		w.unnumbered = true
	case w.seen[e.ID]:
		p.ledger.Repeated(p.kind + " of " + p.tenant + ", event " + e.ID)
		p.trouble("an event came twice")
	default:
		w.seen[e.ID] = true
	}
}

// caller is how a client makes a call and lists tools, in its revision.
type caller interface {
	call(ctx context.Context, d *deed)
	list(ctx context.Context) (tools mcp.Object, ok bool)
	ended() bool // the session has, so that nothing more is told and listed in it
}

// change changes something and waits until the stream tells of that. It returns false
// when the stream ended before; then the change is owed still.
func (p *person) change(w *watch, by caller) (open bool) {
	for range len(w.heard) { // what came before is not of this change
		<-w.heard
	}
	ctx, cancel := p.patient()
	defer cancel()
	server := p.server()
	o := &owed{method: mcp.NotifyToolsChanged}
	what := ""
	if !w.lists || p.dice.IntN(8) != 0 {
		at := slices.IndexFunc(w.uris, func(uri string) bool { return strings.HasPrefix(uri, exposed(server)) })
		if at < 0 {
			p.comeLater(5 * soon) // the server could not be subscribed to
			return true
		}
		o.method, o.uri = mcp.NotifyResourceUpdated, w.uris[at]
		what = `,"uri":"` + strings.TrimPrefix(o.uri, exposed(server)) + `"`
	}
	o.deed = p.intend(server, "change", what, ledger.Question{})
	if by.call(ctx, o.deed); o.version < 0 {
		return true
	}
	w.owed = o
	return p.await(w, by)
}

// await waits until a stream has told of the change that is owed. It returns false when
// the stream ended before.
func (p *person) await(w *watch, by caller) (open bool) {
	// From the change on, or from when the stream was resumed.
	limited, cancel := context.WithTimeout(p.crowd.life, p.crowd.config.ChangePatience)
	defer cancel()
	o := w.owed
	for {
		select {
		case m, open := <-w.heard:
			if !open {
				return false
			}
			if m.Method != o.method || o.uri != "" && m.Params.Text("uri") != o.uri {
				continue
			}
			if o.uri == "" && !p.lists(limited, o.deed, by) {
				if by.ended() {
					return false
				}
				continue // which will find the end of its patience
			}
			p.ledger.Told()
			p.crowd.changes.Add(1)
			if o.uri != "" {
				p.crowd.answers[p.kind+", changes of "+o.server()].Add(1)
			}
			w.owed = nil
			return true
		case <-limited.Done():
			if p.crowd.life.Err() == nil {
				p.ledger.Untold(
					fmt.Sprintf("%s of %s, %s %s, version %d by call %s, stream resumed %d times since",
						p.kind, p.tenant, o.method, o.uri, o.version, o.nonce, o.resumed))
			}
			w.owed = nil
			return true
		}
	}
}

// lists lists tools until the list has the version that a change made. It may take a
// little, since the answer may be another replica's than the one that told of the change.
func (p *person) lists(ctx context.Context, d *deed, by caller) bool {
	name := d.tool[:len(d.tool)-len("change")] + "touch"
	for {
		if result, ok := by.list(ctx); ok {
			tools, _ := result.Value("tools").Elements()
			for _, tool := range tools {
				if tool.Member("name").Says(name) {
					text, _ := tool.Member("description").Text()
					if version(text) >= d.version {
						return true
					}
				}
			}
		}
		if by.ended() || !world.Pause(ctx, 100*time.Millisecond) {
			return false
		}
	}
}
