package link

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// Paths of the listener.
const (
	messagePath = "/message"
	clientsPath = "/clients" // and then the path that the client has asked for
)

// Origin says where a forwarded request comes from.
type Origin struct {
	From       string // the replica that has forwarded it
	Remote, ID string // as in Request
	Note       string // likewise
}

type originKey struct{}

// OriginOf returns where a request comes from. It is false for one that was not
// forwarded.
func OriginOf(ctx context.Context) (Origin, bool) {
	o, ok := ctx.Value(originKey{}).(Origin)
	return o, ok
}

// WithOrigin returns a context for a request that was forwarded.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// serve answers one request of another replica.
func (l *Link) serve(w http.ResponseWriter, r *http.Request) {
	l.answering.Add(1) // first, or Leave could miss it
	defer l.answering.Add(-1)
	from, ok := l.config.Directory.Named(r.Context(), digestOf(*r.TLS))
	if !ok || l.leaving.Load() {
		w.Header().Set(headerStranger, "yes")
		w.WriteHeader(http.StatusForbidden)
		return
	}
	path, forwarded := strings.CutPrefix(r.URL.Path, clientsPath)
	switch {
	case forwarded && l.clients != nil:
		o := Origin{from, r.Header.Get(headerRemote), r.Header.Get(headerID), r.Header.Get(headerNote)}
		for _, name := range []string{headerRemote, headerID, headerNote} {
			delete(r.Header, name)
		}
		r = r.WithContext(WithOrigin(r.Context(), o))
		r.URL.Path, r.URL.RawPath = path, strings.TrimPrefix(r.URL.RawPath, clientsPath)
		r.RequestURI = strings.TrimPrefix(r.RequestURI, clientsPath)
		l.clients.ServeHTTP(w, r)
	case r.URL.Path == messagePath && r.Method == http.MethodPost:
		status, answer := l.take(r, from)
		w.WriteHeader(status)
		_, _ = w.Write(answer) //nolint:gosec // for another replica; or whoever asked is gone
	default:
		if l.config.Away != nil && l.config.Away() {
			w.Header().Set(headerAway, "yes")
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

// take has a message handled, and returns the status that says what became of it, and the
// answer.
func (l *Link) take(r *http.Request, from string) (status int, answer []byte) {
	defer l.handling.Add(-1)
	if l.handling.Add(1) > maxMessages {
		return http.StatusServiceUnavailable, nil
	}
	m := Message{Kind: r.Header.Get(headerKind), Tenant: r.Header.Get(headerTenant)}
	h := l.handlers[m.Kind]
	if h == nil {
		return http.StatusNotImplemented, nil
	}
	var err error
	if m.Data, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, maxMessage)); err != nil {
		return http.StatusBadRequest, nil
	}
	if answer, err = h(r.Context(), from, m); err != nil {
		l.config.Logger.DebugContext(r.Context(), "a message of another replica was not taken",
			slog.String("kind", m.Kind), slog.Any("error", err))
		return http.StatusServiceUnavailable, nil
	}
	return http.StatusOK, answer
}
