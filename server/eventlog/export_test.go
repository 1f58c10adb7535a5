package eventlog

import "context"

// Sessions returns of how many sessions something is in the memory of this process.
func (l *Redis) Sessions() int {
	l.local.mu.Lock()
	defer l.local.mu.Unlock()
	return len(l.local.sessions)
}

// Renew does at once what Run does now and then.
func (l *Redis) Renew(ctx context.Context) { l.renewAll(ctx) }
