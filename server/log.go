package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// maxLogged is how many bytes of a text that a client chose go into the log at most.
const maxLogged = 128

// logHandler adds to each record which request it belongs to.
type logHandler struct{ slog.Handler }

// LogHandler returns a handler that adds request_id and tenant, as far as the context
// knows them, and passes records on to next. A handler that does so already is returned
// as it is.
func LogHandler(next slog.Handler) slog.Handler {
	if _, ok := next.(logHandler); ok {
		return next
	}
	return logHandler{next}
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if x := exchangeIn(ctx); x != nil {
		var identity [2]slog.Attr
		record.AddAttrs(x.appendIdentity(identity[:0])...)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}

// logged writes one line for each request, or sums up those of a caller that is refused again and again, and counts the
// request. When the request is over it gives back what that held.
func (s *service) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.logRequest(of(w), r)
		next.ServeHTTP(w, r)
	})
}

func (s *service) logRequest(x *exchange, r *http.Request) {
	x.release()
	if x.taken {
		return // logStream does it when the stream ends
	}
	now := time.Now()
	if !x.forwarded { // it is counted where the client is
		s.metrics.Request(s.config.RouteOf(r), r.Method, x.status, eraName(x.era), now.Sub(x.started))
	}
	if s.hasOwnLine(x) {
		s.logLine(x.context(), now, x, r.Method, r.URL.Path)
	}
}

// appendRefusal appends for the log why a token was refused, in more detail than its
// bearer is told.
func appendRefusal(line []slog.Attr, refused *auth.Error) []slog.Attr {
	if refused == nil {
		return line
	}
	line = append(line, slog.String("reason", refused.Reason))
	if refused.Err != nil {
		line = append(line, slog.String("detail", cut(refused.Err.Error())))
	}
	if refused.Claim != "" {
		line = append(line, slog.String("claim", refused.Claim),
			slog.String("found", harmless(refused.Found)),
			slog.Any("expected", refused.Expected))
	}
	if refused.Issuer != "" {
		line = append(line, slog.String("issuer", refused.Issuer))
	} else if refused.Claimed != "" {
		line = append(line, slog.String("claimed_issuer", harmless(refused.Claimed)))
	}
	return line
}

func eraName(era mcp.Era) string {
	switch era {
	case mcp.Legacy:
		return "legacy"
	case mcp.Modern:
		return "modern"
	}
	return ""
}

// legible makes a name fit for a log, in any script but without what is not seen.
func legible(name string) string {
	return strings.Map(func(c rune) rune {
		if strictjson.Hidden(c) {
			return '?'
		}
		return c
	}, name)
}

// harmless makes a text that anybody may have written fit for a log that somebody reads:
// short and of visible ASCII.
func harmless(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, cut(text))
}

// cut returns at most the first maxLogged bytes of a text that a client chose.
func cut(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged]
	}
	return text
}
