package server

import "encoding/binary"

// Kinds of word that the front doors of replicas send each other. Each names the form of its text, too, and a replica that
// does not know a kind drops the word. What may be overlooked may be added at the end of a text. Any other form is another
// kind, and comes in two rollouts, as that of a ticket does (see ticketVersion): the first knows both kinds and sends the old
// one, the second sends the new one.
const (
	kindStream  = "stream 1"  // a connection of the sender gets a stream, on which the client may be told of changes
	kindSilent  = "silent 1"  // the sender tells the client of a session no more
	kindAsk     = "teller 1"  // who tells the client of a session?
	kindUpdated = "updated 1" // resources that a session has subscribed to have changed, for who tells its client
	kindWatch   = "watch 1"   // a session has subscribed to a resource at the sender, or has unsubscribed
	kindKnown   = "known 1"   // what the client of a session was told of lists, and its subscriptions at the sender

	// What live.word makes begins with wordHead, and then comes:
	kindEnded  = "session ended 1"  // nothing
	kindCancel = "session cancel 1" // the id of the request
	kindLevel  = "session level 1"  // the name of the level
)

// packed joins the parts of a word. The lengths stand before the parts, so that none passes for another.
func packed(parts ...[]byte) []byte {
	size := 0
	for _, part := range parts {
		size += binary.MaxVarintLen64 + len(part)
	}
	word := make([]byte, 0, size)
	for _, part := range parts {
		word = binary.AppendUvarint(word, uint64(len(part)))
		word = append(word, part...)
	}
	return word
}

// unpacked takes a word apart that packed has joined. It is false for a text that has fewer parts. What has more is word of
// a later version, which adds only what may be overlooked. The parts are not copied.
func unpacked(word []byte, parts int) ([][]byte, bool) {
	found := make([][]byte, 0, parts)
	for len(word) > 0 {
		size, n := binary.Uvarint(word)
		if n <= 0 || size > uint64(len(word[n:])) {
			return nil, false
		}
		word = word[n:]
		found, word = append(found, word[:size]), word[size:]
	}
	return found, len(found) >= parts
}
