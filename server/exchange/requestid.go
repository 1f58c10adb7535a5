package exchange

import (
	"crypto/rand"
	"sync"
)

const (
	// characters, which are 130 random bits: as many as of rand.Text
	idLength = 26
	idsMade  = 16                                 // at once
	idLetter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // 32, so that every byte gives each as often
)

// requestIDs gives out the ids of requests, which are random: a number would tell each
// client how many requests the others make. Ids are made some at a time, because each
// question to the kernel's source costs more than an id. They are no secrets. The zero
// requestIDs is ready to use; it is safe for concurrent use.
type requestIDs struct {
	mu   sync.Mutex // guards the field below
	left string     // ids that are not given out yet, one after the other
}

func (q *requestIDs) Next() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left == "" {
		q.left = freshIDs()
	}
	id := q.left[:idLength]
	q.left = q.left[idLength:]
	return id
}

func freshIDs() string {
	var text [idLength * idsMade]byte
	rand.Read(text[:]) // never fails
	for i, random := range text {
		text[i] = idLetter[random%byte(len(idLetter))]
	}
	return string(text[:])
}
