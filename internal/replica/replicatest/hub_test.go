package replicatest

import (
	"errors"
	"net/http"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
)

// TestWhatIsCutIsNotAnswered cuts what is forwarded before it is answered: no answer
// comes, however soon after that it is given.
func TestWhatIsCutIsNotAnswered(t *testing.T) {
	t.Parallel()
	var hub Hub
	a, b := hub.Join(), hub.Join()
	asked, answer := make(chan struct{}), make(chan struct{})
	b.ServeClients(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusOK)
	}))
	for range 2000 {
		got := make(chan error, 1)
		go func() {
			response, err := a.Forward(t.Context(), b.Self(), link.Request{Method: http.MethodPost, Target: "/"})
			if err == nil {
				response.Body.Close()
			}
			got <- err
		}()
		<-asked
		hub.Cut(b)()
		answer <- struct{}{}
		if err := <-got; !errors.Is(err, link.ErrLost) {
			t.Fatalf("got %v, want that it is lost", err)
		}
	}
}
