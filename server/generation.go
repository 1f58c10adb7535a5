package server

import (
	"crypto/sha256"
	"sync/atomic"
)

// generations answers: is what replicas share still that of the time when a session was opened? Where it was lost, the
// ends of sessions are lost with it. So a session of before is not found any more, or one that its client has ended could
// come back. It is safe for concurrent use.
type generations struct {
	ask  func() (text string, known bool) // nil: nothing is ever lost
	last atomic.Pointer[generation]       // nil: none was known yet
}

// generation is one of them.
type generation struct {
	text   string
	digest [generationSize]byte
}

// now returns the digest of the generation. If it is not known at the moment, digest is that of the one known last, and
// the zero one if none ever was. It waits for nothing.
func (g *generations) now() (digest [generationSize]byte, known bool) {
	if g.ask == nil {
		return digest, true
	}
	text, known := g.ask()
	last := g.last.Load()
	switch {
	case !known && last == nil:
		return digest, false
	case !known || last != nil && last.text == text:
		return last.digest, known
	}
	sum := sha256.Sum256([]byte("generation\x00" + text))
	copy(digest[:], sum[:])
	g.last.Store(&generation{text, digest})
	return digest, true
}

// isKnown tells whether any generation was ever known.
func (g *generations) isKnown() bool { return g.ask == nil || g.last.Load() != nil }
