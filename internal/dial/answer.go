package dial

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// maxAnswer is the longest body, in bytes, that is allocated on the word of a server.
const maxAnswer = 1 << 20

// statusOK begins the response to which parseAnswer says yes.
const statusOK = "HTTP/1.1 200 "

// parseAnswer reads the header at the beginning of data if it is that of a usual answer:
// a complete one, with the status 200, with a body of JSON of one known length that is
// neither empty nor longer than maxAnswer, and with nothing else that says how to read
// that or whether the connection is kept. header is its size in bytes, and keepAlive the
// value of its field Keep-Alive. Where ok is true, http.ReadResponse reads the same;
// where it is false, the header may be good or bad, and http.ReadResponse decides.
// https://www.rfc-editor.org/rfc/rfc9112#section-6.3
func parseAnswer(data []byte) (header, length int, keepAlive []byte, ok bool) {
	line, at := nextLine(data, 0)
	if at == 0 || !bytes.HasPrefix(line, []byte(statusOK)) {
		return 0, 0, nil, false
	}
	json, persistent := false, false
	for {
		if line, at = nextLine(data, at); at == 0 {
			return 0, 0, nil, false
		}
		if len(line) == 0 {
			return at, length, keepAlive, json && length > 0
		}
		name, value, valid := cutField(line)
		if !valid {
			return 0, 0, nil, false
		}
		switch {
		case is(name, "content-length"):
			if length > 0 {
				return 0, 0, nil, false
			}
			length = parseLength(value)
			valid = length > 0
		case is(name, "content-type"):
			valid = !json && isJSON(value)
			json = true
		case is(name, "connection"):
			valid = !persistent && is(value, "keep-alive")
			persistent = true
		case is(name, "keep-alive"):
			valid = keepAlive == nil
			keepAlive = value
		case is(name, "transfer-encoding"), is(name, "content-encoding"), is(name, "trailer"),
			is(name, "upgrade"):
			valid = false
		}
		if !valid {
			return 0, 0, nil, false
		}
	}
}

// nextLine returns the line that begins at an offset, without its end, and the offset of
// the next one. That is zero if the line is not complete, or has a character that no line
// of a header may have.
func nextLine(data []byte, from int) (line []byte, next int) {
	end := bytes.IndexByte(data[from:], '\n')
	if end < 1 || data[from+end-1] != '\r' {
		return nil, 0
	}
	line = data[from : from+end-1]
	for _, c := range line {
		if c < ' ' && c != '\t' || c >= 0x7F {
			return nil, 0
		}
	}
	return line, from + end + 1
}

// cutField splits a line of a header. valid is false if its name is no token, as where a
// space stands before the colon, or where the line continues the one before.
func cutField(line []byte) (name, value []byte, valid bool) {
	name, value, found := bytes.Cut(line, []byte(":"))
	return name, bytes.Trim(value, " \t"), found && isToken(string(name))
}

// is tells whether a text of a header, which is of ASCII, is the one in small letters.
func is(text []byte, small string) bool {
	return len(text) == len(small) && strings.EqualFold(string(text), small)
}

// isJSON tells whether the type of a body is that of JSON, in one of its usual spellings.
func isJSON(value []byte) bool {
	return is(value, "application/json") || is(value, "application/json; charset=utf-8") ||
		is(value, "application/json;charset=utf-8")
}

// parseLength returns the length of a body that is written as a plain number, and zero
// for one that is none, or empty, or longer than maxAnswer.
func parseLength(value []byte) int {
	length, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil || length > maxAnswer {
		return 0
	}
	return int(length)
}

// Memory says whether there is memory for an answer.
type Memory interface {
	// Hold is called before an answer of that many bytes is allocated. After an error it
	// is not read.
	Hold(bytes int) error
}

// readAnswer reads the body of an answer, of which the first bytes have come with its
// header, in memory of its own. It reads nothing behind it.
func (c *conn) readAnswer(length int) (body []byte, err error) {
	body = make([]byte, length)
	n := copy(body, c.first)
	c.first = c.first[n:]
	if _, err = io.ReadFull(c.Conn, body[n:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return body, nil
}
