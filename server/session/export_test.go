package session

import "context"

// Renew does at once what Run does now and then.
func (l *Redis) Renew(ctx context.Context) { l.renewAll(ctx) }
