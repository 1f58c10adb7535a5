package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// answerHead is what the head of an answer says about the rest.
type answerHead struct {
	status  int
	length  int // of the body, -1 if it does not say
	chunked bool
	events  bool // the body is an event stream
	closes  bool // the connection ends with the answer
	session string
}

func readAnswerHead(in *bufio.Reader) (answerHead, error) {
	h := answerHead{length: -1}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return h, fmt.Errorf("not HTTP: %.80q", line)
	}
	h.closes = line[len("HTTP/1.")] == '0'
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(":")); found {
			if err := h.read(name, bytes.TrimSpace(value)); err != nil {
				return h, err
			}
		}
	}
	if h.status == http.StatusNoContent {
		h.length = 0
	}
	h.closes = h.closes || h.length < 0 && !h.chunked
	return h, nil
}

// read takes in one header. It compares lengths first, for it sees every header of every answer.
func (h *answerHead) read(name, value []byte) (err error) {
	switch {
	case is(name, "Content-Length"):
		h.length, err = strconv.Atoi(string(value))
	case is(name, "Content-Type"):
		h.events = bytes.HasPrefix(value, []byte("text/event-stream"))
	case is(name, "Transfer-Encoding"):
		h.chunked = is(value, "chunked")
	case is(name, "Connection"):
		h.closes = h.closes || is(value, "close")
	case is(name, mcp.HeaderSessionID):
		h.session = string(value)
	}
	return err
}

func is(text []byte, word string) bool {
	return len(text) == len(word) && strings.EqualFold(string(text), word)
}

// mostAnswer is how long an answer may be, in bytes.
const mostAnswer = 4 << 20

// readAnswerBody appends the body to buffer and returns it.
func readAnswerBody(in *bufio.Reader, h answerHead, buffer []byte) ([]byte, error) {
	switch {
	case h.chunked:
		return readChunks(in, buffer)
	case h.length >= 0:
		return readExactly(in, h.length, buffer)
	}
	text, err := io.ReadAll(io.LimitReader(in, mostAnswer))
	return append(buffer, text...), err
}

func readExactly(in io.Reader, length int, buffer []byte) ([]byte, error) {
	start := len(buffer)
	if length < 0 || start+length > mostAnswer {
		return buffer, fmt.Errorf("an answer of %d bytes", start+length)
	}
	if room := start + length; room > cap(buffer) {
		buffer = append(make([]byte, 0, 2*room), buffer...)
	}
	buffer = buffer[:start+length]
	_, err := io.ReadFull(in, buffer[start:])
	return buffer, err
}

func readChunks(in *bufio.Reader, buffer []byte) ([]byte, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return buffer, err
		}
		digits, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		size, err := strconv.ParseInt(string(digits), 16, 32)
		if err != nil {
			return buffer, err
		}
		if buffer, err = readExactly(in, int(size), buffer); err != nil {
			return buffer, err
		}
		if end, err := in.ReadSlice('\n'); err != nil || len(end) > 2 {
			return buffer, errors.Join(err, fmt.Errorf("a chunk of %d bytes ends with %.20q", size, end))
		}
		if size == 0 {
			return buffer, nil
		}
	}
}

// lastEvent returns the data of the last event that has any: the response is the last message on the stream of its
// request.
func lastEvent(stream []byte) []byte {
	var last []byte
	for line := range bytes.Lines(stream) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				last = data
			}
		}
	}
	return last
}
