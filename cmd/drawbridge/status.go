package main

import (
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// readyAfter is how long the gateway may stay not ready because a server has not answered. Then it is ready all the
// same, or one broken server would keep every tenant out.
const readyAfter = 10 * time.Second

// status answers how the process is, for /readyz on the operator's listener. It is safe for concurrent use: several
// requests, the goroutine of reloads and the drain use it at once.
type status struct {
	parts   *parts
	start   time.Time
	ready   atomic.Bool              // once true it stays true: a server that a reload adds does not take readiness back
	drain   atomic.Bool              // true from the beginning of the stop
	refused atomic.Pointer[string]   // why the newest config was refused; "": it was not
	restart atomic.Pointer[[]string] // names of settings that differ from what runs until a restart
}

// newStatus returns the status of parts whose other fields have been set.
func newStatus(p *parts) *status {
	s := &status{parts: p, start: time.Now()}
	s.setRefused("")
	s.setRestart(nil)
	return s
}

func (s *status) setRefused(reason string)  { s.refused.Store(&reason) }
func (s *status) setRestart(names []string) { s.restart.Store(&names) }

// view returns what /readyz shows now.
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

// judgeAudit adds what it means that audit records cannot be written. By default every call is then refused, and a
// gateway that refuses all calls is not ready. With when_full: drop the calls go on, and it is only a warning.
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
