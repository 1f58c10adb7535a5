package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// observed counts the messages that go to other replicas and come from them. It changes
// nothing of it.
type observed struct {
	replica.Others

	metrics *metrics.Metrics
}

// observe returns others whose messages are counted. It is called before they run.
func observe(others replica.Others, m *metrics.Metrics) *observed {
	var joined atomic.Bool
	others.OnReturn(func() {
		if joined.Swap(true) { // the first time nothing was missed
			m.MessagesMissed()
		}
	})
	return &observed{others, m}
}

// Send implements replica.Others.
func (o *observed) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	answer, err := o.Others.Send(ctx, to, w)
	o.metrics.MessageSent(w.Kind, sendOutcome(err))
	return answer, err
}

// Forward implements replica.Others.
func (o *observed) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	answer, err := o.Others.Forward(ctx, to, r)
	o.metrics.MessageSent("forward", sendOutcome(err))
	return answer, err
}

// Handle implements replica.Others.
func (o *observed) Handle(kind string, h replica.Handler) {
	o.Others.Handle(kind, func(ctx context.Context, from replica.ID, w replica.Message) ([]byte, error) {
		o.metrics.MessageReceived(kind)
		return h(ctx, from, w)
	})
}

func sendOutcome(err error) string {
	switch {
	case err == nil:
		return "sent"
	case errors.Is(err, replica.ErrGone):
		return "gone"
	default:
		return "failed"
	}
}
