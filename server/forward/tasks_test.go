package forward

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// talkative are others that answer everything with one body.
type talkative struct {
	replica.Others

	body string
}

func (o talkative) Forward(context.Context, replica.ID, link.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(o.body))}, nil
}

func (talkative) IsThere(replica.ID) bool { return true }

// TestTasksOfOtherReplicasAreHeld reads the tasks of another replica: the user holds what
// comes, and what the user may not hold is not read on.
func TestTasksOfOtherReplicasAreHeld(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"` + strings.Repeat("x", 1<<20) + `"}]}}`
	f := &Forwarder{others: talkative{body: body}}
	user := share.User{TenantID: "acme", Subject: "ann"}
	memory := share.New(64 << 20)
	held := memory.Claim(user)
	tasks, err := f.tasksAt(t.Context(), "other", link.Request{}, held)
	if err != nil || len(tasks) != 1 || memory.Held() < 1<<20 {
		t.Errorf("got %d tasks, %v, and %d bytes are held; want one task, held", len(tasks), err, memory.Held())
	}
	held.Release()
	if left := memory.Held(); left != 0 {
		t.Errorf("%d bytes are held afterwards", left)
	}
	if _, err := f.tasksAt(t.Context(), "other", link.Request{}, share.New(256<<10).Claim(user)); err == nil {
		t.Error("a list was read that its user may not hold")
	}
}
