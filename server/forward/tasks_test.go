package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// oneAnswerOthers are others that answer everything with one body.
type oneAnswerOthers struct {
	replica.Others

	body string
}

func (o oneAnswerOthers) Forward(context.Context, replica.ID, link.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(o.body)),
		Header: http.Header{"Content-Length": {strconv.Itoa(len(o.body))}},
	}, nil
}

func (oneAnswerOthers) IsThere(replica.ID) bool { return true }

// TestTasksOfOtherReplicasAreHeld reads the tasks of another replica: the user holds what
// comes, and what the user may not hold is not read on.
func TestTasksOfOtherReplicasAreHeld(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"` + strings.Repeat("x", 1<<20) + `"}]}}`
	f := &Forwarder{others: oneAnswerOthers{body: body}}
	user := share.User{TenantID: "acme", Subject: "ann"}
	memory := share.New(64 << 20)
	held := memory.Reserve(user)
	tasks, err := f.tasksAt(t.Context(), "other", link.Request{}, held)
	if err != nil || len(tasks) != 1 || memory.InUse() < 1<<20 {
		t.Errorf("got %d tasks, %v, and %d bytes are held; want one task, held", len(tasks), err, memory.InUse())
	}
	held.Release()
	if left := memory.InUse(); left != 0 {
		t.Errorf("%d bytes are held afterwards", left)
	}
	if _, err := f.tasksAt(t.Context(), "other", link.Request{}, share.New(256<<10).Reserve(user)); err == nil {
		t.Error("a list was read that its user may not hold")
	}
	f.others = oneAnswerOthers{body: strings.Repeat(" ", maxTaskList) + body}
	if _, err := f.tasksAt(t.Context(), "other", link.Request{}, memory.Reserve(user)); err == nil {
		t.Error("a list was read that is larger than one may be")
	}
}

// slow are others that answer when they are let.
type slow struct {
	oneAnswerOthers

	asked, let chan struct{}
}

func (o slow) All() []replica.ID { return []replica.ID{"other"} }

func (o slow) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	o.asked <- struct{}{}
	<-o.let
	return o.oneAnswerOthers.Forward(ctx, to, r)
}

// TestListsOfTasksTakeSlots asks others for tasks while all slots are taken.
func TestListsOfTasksTakeSlots(t *testing.T) {
	o := slow{
		oneAnswerOthers{body: `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"x"}]}}`},
		make(chan struct{}, 1), make(chan struct{}),
	}
	f := &Forwarder{others: o, slots: share.New(1)}
	user := share.User{TenantID: "acme", Subject: "ann"}
	reserved := share.New(64 << 20).Reserve(user)
	first := make(chan error, 1)
	go func() {
		tasks, err := f.tasksElsewhere(t.Context(), user, link.Request{}, reserved)
		if err == nil && (len(tasks) != 1 || string(tasks[0]) != `{"taskId":"x"}`) {
			err = fmt.Errorf("got %s", tasks)
		}
		first <- err
	}()
	<-o.asked
	if _, err := f.tasksElsewhere(t.Context(), user, link.Request{}, reserved); !errors.Is(err, errNoSlot) {
		t.Errorf("while all slots are taken: got %v, want %v", err, errNoSlot)
	}
	close(o.let)
	if err := <-first; err != nil {
		t.Errorf("with a slot: %v", err)
	}
	if f.slots.InUse() != 0 {
		t.Errorf("%d slots are held afterwards", f.slots.InUse())
	}
}
