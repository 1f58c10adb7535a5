package crowd

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// word is what a refusal says.
type word struct {
	status int
	code   string        // data.code, or the status where a load balancer speaks
	later  time.Duration // when to come again; zero: not said
	made   bool          // the request may have taken effect
	broken bool          // nobody who knows has spoken: a load balancer lost its connection
}

// maxWait is the longest that a client of the crowd waits before it comes again, whatever
// it is told, so that much is asked while things are broken.
const maxWait = 2 * time.Second

// heard reads a refusal with an HTTP status other than 200 and 202, closes it, and counts
// it as trouble.
func (p *person) heard(r *reply) word {
	w := p.refusalOf(r)
	p.crowd.tally.trouble(p.kind + ": " + w.code)
	return w
}

func (p *person) refusalOf(r *reply) word {
	defer func() { _ = r.body.Close() }()                 // it is of no more use
	body, _ := io.ReadAll(io.LimitReader(r.body, 64<<10)) // what there is must do
	w := word{status: r.status, code: "status " + strconv.Itoa(r.status)}
	if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil {
		w.later = time.Duration(seconds) * time.Second
	}
	if m, err := mcp.Decode(body); err == nil && m.Err != nil {
		w = wordOf(m.Err, w)
	} else {
		w.broken = r.status == http.StatusBadGateway || r.status == http.StatusGatewayTimeout
	}
	if r.status == http.StatusUnauthorized {
		w.later = max(w.later, 100*time.Millisecond)
	}
	if w.later > 0 {
		p.crowd.deeds.postponed.Add(1)
		w.later = min(w.later, maxWait)
	}
	return w
}

// wordOf reads an error. Whether the request may have been made is what
// docs/reference/codes.md says: a status of 429 or 503, or a time after which to come
// again, mean that it was not; some codes mean that it was, or may have been; all others
// that it was not.
func wordOf(e *mcp.Error, w word) word {
	data, _ := mcp.ObjectOf(e.Data)
	if code := data.Text("code"); code != "" {
		w.code = code
	}
	ms, timed := data.Value("retryAfterMs").Int()
	if timed {
		w.later = max(w.later, time.Duration(ms)*time.Millisecond)
	}
	if timed || w.status == http.StatusTooManyRequests || w.status == http.StatusServiceUnavailable {
		return w
	}
	switch w.code {
	case "DB-UPSTREAM-LOST", "DB-REPLICA-LOST", "DB-REPLICA-GONE", "DB-TIMEOUT", "DB-CANCELLED", "DB-STOPPED",
		"DB-AUDIT", "DB-IDEMPOTENCY-OUTCOME",
		"DB-STATE", "DB-INPUT", "DB-UPSTREAM-PROTOCOL", "DB-UPSTREAM-ERROR", "DB-IDEMPOTENCY-ANSWER",
		"DB-EVENT":
		w.made = true
	}
	w.made = w.made || strings.HasPrefix(w.code, "DB-OUTPUT-")
	return w
}

// refused enters a refusal of a call, and returns how long to wait before the next one.
func (p *person) refused(n ledger.Nonce, w word) time.Duration {
	if w.broken {
		p.ledger.Broken(n, w.code)
	} else {
		p.ledger.Refused(n, w.code, w.made)
	}
	return w.later
}

// told enters what a message on the stream of a call says of it: an event, the answer or
// an error. over tells whether that was the last word on the call.
func (p *person) told(d *deed, m *mcp.Message) (over bool, later time.Duration) {
	switch {
	case m.Method == mcp.NotifyProgress:
		number, _ := m.Params.Value("progress").Int()
		p.ledger.Event(d.nonce, ledger.ParseNonce(m.Params.Text("message")), int(number))
		return false, 0
	case m.Method != "":
		return false, 0 // nothing that this client counts
	case m.Err != nil:
		w := wordOf(m.Err, word{})
		// whose calls end when their client cancels them, be it with an error
		if !strings.HasSuffix(d.tool, "__stay") {
			p.crowd.tally.trouble(p.kind + ": " + w.code)
		}
		return true, p.refused(d.nonce, w)
	}
	p.answered(d, m.Result)
	return true, 0
}

// answered enters a result.
func (p *person) answered(d *deed, result mcp.Object) {
	text := textAt(result, 0)
	if string(result.Value("isError")) == "true" {
		p.ledger.Refused(d.nonce, "tool error: "+text[:min(len(text), 40)], true)
		return
	}
	d.version = version(textAt(result, 1))
	p.crowd.answers[p.kind].Add(1)
	p.ledger.Answered(d.nonce, answerOf(text))
}

// ofQuestion returns the call that a question of the tool ask belongs to, by its own
// words.
func ofQuestion(text string) ledger.Nonce {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	return ledger.ParseNonce(fields[1])
}

// answerOf reads what a tool of upstream.Server answers. A text of any other form is an
// answer that says nothing.
func answerOf(text string) (a ledger.Answer) {
	fields := strings.Fields(text)
	if len(fields) != 6 || fields[0] != "serial" || fields[2] != "nonce" || fields[4] != "tenant" {
		return a
	}
	serial, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return a
	}
	return ledger.Answer{Nonce: ledger.ParseNonce(fields[3]), Serial: serial, Tenant: fields[5]}
}

// textAt returns the text of a block of a result, "" if there is none.
func textAt(result mcp.Object, i int) string {
	blocks, _ := result.Value("content").Elements()
	if i >= len(blocks) {
		return ""
	}
	text, _ := blocks[i].Member("text").Text()
	return text
}

// version reads 5 out of a text with "version 5", and -1 out of one without.
func version(text string) int {
	_, after, found := strings.Cut(text, "version ")
	if !found {
		return -1
	}
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(after[:end])
	if err != nil {
		return -1
	}
	return n
}
