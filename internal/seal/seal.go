// Package seal makes tokens that only this gateway can read: session ids, cursors,
// requestState. A client carries such a token for the gateway and brings it back, so that
// the gateway, or another replica with the same keys, need not remember what is in it.
// Who carries a token can neither read it nor change it, nor use it for another purpose
// than it was made for. This package does not know what a token holds, whose it is or how
// long it is good; its callers put that into the text or the purpose and check it.
//
// Tokens are encrypted and authenticated with AES-256-GCM under a ring of keys, newest
// first. So keys can be rotated while the gateway runs: the newest seals, and older ones
// still open what they sealed until they are taken out of the ring. Where several
// replicas share keys, each must be able to open what any of them seals, at every moment:
//
//	            seals  opens            seals  opens           seals  opens            seals  opens
//	before       old    old    1. add    old   old, new  2. turn new   new, old  3. end   new    new
//
// A step begins when all replicas have taken the one before it.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxLength is the longest token that Seal makes and Open takes, in bytes. It keeps
// tokens short enough for HTTP headers, in which session ids travel. These say, too, what
// clients have declared of extensions, for which mcp.ExtensionTable has a bound.
const MaxLength = 1024

// MaxPlain is the longest text that Seal takes, in bytes: what fits a token of MaxLength.
const MaxPlain = MaxLength/4*3 - overhead

// MaxLong is the longest text that SealLong takes, in bytes: JSON with a text of 64 KiB,
// of which each byte may take six, and with a KiB besides.
const MaxLong = 6*64<<10 + 1<<10

// KeySize is the length of a key in bytes, that of AES-256.
const KeySize = 32

// ErrInvalid is the one error for a token that is malformed, forged, sealed for another
// purpose or under a key that is not in the ring. It does not say which: only somebody
// who tries out tokens would gain by that.
var ErrInvalid = errors.New("invalid token")

// A token is this, in URL-safe base64 without padding; sizes are in bytes:
//
//	version 1 │ key id 3 │ nonce 12 │ ciphertext, as long as the text │ tag 16
//
// The first two are the header. They and the purpose are not encrypted but authenticated
// with the rest, so a token opens only under the same ones; the purpose is not part of
// the token. The key id says which key of the ring to try. It is short, and two keys may
// share one: then both are tried.
//
// Nonces are random. With the same key, a nonce that comes twice would give away both
// texts, so a key should seal no more than 2^32 tokens: NIST SP 800-38D section 8.3.
const (
	version    = 1
	idSize     = 3
	headerSize = 1 + idSize
	nonceSize  = 12
	tagSize    = 16
	overhead   = headerSize + nonceSize + tagSize
)

// Ring seals and opens tokens. It is safe for concurrent use, also while Adopt changes
// its keys.
type Ring struct {
	keys    atomic.Pointer[[]key] // newest first, at least one; replaced whole
	adopted atomic.Uint64         // how often Adopt was called
}

// key is a secret made ready for use, with the header of the tokens that it seals.
type key struct {
	header [headerSize]byte
	aead   cipher.AEAD
	root   []byte // of secrets that are derived from the key; tells nothing of it
}

// NewRing returns a ring of keys of KeySize bytes, newest first: the first seals, all
// open. Errors name the place of a key and say nothing of what is in it.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("a key ring needs a key")
	}
	ready := make([]key, 0, len(keys))
	for i, secret := range keys {
		k, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		ready = append(ready, k)
	}
	return ringOf(ready), nil
}

func ringOf(keys []key) *Ring {
	ring := &Ring{}
	ring.keys.Store(&keys)
	return ring
}

// RandomRing returns a ring of one fresh key that nobody else has. What it seals is worth
// nothing after a restart and at other replicas.
func RandomRing() *Ring {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // crypto/rand never returns an error, it ends the program instead
	k, err := newKey(secret)
	if err != nil {
		panic(err) // the size is right
	}
	return ringOf([]key{k})
}

// Adopt gives the ring the keys of another one in place of its own, at once and for good.
// A Seal or Open that is under way uses either all of the old keys or all of the new
// ones. What a key has sealed that is gone does not open any more.
func (r *Ring) Adopt(next *Ring) {
	r.keys.Store(next.keys.Load())
	r.adopted.Add(1)
}

// Adopted returns how often the ring has taken other keys. Whoever keeps what Derive
// returned compares it: the number read before Derive belongs to those secrets or to
// older ones.
func (r *Ring) Adopted() uint64 { return r.adopted.Load() }

// Derive returns a secret of KeySize bytes for each key, newest first: the same at every
// replica, another for each purpose, and of no use to find the key or what is derived for
// other purposes. It is for secrets that must follow the keys of the ring, such as those
// that sign: a signature by the first is known wherever the rest of the ring is.
func (r *Ring) Derive(purpose string) [][]byte {
	keys := *r.keys.Load()
	secrets := make([][]byte, len(keys))
	for i := range keys {
		secret, err := hkdf.Expand(sha256.New, keys[i].root, purpose, KeySize)
		if err != nil {
			panic(err) // the length is allowed
		}
		secrets[i] = secret
	}
	return secrets
}

// IDs returns the ids of the keys, newest first, each of six hexadecimal digits. An id
// stands at the beginning of every token of its key and tells nothing of it, so it may be
// shown: operators see by it which keys a replica has.
func (r *Ring) IDs() []string {
	keys := *r.keys.Load()
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = hex.EncodeToString(keys[i].header[1:])
	}
	return ids
}

// newKey makes a secret ready for use. The id of the key is the beginning of a hash, so
// it is the same at every replica and tells nothing of the key.
func newKey(secret []byte) (key, error) {
	if len(secret) != KeySize {
		return key{}, fmt.Errorf("%d bytes, want %d", len(secret), KeySize)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(append([]byte("drawbridge key id\x00"), secret...))
	root, err := hkdf.Extract(sha256.New, secret, []byte("drawbridge derived keys"))
	if err != nil {
		return key{}, err
	}
	k := key{header: [headerSize]byte{version}, aead: aead, root: root}
	copy(k.header[1:], sum[:])
	return k, nil
}

// ParseKeys reads a key file: one key a line, newest first, each KeySize bytes in base64
// with the standard alphabet and padding. Blank lines and lines that begin with # are
// skipped. Errors name the line and say nothing of what is in it.
func ParseKeys(data []byte) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret, err := base64.StdEncoding.Strict().DecodeString(string(line))
		if err != nil || len(secret) != KeySize {
			return nil, fmt.Errorf("line %d: a key is the base64 text of %d bytes", number, KeySize)
		}
		for _, earlier := range keys {
			if bytes.Equal(earlier, secret) {
				return nil, fmt.Errorf("line %d: the same key twice", number)
			}
		}
		keys = append(keys, secret)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in the file")
	}
	return keys, nil
}

// scratch is the memory for one Seal or Open, except for what it returns. A token of
// SealLong does not fit the arrays and gets memory of its own.
type scratch struct {
	text   [MaxLength]byte // of the token, in base64
	token  [MaxLength]byte // the same decoded
	bound  []byte          // what is authenticated beside the text, see bind
	buffer [128]byte       // where bound begins; a long purpose moves it elsewhere
}

var scratches = sync.Pool{New: func() any {
	s := &scratch{}
	s.bound = s.buffer[:0]
	return s
}}

// Seal returns plain as a token of visible ASCII that is safe in URLs and headers. Open
// returns plain again for the same purpose only. Each Seal of the same text gives another
// token. The error says that plain is over MaxPlain.
func (r *Ring) Seal(purpose string, plain []byte) (string, error) {
	return r.seal(purpose, plain, MaxPlain)
}

// SealLong is Seal for text up to MaxLong. What it seals only OpenLong opens, since the
// token may be longer than Open takes. So each purpose uses either the short or the long
// functions.
func (r *Ring) SealLong(purpose string, plain []byte) (string, error) {
	return r.seal(purpose, plain, MaxLong)
}

// newest returns the key that seals.
func (r *Ring) newest() *key { return &(*r.keys.Load())[0] }

// seal seals text of at most limit bytes.
func (r *Ring) seal(purpose string, plain []byte, limit int) (string, error) {
	if len(plain) > limit {
		return "", fmt.Errorf("%d bytes to seal, the limit is %d", len(plain), limit)
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	token := s.appendToken(s.token[:0], r.newest(), purpose, plain)
	return string(base64.RawURLEncoding.AppendEncode(s.text[:0], token)), nil
}

// appendToken appends the token of a text to dst, which is empty and has room for a
// header and a nonce.
func (s *scratch) appendToken(dst []byte, k *key, purpose string, plain []byte) []byte {
	dst = append(dst, k.header[:]...)[:headerSize+nonceSize]
	nonce := dst[headerSize:]
	_, _ = rand.Read(nonce) // see RandomRing
	return k.aead.Seal(dst, nonce, plain, s.bind(k, purpose))
}

// Open returns the text that Seal was given for the same purpose. The token may come from
// anyone. The error is ErrInvalid.
func (r *Ring) Open(purpose, token string) ([]byte, error) {
	return r.AppendOpen(nil, purpose, token)
}

// AppendOpen is Open for whoever has room for the text: it appends the text to dst.
func (r *Ring) AppendOpen(dst []byte, purpose, token string) ([]byte, error) {
	return r.open(dst, purpose, token, MaxLength)
}

// OpenLong is Open for what SealLong returned.
func (r *Ring) OpenLong(purpose, token string) ([]byte, error) {
	return r.open(nil, purpose, token, base64.RawURLEncoding.EncodedLen(MaxLong+overhead))
}

// open opens a token of at most limit bytes and appends its text to dst. Longer ones are
// refused before any work is done for them.
func (r *Ring) open(dst []byte, purpose, token string, limit int) ([]byte, error) {
	// The decoder skips line breaks and would so accept several spellings of one token.
	if len(token) > limit || strings.ContainsAny(token, "\r\n") {
		return nil, ErrInvalid
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	raw, err := base64.RawURLEncoding.Strict().AppendDecode(s.token[:0], append(s.text[:0], token...))
	if err != nil {
		return nil, ErrInvalid
	}
	return s.openToken(dst, *r.keys.Load(), purpose, raw)
}

// openToken appends the text of a token to dst, if one of the keys has sealed it.
func (s *scratch) openToken(dst []byte, keys []key, purpose string, token []byte) ([]byte, error) {
	if len(token) < overhead {
		return nil, ErrInvalid
	}
	nonce, sealed := token[headerSize:headerSize+nonceSize], token[headerSize+nonceSize:]
	for i := range keys {
		k := &keys[i]
		if [headerSize]byte(token) != k.header {
			continue
		}
		if plain, err := k.aead.Open(dst, nonce, sealed, s.bind(k, purpose)); err == nil {
			return plain, nil
		}
	}
	return nil, ErrInvalid
}

// SealBytes is Seal for whoever needs no text: it returns the token as bytes, and takes
// any length. Only OpenBytes opens it.
func (r *Ring) SealBytes(purpose string, plain []byte) []byte {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	token := make([]byte, 0, overhead+len(plain))
	return s.appendToken(token, r.newest(), bytesPurpose+purpose, plain)
}

// OpenBytes returns the bytes that SealBytes was given for the same purpose. token may
// come from anyone. The error is ErrInvalid.
func (r *Ring) OpenBytes(purpose string, token []byte) ([]byte, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	return s.openToken(nil, *r.keys.Load(), bytesPurpose+purpose, token)
}

// bytesPurpose stands before the purpose of what SealBytes seals, so that it never passes
// for a token of Seal.
const bytesPurpose = "bytes\x00"

// bind returns what is authenticated beside the text: the header and the purpose. The
// header has a fixed size, so no two purposes give the same bytes. They are valid until
// the next bind.
func (s *scratch) bind(k *key, purpose string) []byte {
	s.bound = append(append(s.bound[:0], k.header[:]...), purpose...)
	return s.bound
}
