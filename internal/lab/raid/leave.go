package raid

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// abortedAnswers asks for large answers and leaves in the middle of them.
var abortedAnswers = Attack{
	Name: "aborted answers", Does: "16 raiders ask for 15 MB, read 64 KB of it and reset the connection",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		text := r.call("big", `{}`).Bytes()
		return func() {
			w := r.open()
			defer w.Close()
			r.counted(w.Begin(text))
			w.Allow(client.Patience)
			if _, err := io.CopyN(io.Discard, w.In, 64<<10); !errors.Is(err, io.EOF) { // it was not refused
				must.OK(err)
			}
		}
	},
	Signs: Signs{Replies: 1},
}

// resumedAnswers leaves streamed answers at their first event and resumes them again and
// again.
var resumedAnswers = Attack{
	Name:    "resumed answers",
	Does:    "16 raiders in sessions leave streams of 1 MB at the first event, and resume each 8 times",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		var session, event string
		resumed := 0
		return func() {
			if session == "" {
				session = r.openSession(mcp.LatestLegacy, "{}")
				return
			}
			q := r.inSession("some", session)
			if event != "" {
				q = client.Request{
					Addr: q.Addr, Method: http.MethodGet, Token: q.Token,
					Revision: mcp.LatestLegacy, Session: session, LastEvent: event,
					Accept: "text/event-stream",
				}
			}
			answer, last := r.firstEvent(q)
			if resumed++; event == "" || resumed == 8 || refused(answer) {
				event, resumed = last, 0
			}
			if answer.Status == http.StatusNotFound {
				session = "" // it has ended
			}
		}
	},
	Signs: Signs{Replies: 1},
}

// firstEvent sends a request on a connection of its own, reads the answer until an event
// with an id comes, and leaves. The id is empty if none came.
func (r *Raider) firstEvent(q client.Request) (answer *client.Answer, id string) {
	w := r.open()
	defer w.Close()
	answer = r.counted(w.Begin(q.Bytes()))
	_ = w.SetReadDeadline(time.Now().Add(time.Second)) // a connection that is closed fails below
	for id == "" && !refused(answer) {
		line, err := w.In.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break // a stream without more to say is left like any other
		}
		if found, ok := strings.CutPrefix(string(line), "id:"); ok {
			id = strings.TrimSpace(found)
		}
	}
	return answer, id
}
