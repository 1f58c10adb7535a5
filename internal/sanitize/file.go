package sanitize

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// contentsPosition returns the place of the contents of a resource that are next. c is a
// copy of the cursor, and wholly tells that all contents are files.
func contentsPosition(c strictjson.Cursor, wholly bool) position {
	switch {
	case mcp.PassesWhole(textOf(find(c, "mimeType"))):
		return view
	case wholly:
		return file
	}
	return contents
}

// whole judges the file in data[i:end], which is never edited: what runs it would break,
// and what compares it would refuse it. A file with a rule that fires in it is refused,
// unless it is released.
func (w *walker) whole(i, end int, s sight) {
	w.tooLarge = w.tooLarge || end-i-2 > w.maxBinary
	if s.marks&w.watch != 0 {
		w.judgeFile(i, w.decode(w.data[i:end]), false)
	}
}

// encoded is whole for a file in Base64. A page that a host shows must be text; any other
// file may be a picture, whose bytes mean nothing to a reader. What is no Base64 counts as
// hiding something: programs that are less strict would read something out of it.
func (w *walker) encoded(i, end int, isPage bool) {
	w.tooLarge = w.tooLarge || end-i-2 > w.maxBinary
	if w.watch == 0 {
		return
	}
	raw := w.decode(w.data[i:end])
	text, ok := decodeBase64(raw)
	if !ok {
		text = raw
	}
	if isPage || !ok || isText(text) {
		w.judgeFile(i, text, w.unhides && (!ok || isPage && !utf8.Valid(text)))
	}
	if other := skipping(raw); ok && isText(other) {
		w.judgeFile(i, other, false)
	}
}

// isText tells whether a file is one that a reader may take for text.
func isText(file []byte) bool { return utf8.Valid(file) && !bytes.ContainsRune(file, 0) }

// skipping returns what programs decode that know the usual alphabet alone and skip what it
// does not have, as those in Python and PHP do: nil if that is nothing else than what
// decodeBase64 returns.
// https://docs.python.org/3/library/base64.html#base64.b64decode
func skipping(text []byte) []byte {
	if !bytes.ContainsAny(text, "-_") {
		return nil
	}
	digits := bytes.Map(func(c rune) rune {
		if c == '-' || c == '_' {
			return -1
		}
		return c
	}, bytes.TrimRight(text, "=\r\n"))
	decoded, _ := base64.RawStdEncoding.AppendDecode(nil, digits) // what is whole of it
	return decoded
}

// decodeBase64 decodes text in either alphabet, with or without padding, as programs do.
// Padding within is refused: some end there, and others go on.
func decodeBase64(text []byte) (decoded []byte, ok bool) {
	plain := bytes.Map(func(c rune) rune {
		switch c {
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return c
	}, bytes.TrimRight(text, "=\r\n"))
	decoded, err := base64.RawStdEncoding.AppendDecode(nil, plain)
	return decoded, err == nil
}

// judgeFile judges the bytes of a file that stands at data[i]. One that is opaque counts
// as hiding something.
func (w *walker) judgeFile(i int, text []byte, isOpaque bool) {
	sum := sha256.Sum256(text)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if slices.Contains(w.released, digest) {
		return
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // which a file may begin with
	before := w.foundSecret
	w.foundSecret = false
	hides := w.flagText(text, &w.flaggedKey) || isOpaque
	w.secretFile = w.secretFile || w.foundSecret
	w.foundSecret = w.foundSecret || before
	if hides && w.offence < 0 {
		w.offence, w.digest = i, digest
	}
}
