package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	maxFile  = 64 << 10 // bytes of a file with a secret, token or key
	maxToken = 16 << 10 // bytes of a token; servers take headers of about that
)

// CheckFile returns why a file with a secret cannot be used, nil if it can be. Its text
// is without the path and the content.
func CheckFile(path string) error {
	_, err := readSecret(path)
	return err
}

// CheckToken is CheckFile for a file with a token, which stands behind Bearer or proves
// who the gateway is.
func CheckToken(path string) error {
	content, err := readSecret(path)
	if err == nil && !isToken(string(content)) {
		return errNoToken
	}
	return err
}

// readSecret returns the content of a file without blanks and line breaks around it.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, errors.New("the file cannot be looked at")
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, errors.New("not a regular file")
	}
	opened, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, errors.New("the file cannot be opened")
	}
	defer func() { _ = opened.Close() }() // it was only read
	// what a file is said to hold may be less than what comes: it grows, or is one of
	// /proc
	content, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return nil, errors.New("the file cannot be read")
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("the file has more than %d bytes", maxFile)
	}
	if content = bytes.TrimSpace(content); len(content) == 0 {
		return nil, errors.New("the file is empty")
	}
	return content, nil
}

// CheckValue returns why a text cannot be the value of a header, nil if it can be.
func CheckValue(text []byte) error {
	if len(text) > maxToken {
		return fmt.Errorf("more than %d bytes", maxToken)
	}
	for _, c := range text {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return errors.New("a control character, a line break or what is not ASCII")
		}
	}
	return nil
}

var errNoToken = errors.New("no token: a bearer token has no blanks, and 16 KiB at most")

// isToken tells whether a text can stand behind Bearer.
// https://www.rfc-editor.org/rfc/rfc6750#section-2.1
func isToken(text string) bool {
	other := func(c rune) bool { return c <= ' ' || c > '~' }
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, other)
}
