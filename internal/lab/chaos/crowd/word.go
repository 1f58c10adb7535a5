package crowd

import (
	"fmt"
	"io"
	"net/http"
	"slices"
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
// it as trouble. In a session, 404 says that there is no such session.
func (p *person) heard(r *reply) word {
	w := p.refusalOf(r)
	p.crowd.meets(p.kind + ": " + w.code)
	if s := r.session; s != nil && w.status == http.StatusNotFound && !s.gone.Swap(true) {
		s.crowd.reconnects.Add(1)
	}
	p.comeLater(w.later)
	return w
}

// lostEvent is the code of a stream that cannot be resumed.
const lostEvent = "DB-EVENT"

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
	w.later = min(w.later, maxWait)
	return w
}

// madeCodes are those of requests that were made, or may have been.
var madeCodes = []string{
	"DB-UPSTREAM-LOST", "DB-REPLICA-LOST", "DB-REPLICA-GONE", "DB-TIMEOUT", "DB-CANCELLED", "DB-STOPPED", "DB-AUDIT",
	"DB-IDEMPOTENCY-OUTCOME", "DB-STATE", "DB-INPUT", "DB-UPSTREAM-PROTOCOL", "DB-UPSTREAM-ERROR",
	"DB-IDEMPOTENCY-ANSWER", lostEvent,
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
	w.made = w.made || slices.Contains(madeCodes, w.code) || strings.HasPrefix(w.code, "DB-OUTPUT-")
	return w
}

// refused enters a refusal of a call, and keeps it.
func (d *deed) refused(w word) {
	d.said = w
	d.enter(w)
}

func (d *deed) enter(w word) {
	d.by.comeLater(w.later)
	if w.broken {
		d.by.ledger.Broken(d.nonce, w.code)
	} else {
		d.by.ledger.Refused(d.nonce, w.code, w.made)
	}
}

// told enters what a message on the stream of a call says of it: an event, the answer or
// an error. over tells whether that was the last word on the request.
func (d *deed) told(m *mcp.Message) (over bool) {
	switch p := d.by; {
	case m.Method == mcp.NotifyProgress:
		number, _ := m.Params.Value("progress").Int()
		p.ledger.Event(d.nonce, ledger.ParseNonce(m.Params.Text("message")), int(number))
		return false
	case m.Method != "":
		return false // nothing that this client counts
	case m.Err != nil:
		w := wordOf(m.Err, word{})
		// whose calls end when their client cancels them, be it with an error
		if !d.stays() {
			p.crowd.meets(p.kind + ": " + w.code)
		}
		d.refused(w)
	case m.Result.Text("resultType") == "input_required":
		d.question = m.Result
	default:
		d.answered(m.Result)
	}
	return true
}

// answered enters a result.
func (d *deed) answered(result mcp.Object) {
	text := textAt(result, 0)
	if string(result.Value("isError")) == "true" {
		d.by.ledger.Refused(d.nonce, "tool error: "+text[:min(len(text), 40)], true)
		return
	}
	d.version = version(textAt(result, 1))
	d.by.crowd.answers[d.by.kind+", "+d.server()].Add(1)
	d.by.ledger.Answered(d.nonce, answerOf(text))
}

// ofQuestion returns the call that a question of the tool ask belongs to, by its own
// words.
func ofQuestion(text string) ledger.Nonce {
	var nonce string
	_, _ = fmt.Sscanf(text, "Shall %s", &nonce) // or it names none
	return ledger.ParseNonce(nonce)
}

// answerOf reads what a tool of upstream.Server answers. A text of any other form is an
// answer that says nothing.
func answerOf(text string) (a ledger.Answer) {
	var nonce string
	if n, _ := fmt.Sscanf(text, "serial %d nonce %s tenant %s", &a.Serial, &nonce, &a.Tenant); n < 3 {
		return ledger.Answer{}
	}
	a.Nonce = ledger.ParseNonce(nonce)
	return a
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
	_, after, _ := strings.Cut(text, "version ")
	n := -1
	_, _ = fmt.Sscanf(after, "%d", &n) // or it has none
	return n
}
