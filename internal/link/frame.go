package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
)

// What goes over a connection, one exchange after the other:
//
//	request: head, body          answer: head, pieces of the body as they come, an empty piece
//
// Each of these is a frame: its length in four bytes, most significant first, and then
// that many bytes. A head is texts, which are frames themselves: some that have their
// place, and then the names and values of headers.

const (
	lengthSize = 4 // bytes
	// bytes of a head: 36 KiB of a client, each header of which takes four at least there
	// and up to nine here, and what is added
	maxHead = 96 << 10
)

// protocol names this form of what is said, and is agreed on by both ends while they
// connect.
const protocol = "drawbridge-link/2"

// errForm says that the other side has sent something else than a frame of the kind that
// is due.
var errForm = errors.New("the other replica speaks in another form")

// appendText appends a text of a head.
func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) //nolint:gosec // far shorter
}

// appendHead appends a head.
func appendHead(b []byte, header http.Header, placed ...string) []byte {
	at := len(b)
	b = append(b, make([]byte, lengthSize)...)
	for _, text := range placed {
		b = appendText(b, text)
	}
	for name, values := range header {
		for _, value := range values {
			b = appendText(appendText(b, name), value)
		}
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-lengthSize)) //nolint:gosec // far shorter
	return b
}

// readLength reads the length of a frame.
func readLength(in *bufio.Reader) (int, error) {
	b, err := in.Peek(lengthSize)
	if err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(b)
	if length > math.MaxInt32 {
		return 0, errForm
	}
	_, err = in.Discard(lengthSize)
	return int(length), err
}

// readHead reads a head. All texts are parts of one piece of memory, and the values of
// headers that come once of another.
func readHead(in *bufio.Reader, placed ...*string) (http.Header, error) {
	head, err := readTexts(in)
	if err != nil {
		return nil, err
	}
	texts, err := allTexts(head)
	if err != nil || len(texts) < len(placed) || (len(texts)-len(placed))%2 != 0 {
		return nil, errForm
	}
	for i, into := range placed {
		*into = texts[i]
	}
	pairs := texts[len(placed):]
	header := make(http.Header, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		if name := pair[0]; header[name] == nil {
			header[name] = pair[1:]
		} else {
			header[name] = append(header[name], pair[1])
		}
	}
	return header, nil
}

// readTexts reads the texts of a head, one behind the other.
func readTexts(in *bufio.Reader) (string, error) {
	length, err := readLength(in)
	if err != nil {
		return "", err
	}
	if length > maxHead {
		return "", fmt.Errorf("%w: a head of %d bytes", errForm, length)
	}
	var texts strings.Builder
	texts.Grow(length)
	for texts.Len() < length {
		if _, err = in.Peek(1); errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", fmt.Errorf("%w: a head ended after %d bytes of %d: %w", errForm, texts.Len(), length,
				err)
		}
		came, _ := in.Peek(min(in.Buffered(), length-texts.Len())) // which has come
		texts.Write(came)
		_, _ = in.Discard(len(came)) // likewise
	}
	return texts.String(), nil
}

// usualTexts is how many texts a head has at most, as a rule.
const usualTexts = 32

// allTexts returns the texts that stand one behind the other.
func allTexts(s string) ([]string, error) {
	all := make([]string, 0, usualTexts)
	for s != "" {
		text, rest, ok := cutText(s)
		if !ok {
			return nil, errForm
		}
		all, s = append(all, text), rest
	}
	return all, nil
}

// cutText takes one text off a head.
func cutText(s string) (text, rest string, ok bool) {
	if len(s) < lengthSize {
		return "", "", false
	}
	length := int(s[0])<<24 | int(s[1])<<16 | int(s[2])<<8 | int(s[3])
	if s = s[lengthSize:]; length > len(s) {
		return "", "", false
	}
	return s[:length], s[length:], true
}
