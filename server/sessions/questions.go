package sessions

// Expect has the session take the answer to a question. It is false if the session has
// ended.
func (l *Session) Expect(q *Question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.isOver() {
		return false
	}
	put(&l.asked, q.ID, q)
	return true
}

// Unexpect takes a question out. It is false if it was not in: it has been answered, or
// was never asked.
func (l *Session) Unexpect(q *Question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.asked[q.ID]
	delete(l.asked, q.ID)
	return waits
}

// Take gives an answer to the question of that id, if it waits: the first answer counts.
// The error is one of package share, if the user has no memory for the answer; then the
// question waits on.
func (l *Session) Take(id string, message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.asked[id]
	if q == nil {
		return nil
	}
	if err := q.Memory.Resize(q.Memory.Size() + int64(len(message))); err != nil {
		return err
	}
	delete(l.asked, id)
	q.Answer = message
	close(q.Done)
	return nil
}
