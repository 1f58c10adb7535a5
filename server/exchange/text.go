package exchange

import (
	"log/slog"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Media types.
const (
	jsonType   = "application/json"
	StreamType = "text/event-stream"
	bothTypes  = jsonType + ", " + StreamType
)

// maxLogged is how many bytes of a text that a client chose go into the log at most.
const maxLogged = 128

// appendRefusal appends for the log why a token was refused, in more detail than its
// bearer is told.
func appendRefusal(line []slog.Attr, refused *auth.Error) []slog.Attr {
	if refused == nil {
		return line
	}
	line = append(line, slog.String("reason", refused.Reason))
	if refused.Err != nil {
		line = append(line, slog.String("detail", Cut(refused.Err.Error())))
	}
	if refused.Claim != "" {
		line = append(line, slog.String("claim", refused.Claim),
			slog.String("found", legible(refused.Found)),
			slog.Any("expected", refused.Expected))
	}
	if refused.Name != "" {
		line = append(line, slog.String("name", legible(refused.Name)))
	}
	if refused.Issuer != "" {
		line = append(line, slog.String("issuer", refused.Issuer))
	} else if refused.Claimed != "" {
		line = append(line, slog.String("claimed_issuer", Harmless(refused.Claimed)))
	}
	return line
}

var eraNames = map[mcp.Era]string{mcp.Legacy: "legacy", mcp.Modern: "modern"}

// legible makes a name fit for a log, in any script but without what is not seen.
func legible(name string) string {
	return strings.Map(func(c rune) rune {
		if strictjson.Hidden(c) {
			return '?'
		}
		return c
	}, name)
}

// Harmless makes a text that anybody may have written fit for a log that somebody reads:
// short and of visible ASCII.
func Harmless(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, Cut(text))
}

// Cut returns at most the first maxLogged bytes of a text that a client chose.
func Cut(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged]
	}
	return text
}
