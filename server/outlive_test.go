package server_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// follow opens a stream and reads all of it. What it returns is closed at its end and
// then holds what came.
func (w *world) follow(t *testing.T, m message) <-chan string {
	t.Helper()
	lines, ended := bufio.NewReader(w.pipe(t, m)), make(chan string, 1)
	go func() {
		defer close(ended)
		resp, err := http.ReadResponse(lines, nil)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		var all strings.Builder
		for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
			all.WriteString(scanner.Text() + "\n")
		}
		ended <- all.String()
	}()
	return ended
}

// TestChangeIsToldAfterABrokenStream lets the lists change while the connection of a GET
// is stuck: the client hears of it once on its next one, be that a fresh GET or one that
// resumes.
func TestChangeIsToldAfterABrokenStream(t *testing.T) {
	for name, last := range map[string]string{"fresh": "", "resumed": "g1-0"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				id := w.open(t, "alice", mcp.Revision2511)
				stuck := w.pipe(t, inSession("GET", id, ""))
				resp, err := http.ReadResponse(bufio.NewReader(stuck), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				for scanner := bufio.NewScanner(resp.Body); scanner.Scan() && scanner.Text() != ""; {
					continue // the priming event
				}
				synctest.Wait()
				w.offer(t, "extra")
				<-time.After(11 * time.Second) // longer than a write may take
				count := func(m message, want int) {
					t.Helper()
					ended := w.follow(t, m) // until the token expires
					if got := <-ended; strings.Count(got, mcp.NotifyToolsChanged) != want {
						t.Errorf("got %d notices, want %d:\n%s", strings.Count(got, mcp.NotifyToolsChanged),
							want, got)
					}
				}
				count(inSession("GET", id, "").with(mcp.HeaderLastEventID, last).as("brief"), 1)
				count(inSession("GET", id, ""), 0)
			})
		})
	}
}
