package sanitize

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
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

// blob moves the cursor behind the file in Base64 that is next. A text is cleaned like
// any other and encoded anew, since hosts decode it; what is no text is binary.
func (w *walker) blob() {
	i, next := w.cursor.At(), w.cursor
	end := i + len(next.Next())
	if file, ok := decodeBase64(w.decode(w.data[i:end])); ok && w.watch != 0 && isText(file) {
		text, mark := bytes.CutPrefix(file, []byte(fileMark))
		if cleaned, changed := w.repair(text); changed {
			if mark {
				cleaned = slices.Concat([]byte(fileMark), cleaned)
			}
			w.tooLarge = w.tooLarge || end-i-2 > w.maxBinary
			w.replace(i, end, []byte(base64.StdEncoding.EncodeToString(cleaned)))
			w.cursor.MoveTo(end)
			return
		}
	}
	w.base64()
}

// fileMark is the byte order mark that a file may begin with.
const fileMark = "\ufeff"

// encoded is whole for a file in Base64. A page that a host shows must be text; of any
// other file only what a reader may take for text is judged, since the bytes of a picture
// mean nothing to a reader. What is no Base64 counts as hiding something: programs that
// are less strict would read something out of it.
func (w *walker) encoded(i, end int, isPage bool) {
	w.tooLarge = w.tooLarge || end-i-2 > w.maxBinary
	if w.watch == 0 {
		return
	}
	raw := w.decode(w.data[i:end])
	file, ok := decodeBase64(raw)
	if !ok {
		file = raw
	}
	if isPage || !ok {
		w.judgeFile(i, file, w.unhides && (!ok || !utf8.Valid(file)))
		return
	}
	other := skipping(raw) // before raw is written over
	w.judgeMixed(i, file)
	w.judgeMixed(i, other)
}

// isText tells whether a file is one that a reader may take for text.
func isText(file []byte) bool { return utf8.Valid(file) && !bytes.ContainsRune(file, 0) }

// skipping returns what programs decode that know the usual alphabet alone and skip what
// it does not have, as those in Python and PHP do: nil if that is nothing else than what
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
	plain := bytes.TrimRight(text, "=\r\n")
	if bytes.ContainsAny(plain, "-_") {
		plain = []byte(strings.NewReplacer("-", "+", "_", "/").Replace(string(plain)))
	}
	decoded, err := base64.RawStdEncoding.AppendDecode(nil, plain)
	return decoded, err == nil
}

// judgeFile judges the bytes of a file that stands at data[i]. One that is opaque counts
// as hiding something.
func (w *walker) judgeFile(i int, file []byte, isOpaque bool) {
	w.judge(i, file, func() bool {
		text := bytes.TrimPrefix(file, []byte(fileMark))
		return w.flagText(text, &w.flaggedKey) || isOpaque
	})
}

// judgeMixed judges the bytes of a file that may be no text.
func (w *walker) judgeMixed(i int, file []byte) {
	if isText(file) {
		w.judgeFile(i, file, false)
		return
	}
	w.judge(i, file, func() (hides bool) {
		for text := range stretches(fromUTF16(file)) {
			before := w.counts
			_, fires := w.repair(text)
			hides = hides || w.hidden-before.hidden >= leastHidden
			if w.counts = before; fires {
				w.flaggedKey++
			}
		}
		return hides
	})
}

// judge judges the bytes of a file that stands at data[i], by what tells whether it hides
// something.
func (w *walker) judge(i int, file []byte, hides func() bool) {
	sum := sha256.Sum256(file)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if slices.Contains(w.released, digest) {
		return
	}
	before := w.foundSecret
	w.foundSecret = false
	if hides() {
		w.offend(i, nil, digest)
	}
	w.secretFile = w.secretFile || w.foundSecret
	w.foundSecret = w.foundSecret || before
}
