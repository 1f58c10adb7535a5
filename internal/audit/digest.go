package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// Keys are the keys of digests of arguments. Arguments are often short, such as a number,
// so that from a plain SHA-256 of them they could be guessed; without the key that is not
// possible. Each tenant has a key of its own, which follows from the first of these and
// the tenant's name: who is given the key of one tenant can verify its lines, and guess
// nothing of another's.
//
// It is safe for concurrent use. A nil *Keys makes no digests.
type Keys struct {
	secrets [][]byte // the newest first
	first   sync.Map // of *sync.Pool of hash.Hash, by tenant, for the newest
}

// NewKeys returns keys of these secrets, the newest first: it makes the digests, the
// others are for Verify. Of no secrets the result is nil. They are not copied.
func NewKeys(secrets [][]byte) *Keys {
	if len(secrets) == 0 {
		return nil
	}
	return &Keys{secrets: secrets}
}

// digestForm is what every digest begins with. The id of the key and the MAC follow, each
// in hexadecimal digits, with a colon between.
const digestForm = "hmac-sha256:"

// Digest returns the digest of a tenant's arguments for records, "" if there are none, or
// no keys. Tenants are those of the config, each of which takes a little memory.
func (k *Keys) Digest(tenant string, arguments []byte) string {
	if k == nil || arguments == nil {
		return ""
	}
	pool, known := k.first.Load(tenant)
	if !known {
		key := ofTenant(k.secrets[0], tenant)
		pool, _ = k.first.LoadOrStore(tenant, &sync.Pool{New: func() any { return newMAC(key) }})
	}
	m := pool.(*sync.Pool).Get().(*mac)
	defer pool.(*sync.Pool).Put(m)
	return m.digest(arguments)
}

// Verify tells whether a digest is that of a tenant's arguments. It is false also for
// arguments that differ in a blank. known tells whether its key is one of these.
func (k *Keys) Verify(digest, tenant string, arguments []byte) (is, known bool) {
	if k == nil {
		return false, false
	}
	for _, secret := range k.secrets {
		m := newMAC(ofTenant(secret, tenant))
		if strings.HasPrefix(digest, m.form) {
			return hmac.Equal([]byte(m.digest(arguments)), []byte(digest)), true
		}
	}
	return false, false
}

// ofTenant returns the key of a tenant.
func ofTenant(secret []byte, tenant string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("drawbridge audit arguments 1\x00" + tenant))
	return m.Sum(nil)
}

// mac makes digests with the key of one tenant.
type mac struct {
	hash.Hash

	form string // what its digests begin with
	sum  [sha256.Size]byte
}

// newMAC returns what makes digests with a key. Its id says nothing of the key.
func newMAC(key []byte) *mac {
	id := hmac.New(sha256.New, key)
	id.Write([]byte("drawbridge key id 1"))
	return &mac{Hash: hmac.New(sha256.New, key), form: digestForm + hex.EncodeToString(id.Sum(nil)[:4]) + ":"}
}

func (m *mac) digest(arguments []byte) string {
	m.Reset()
	_, _ = m.Write(arguments) // a hash never fails
	text := make([]byte, 0, len(digestForm)+len("00000000:")+2*sha256.Size)
	return string(hex.AppendEncode(append(text, m.form...), m.Sum(m.sum[:0])))
}
