package main

import (
	"context"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
)

// logins takes access keys beside tokens. The form of the text alone says which of the
// two it is, so that a token is never looked for among keys.
type logins struct {
	tokens *verifiers
	keys   *accesskey.Keys // nil: nothing is kept, and so none are taken
}

func (l logins) verify(ctx context.Context, text string) (auth.Principal, error) {
	if l.keys != nil && strings.HasPrefix(text, accesskey.Prefix) {
		return l.keys.Verify(ctx, text)
	}
	return l.tokens.verify(ctx, text)
}

func (l logins) recheck(p auth.Principal) error {
	if l.keys != nil && p.AccessKey() != "" {
		return l.keys.Recheck(p)
	}
	return l.tokens.recheck(p)
}
