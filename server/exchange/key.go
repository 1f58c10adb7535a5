package exchange

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// headerKey is the header by which a client, or a load balancer, says that it may send a
// request again, and that it is to run once. It ends here: it is never passed on.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
const headerKey = "Idempotency-Key"

// maxKey bounds the characters of a key.
const maxKey = 128

// Key is what a request with a key says besides its message.
type Key struct {
	values []string          // of the header
	body   [sha256.Size]byte // digest of the body
}

// KeyOf returns what is needed to run a message once, nil if it is no call or has no
// key. Other methods have no effect that could come twice, so that the header means
// nothing to them.
func KeyOf(r *http.Request, m *mcp.Message, body []byte) *Key {
	values := r.Header[headerKey]
	if values == nil || m.Method != mcp.MethodToolsCall || !m.IsRequest() {
		return nil
	}
	return &Key{values, sha256.Sum256(body)}
}

// Request returns the request for the store. Another owner's key is another key. The
// tenant is part of the owner, and the path cannot name another one.
func (k *Key) Request(p auth.Principal) (once.Request, *Refusal) {
	key, ok := readKey(k.values)
	if !ok {
		return once.Request{}, errKey
	}
	owner := p.Owner().Digest()
	return once.Request{
		User: share.User(p.User()),
		Name: sha256.Sum256(append(append([]byte("key 1\x00"), owner[:]...), key...)),
		Body: k.body,
	}, nil
}

// readKey reads the header: a string of structured fields or, as many clients send it,
// just visible ASCII. Both spellings of a text are the same key.
// https://www.rfc-editor.org/rfc/rfc8941#section-3.3.3
func readKey(values []string) (key string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	key = strings.Trim(values[0], " ")
	lowest := '!'
	if strings.HasPrefix(key, `"`) {
		lowest = ' '
		if key, ok = unquoted(key); !ok {
			return "", false
		}
	}
	visible := !strings.ContainsFunc(key, func(c rune) bool { return c < lowest || c > '~' })
	return key, visible && key != "" && len(key) <= maxKey
}

// unquoted returns what stands in a string of structured fields.
func unquoted(text string) (plain string, ok bool) {
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return out.String(), i == len(text)-1
		case '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
		}
		out.WriteByte(text[i])
	}
	return "", false
}
