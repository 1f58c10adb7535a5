package replica

import "slices"

// replays notices word that comes a second time. Whoever can write to the server can put a sealed word there again, and a
// call that one replica has passed to another would run twice. So each word has a number of its sender, and of each sender
// it is remembered which numbers have come. Only the goroutine that reads the mailbox uses it.
type replays struct {
	senders map[ID]*heardOf
}

// overtake is by how many others a word may be overtaken on its way. One that comes later still counts as come before. A
// sender numbers its word just before it goes to the server, so a few goroutines are between the two, and never so many.
const overtake = 1 << 16

// heardOf is what has come from one sender.
type heardOf struct {
	newest uint64
	bits   []uint64 // of the last overtake numbers, which of them have come; nil: all have
}

func newReplays() *replays { return &replays{make(map[ID]*heardOf)} }

// isNew tells whether no word of that sender has come with that number, and remembers it. isThere tells which senders
// live: of others nothing is kept but the newest number, so that restarts of others cost next to nothing here.
func (r *replays) isNew(from ID, number uint64, isThere func(ID) bool) bool {
	h := r.senders[from]
	if h == nil {
		for id, other := range r.senders {
			if !isThere(id) {
				other.bits = nil
			}
		}
		h = new(heardOf)
		r.senders[from] = h
	}
	return h.isNew(number)
}

func (h *heardOf) isNew(number uint64) bool {
	switch {
	case number > h.newest:
		h.advance(number)
	case h.bits == nil, h.newest-number >= overtake, h.bits[number%overtake/64]&(1<<(number%64)) != 0:
		return false
	}
	h.bits[number%overtake/64] |= 1 << (number % 64)
	return true
}

// advance makes room for the numbers up to a new one, of which none has come.
func (h *heardOf) advance(newest uint64) {
	if h.bits == nil {
		h.bits = slices.Repeat([]uint64{^uint64(0)}, overtake/64)
	}
	for n := max(h.newest+1, newest-min(newest, overtake-1)); n <= newest; n++ {
		h.bits[n%overtake/64] &^= 1 << (n % 64)
	}
	h.newest = newest
}
