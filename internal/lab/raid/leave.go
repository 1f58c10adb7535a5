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
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// abortedAnswers asks for large answers and leaves in the middle of them.
func abortedAnswers() Attack {
	return Attack{
		Name: "aborted answers", Does: "16 raiders ask for 15 MB, read 64 KB of it and reset the connection",
		Raiders: 16,
		Begin: func(r *Raider) func(context.Context) error {
			text := r.call("big", `{}`).Bytes()
			return func(ctx context.Context) error {
				w, err := r.dial(ctx)
				if err != nil {
					return err
				}
				defer w.Close()
				answer, err := w.Begin(text)
				if err != nil {
					return err
				}
				r.attempts.Add(1)
				r.count(answer)
				w.Allow(client.Patience)
				_, err = io.CopyN(io.Discard, w.In, 64<<10)
				if errors.Is(err, io.EOF) {
					return nil // it was refused
				}
				return err
			}
		},
		Bites: anyReply,
	}
}

// resumedAnswers leaves streamed answers at their first event and resumes them again and
// again.
func resumedAnswers() Attack {
	return Attack{
		Name:    "resumed answers",
		Does:    "16 raiders in sessions leave streams of 1 MB at the first event, and resume each 8 times",
		Raiders: 16,
		Begin: func(r *Raider) func(context.Context) error {
			var session, event string
			resumed := 0
			return func(ctx context.Context) (err error) {
				if session == "" {
					session, err = r.openSession(ctx)
					return err
				}
				q := r.inSession("some", session)
				if event != "" {
					q = client.Request{
						Addr: q.Addr, Method: http.MethodGet, Token: q.Token,
						Revision: mcp.LatestLegacy, Session: session, LastEvent: event,
						Accept: "text/event-stream",
					}
				}
				answer, last, err := r.firstEvent(ctx, q)
				if err != nil {
					return err
				}
				if resumed++; event == "" || resumed == 8 || refused(answer) {
					event, resumed = last, 0
				}
				if answer.Status == http.StatusNotFound {
					session = "" // the session or its event has ended
				}
				return nil
			}
		},
		Bites: anyReply,
	}
}

// firstEvent sends a request on a connection of its own, reads the answer until an event
// with an id comes, and leaves. The id is empty if none came.
func (r *Raider) firstEvent(ctx context.Context, q client.Request) (answer *client.Answer, id string,
	err error,
) {
	w, err := r.dial(ctx)
	if err != nil {
		return nil, "", err
	}
	defer w.Close()
	r.attempts.Add(1)
	answer, err = w.Begin(q.Bytes())
	if err != nil {
		return nil, "", err
	}
	r.count(answer)
	if refused(answer) {
		return answer, "", nil
	}
	_ = w.SetReadDeadline(time.Now().Add(time.Second)) // a connection that is closed fails below
	for {
		line, err := w.In.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return answer, "", nil // a stream without more to say is left like any other
		}
		if found, ok := strings.CutPrefix(string(line), "id:"); ok {
			return answer, strings.TrimSpace(found), nil
		}
	}
}
