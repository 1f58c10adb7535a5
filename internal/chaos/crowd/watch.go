package crowd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// watch is a stream on which a client is told of changes, as long as the stream is open.
type watch struct {
	uris  []string // that the client has subscribed to: of each server one, unless it was refused
	own   []string // that nobody else has subscribed to; uris are of these
	lists bool     // it wants to know of changed lists of tools too
	heard chan *mcp.Message
	last  string // id of the last event; it may be read when the stream has ended
	retry time.Duration
	over  bool      // the stream ended with its result; as last
	ended time.Time // when the gateway ended the stream in good order; as last
}

// watched is how many messages wait for a client that makes a call meanwhile.
const watched = 1024

// things returns URIs of resources that no other client knows, as the gateway exposes them: one of each server.
func (p *person) things() []string {
	name := fmt.Sprintf("%016x", p.dice.Uint64())
	return []string{exposed(Modern) + Modern + "://thing/" + name, exposed(Legacy) + Legacy + "://thing/" + name}
}

// exposed is what the gateway puts before the URIs of a server.
func exposed(server string) string { return "mcp." + server + "+" }

// read reads a stream to its end, and passes on what it tells of changes.
func (p *person) read(w *watch, response *reply) {
	defer close(w.heard)
	for e, err := range events(response) {
		if err != nil {
			return // broken, as streams are
		}
		if e.HasID {
			w.last = e.ID
		}
		if e.Retry > 0 {
			w.retry = e.Retry
		}
		m := e.message
		switch {
		case m == nil:
		case m.Method == "":
			w.over = true
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
	p.crowd.tally.goodbyes.Add(1)
	if p.kind == "2026 listen" && !w.over {
		p.crowd.tally.trouble("a subscription ended without its result")
	}
}

// caller is how a client makes a call and lists tools, in its revision.
type caller struct {
	call func(ctx context.Context, d *deed) time.Duration
	list func(ctx context.Context) (tools mcp.Object, ok bool)
	gone func() bool // the session has ended, so that nothing more is told and listed in it
}

// change changes something and waits until the stream tells of that. It returns false when the stream ended before.
func (p *person) change(w *watch, by caller) (open bool, later time.Duration) {
	for drained := false; !drained; {
		select {
		case _, open := <-w.heard:
			if !open {
				return false, 0
			}
		default:
			drained = true
		}
	}
	ctx, cancel := p.patient()
	defer cancel()
	server := p.server()
	if w.lists && p.dice.IntN(8) == 0 {
		d := p.intend(server, "change", "", ledger.Question{})
		if later := by.call(ctx, d); d.version < 0 {
			return true, later
		}
		return p.await(w, d, mcp.NotifyToolsChanged, "", by), 0
	}
	at := slices.IndexFunc(w.uris, func(uri string) bool { return strings.HasPrefix(uri, exposed(server)) })
	if at < 0 {
		return true, maxWait // the server could not be subscribed to
	}
	d := p.intend(server, "change", `,"uri":"`+strings.TrimPrefix(w.uris[at], exposed(server))+`"`, ledger.Question{})
	if later := by.call(ctx, d); d.version < 0 {
		return true, later
	}
	return p.await(w, d, mcp.NotifyResourceUpdated, w.uris[at], by), 0
}

// await waits until a stream has told of a change. It returns false when the stream ended before.
func (p *person) await(w *watch, d *deed, method, uri string, by caller) (open bool) {
	limited, cancel := context.WithTimeout(p.crowd.life, p.crowd.config.ChangePatience) // from the change on
	defer cancel()
	for {
		select {
		case m, open := <-w.heard:
			if !open {
				return false
			}
			if m.Method != method || uri != "" && m.Params.Text("uri") != uri {
				continue
			}
			if uri == "" && !p.lists(limited, d, by) {
				if by.gone() {
					return false
				}
				continue // which will find the end of its patience
			}
			p.ledger.Told()
			p.crowd.deeds.changes.Add(1)
			return true
		case <-limited.Done():
			if p.crowd.life.Err() == nil {
				p.ledger.Untold(fmt.Sprintf("%s of %s, %s %s, version %d by call %s", p.kind, p.tenant, method, uri, d.version, d.nonce))
			}
			return true
		}
	}
}

// lists lists tools until the list has the version that a change made. It may take a little, since the answer may be
// another replica's than the one that told of the change.
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
		if by.gone() || !rest(ctx, 100*time.Millisecond) {
			return false
		}
	}
}
