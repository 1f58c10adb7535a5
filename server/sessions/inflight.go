package sessions

import (
	"context"
	"maps"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// Enter adds a job. Two jobs of a session at the same time must not have the same id. A
// job whose home is not here is for who leads the session, and refused as ErrReplicas if
// another replica has taken that over since the session was found: who leads it has asked
// which jobs there are, and would not know of this one. isThere tells whether a replica
// lives: an id that the former primary had in flight is free when that is gone.
func (l *Session) Enter(j *exchange.Job, atHome bool, isThere func(replica.ID) bool) *exchange.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.leader.Here && !atHome && l.Shared:
		return exchange.ErrReplicas
	case l.life.isOver():
		return exchange.ErrSession
	case l.work.closed:
		return exchange.ErrDraining
	}
	if l.work.jobs[j.ID] != nil || l.leader.Running[j.ID] && isThere(l.leader.Former) {
		return exchange.ErrIDInUse
	}
	put(&l.work.jobs, j.ID, j)
	return nil
}

// Answered frees the id of a job, which is still in flight. A client may use it again as
// soon as it has the answer, and that may be before the job leaves.
func (l *Session) Answered(j *exchange.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work.jobs[j.ID] == j {
		delete(l.work.jobs, j.ID)
		l.work.answering++
	}
}

// EndJob takes a job out.
func (l *Session) EndJob(j *exchange.Job) {
	l.Answered(j)
	var awaited bool
	var then []func()
	l.changeUse(func() {
		if l.work.answering--; l.work.inFlight() == 0 {
			awaited, l.work.awaited = l.work.awaited, false
			then, l.work.afterJobs = l.work.afterJobs, nil
		}
	})
	if awaited {
		l.WakeStreams()
	}
	for _, one := range then {
		one()
	}
}

// HasNoJobs tells whether no job of the session is in flight. If one is, the streams are
// woken when none is any more.
func (l *Session) HasNoJobs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work.awaited = l.work.inFlight() > 0
	return !l.work.awaited
}

// AfterJobs has then called when no job of the session is in flight any more. It is true,
// and nothing is called, if none is.
func (l *Session) AfterJobs(then func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work.inFlight() == 0 {
		return true
	}
	l.work.afterJobs = append(l.work.afterJobs, then)
	return false
}

// AwaitJobs waits until no job of the session is in flight: each has been cancelled.
func (l *Session) AwaitJobs(ctx context.Context) {
	ended := make(chan struct{})
	if !l.AfterJobs(func() { close(ended) }) {
		await(ctx, ended)
	}
}

// Retire has the session take no further request.
func (l *Session) Retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work.closed = true
}

// Cancel cancels the job with that id. It is false if there is none on this instance.
func (l *Session) Cancel(id mcp.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.work.jobs[id]
	if j != nil {
		j.Life.End(exchange.ErrCancelled)
	}
	return j != nil
}

// InFlight returns the ids of the jobs in flight whose answers are not on their way yet.
func (l *Session) InFlight() []mcp.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.work.jobs))
}
