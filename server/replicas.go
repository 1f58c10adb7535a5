package server

import (
	"context"
	"crypto/sha256"
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// wordHead is how many bytes of word say which session it is about, and whose that is.
const wordHead = keySize + sha256.Size

// hear has the server take word of the other replicas.
func (s *Server) hear() {
	others := s.config.Others
	others.Handle(kindEnded, s.hearEnd)
	others.Handle(kindCancel, s.hearCancel)
	others.Handle(kindLevel, s.hearLevel)
	if s.config.Shared {
		others.OnReturn(s.sessions.doubt)
	}
}

// word returns word about the session. It is for replicas to tell each other what the owner of the session asked for: who
// makes it has checked that.
func (l *live) word(kind string, rest ...byte) replica.Word {
	owner := l.owner()
	data := make([]byte, 0, wordHead+len(rest))
	data = append(append(append(data, l.key[:]...), owner[:]...), rest...)
	return replica.Word{Kind: kind, Tenant: l.user.TenantID, Data: data}
}

// owner returns the digest of whose session it is.
func (l *live) owner() [sha256.Size]byte {
	p := l.lastPrincipal()
	return p.Owner().Digest()
}

// readWord takes word about a session apart.
func readWord(w replica.Word) (key sessionKey, owner [sha256.Size]byte, rest []byte, ok bool) {
	if len(w.Data) < wordHead {
		return key, owner, nil, false
	}
	copy(key[:], w.Data)
	copy(owner[:], w.Data[keySize:])
	return key, owner, w.Data[wordHead:], true
}

// meant returns the session that word is about, nil if this replica does not have it, or if it is not that owner's.
func (s *Server) meant(w replica.Word) (l *live, rest []byte) {
	key, owner, rest, ok := readWord(w)
	if !ok {
		return nil, nil
	}
	l = s.sessions.roster.find(key)
	if l == nil || !l.shared || l.user.TenantID != w.Tenant || l.owner() != owner {
		return nil, nil
	}
	return l, rest
}

// hearEnd ends a session that was ended at another replica.
func (s *Server) hearEnd(_ context.Context, _ replica.ID, w replica.Word) {
	key, _, _, ok := readWord(w)
	if !ok {
		return
	}
	s.sessions.heardEnd(w.Tenant, key)
	if l, _ := s.meant(w); l != nil {
		s.sessions.drop(l, endClosed)
	}
}

// cancelElsewhere cancels a job of the session that may be running on another replica, and returns when the others have
// heard of it: from then on the client may use the id of the request again. It costs the client a token for requests, as
// every message does, and the others a look into a map.
func (s *Server) cancelElsewhere(ctx context.Context, l *live, id mcp.ID) {
	if err := s.config.Others.Tell(ctx, l.word(kindCancel, []byte(id)...)); err != nil {
		s.log.DebugContext(ctx, "cancellation not told", slog.Any("error", err)) // the answer is that to all cancellations: they may come too late
	}
}

// hearCancel cancels a job, if it runs here.
func (s *Server) hearCancel(_ context.Context, _ replica.ID, w replica.Word) {
	if l, id := s.meant(w); l != nil {
		l.cancel(mcp.ID(id))
	}
}

// hearLevel sets which log messages the client wants.
func (s *Server) hearLevel(_ context.Context, _ replica.ID, w replica.Word) {
	if l, name := s.meant(w); l != nil {
		l.learn(map[string]string{factLevel: string(name)})
	}
}
