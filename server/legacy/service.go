package legacy

import (
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/batch"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/sessions/directory"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// Service answers the messages of clients of the legacy era. It is safe for concurrent
// use.
type Service struct {
	config    Config
	exchanges *exchange.Service
	desk      exchange.Desk
	streams   *streams.Set
	forwarder *forward.Forwarder

	sessions   *directory.Directory
	waiting    *waiting
	alarms     streams.Alarms
	outbox     batch.Queue[replica.ID, *sessions.Session] // what others are to be told of sessions led here
	background *background

	changed chan struct{} // holds a value when replicas have come or ended
}

// Config is what a service needs. Every field is required unless its comment says
// otherwise.
type Config struct {
	Exchanges *exchange.Service
	Streams   *streams.Set
	Forwarder *forward.Forwarder
	Seal      *seal.Ring // of session ids
	Log       eventlog.Log
	Entries   primary.Store // say which replica leads each session; nil: there are no others
	Others    replica.Others
	Metrics   *metrics.Metrics
	Memory    *share.Budget // of bytes, for what is held for clients

	SessionIdle, SessionMaxAge time.Duration

	Name, Version string // of the gateway; Name may be ""
}

// ofLog returns the refusal for an error of the log, unknown for eventlog.ErrUnknown. A
// log that cannot be reached knows nothing, and no client may throw away its session for
// that.
func ofLog(err error, unknown *exchange.Refusal) *exchange.Refusal {
	switch refused := exchange.RefusalOfMemory(err); {
	case err == nil || refused != nil:
		return refused
	case errors.Is(err, eventlog.ErrUnknown):
		return unknown
	}
	return exchange.ErrReplicas
}
