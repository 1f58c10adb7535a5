package main

import (
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// readyAfter is how long a server that does not answer may keep the gateway from being ready.
const readyAfter = 10 * time.Second

// status is how the process is, for the operator's page. It is safe for concurrent use.
type status struct {
	parts   *parts
	start   time.Time
	ready   atomic.Bool // once ready, a server added later does not take it back
	drain   atomic.Bool
	refused atomic.Pointer[string]   // why the newest config was refused
	restart atomic.Pointer[[]string] // what differs and only a restart changes
}

func newStatus(p *parts) *status {
	s := &status{parts: p, start: time.Now()}
	s.setRefused("")
	s.setRestart(nil)
	return s
}

func (s *status) setRefused(reason string)  { s.refused.Store(&reason) }
func (s *status) setRestart(names []string) { s.restart.Store(&names) }

// view is what /readyz shows.
func (s *status) view() admin.View {
	if !s.ready.Load() && (s.parts.fleet.tried() || time.Since(s.start) > readyAfter) {
		s.ready.Store(true)
	}
	view := admin.View{Ready: s.ready.Load() && !s.drain.Load(), Draining: s.drain.Load(), Servers: s.parts.fleet.loadsForView()}
	if reason := *s.refused.Load(); reason != "" {
		view.Warnings = append(view.Warnings, "the newest config is refused and the one before it is in force: "+reason)
	}
	for _, name := range *s.restart.Load() {
		view.Warnings = append(view.Warnings, "restart to change "+name)
	}
	s.judgeAudit(&view)
	view.Warnings = append(view.Warnings, s.parts.fleet.warnings()...)
	view.Warnings = append(view.Warnings, s.parts.gateway.Warnings()...)
	return view
}

// judgeAudit says what it means that audit records cannot be written: a gateway that refuses every call is not ready.
func (s *status) judgeAudit(view *admin.View) {
	problem := s.parts.audit.Problem()
	switch {
	case problem == nil:
	case s.parts.started.Audit.Drop:
		view.Warnings = append(view.Warnings, "audit records cannot be written; calls go on, and records beyond 4096 are lost: "+problem.Error())
	default:
		view.Problems = append(view.Problems, "audit records cannot be written, so calls are refused: "+problem.Error())
	}
}
