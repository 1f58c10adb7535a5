// Package seal makes tokens that only this gateway can read: session ids, cursors, requestState. AES-256-GCM under a
// ring of keys, newest first. It knows nothing of what a token holds or how long it is good.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// MaxLength is the longest token, in bytes of its text form.
const MaxLength = 512

// MaxPlain is the longest text that fits a token, in bytes.
const MaxPlain = MaxLength/4*3 - overhead

// MaxLong is the longest text that SealLong takes, in bytes.
const MaxLong = 65 << 10

// KeySize is the length of a key in bytes.
const KeySize = 32

// ErrInvalid is the one error for a token that is malformed, forged, sealed for another purpose or under an unknown
// key.
var ErrInvalid = errors.New("invalid token")

// A token is, in unpadded URL-safe base64, the header (a version byte and the key's id), the nonce, and the ciphertext
// with its tag. Header and purpose are authenticated with it. Nonces are random: a key is good for 2^32 tokens.
const (
	version    = 1
	idSize     = 3
	headerSize = 1 + idSize
	nonceSize  = 12
	tagSize    = 16
	overhead   = headerSize + nonceSize + tagSize
)

// Ring seals and opens. It is safe for concurrent use.
type Ring struct {
	keys []key
}

type key struct {
	header [headerSize]byte
	aead   cipher.AEAD
}

// NewRing returns a ring of 32-byte keys, newest first: the first seals, all open.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("a key ring needs a key")
	}
	ring := &Ring{}
	for i, secret := range keys {
		k, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		ring.keys = append(ring.keys, k)
	}
	return ring, nil
}

// RandomRing returns a ring of one fresh key.
func RandomRing() *Ring {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // never returns an error
	k, err := newKey(secret)
	if err != nil {
		panic(err) // the size is right
	}
	return &Ring{keys: []key{k}}
}

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
	k := key{header: [headerSize]byte{version}, aead: aead}
	copy(k.header[1:], sum[:])
	return k, nil
}

// ParseKeys reads a key file: one base64 (standard alphabet, 32 bytes) key per line, newest first; blank lines and
// lines that begin with # are skipped. Errors name the line and nothing of what is in it.
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

// scratch holds what one Seal or Open needs besides its output. A long token outgrows its arrays.
type scratch struct {
	text   [MaxLength]byte
	token  [MaxLength]byte // decoded
	bound  []byte          // what is authenticated beside the text
	buffer [128]byte       // first room for bound
}

var scratches = sync.Pool{New: func() any {
	s := &scratch{}
	s.bound = s.buffer[:0]
	return s
}}

// Seal returns plain as a URL-safe token of visible ASCII, bound to purpose. plain over MaxPlain is an error.
func (r *Ring) Seal(purpose string, plain []byte) (string, error) {
	return r.seal(purpose, plain, MaxPlain)
}

// SealLong is Seal for text up to MaxLong, whose token is no longer an id. A purpose uses the one or the other.
func (r *Ring) SealLong(purpose string, plain []byte) (string, error) {
	return r.seal(purpose, plain, MaxLong)
}

func (r *Ring) seal(purpose string, plain []byte, limit int) (string, error) {
	if len(plain) > limit {
		return "", fmt.Errorf("%d bytes to seal, the limit is %d", len(plain), limit)
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	k := &r.keys[0]
	token := append(s.token[:0], k.header[:]...)
	token = token[:headerSize+nonceSize]
	nonce := token[headerSize:]
	_, _ = rand.Read(nonce) // never returns an error
	token = k.aead.Seal(token, nonce, plain, s.bind(k, purpose))
	return string(base64.RawURLEncoding.AppendEncode(s.text[:0], token)), nil
}

// Open returns what was sealed for the same purpose. The error is ErrInvalid.
func (r *Ring) Open(purpose, token string) ([]byte, error) {
	return r.open(purpose, token, MaxLength)
}

// OpenLong is Open for what SealLong returned.
func (r *Ring) OpenLong(purpose, token string) ([]byte, error) {
	return r.open(purpose, token, base64.RawURLEncoding.EncodedLen(MaxLong+overhead))
}

func (r *Ring) open(purpose, token string, limit int) ([]byte, error) {
	if len(token) > limit || strings.ContainsAny(token, "\r\n") { // the decoder skips line breaks
		return nil, ErrInvalid
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	raw, err := base64.RawURLEncoding.Strict().AppendDecode(s.token[:0], append(s.text[:0], token...))
	if err != nil || len(raw) < overhead {
		return nil, ErrInvalid
	}
	nonce, sealed := raw[headerSize:headerSize+nonceSize], raw[headerSize+nonceSize:]
	for i := range r.keys {
		k := &r.keys[i]
		if [headerSize]byte(raw) != k.header {
			continue
		}
		plain, err := k.aead.Open(make([]byte, 0, len(sealed)-tagSize), nonce, sealed, s.bind(k, purpose))
		if err == nil {
			return plain, nil
		}
	}
	return nil, ErrInvalid
}

// bind returns what is authenticated beside the text: the header and the purpose.
func (s *scratch) bind(k *key, purpose string) []byte {
	s.bound = append(append(s.bound[:0], k.header[:]...), purpose...)
	return s.bound
}
