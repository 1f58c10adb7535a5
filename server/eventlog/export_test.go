package eventlog

import "context"

// Sessions returns of how many sessions something is in the memory of this process.
func (l *Redis) Sessions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions)
}

// Renew does at once what Run does now and then.
func (l *Redis) Renew(ctx context.Context) { l.renewAll(ctx) }
