package sanitize

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// contentsPlace returns the place of the contents of a resource that are next. c is a
// copy of the cursor, and wholly tells that all contents are files.
func contentsPlace(c strictjson.Cursor, wholly bool) place {
	if wholly || string(word(find(c, "mimeType"))) == mcp.MediaApp {
		return file
	}
	return contents
}

// whole judges the file in data[i:end], which is never edited: what runs it would break,
// and what compares it would refuse it. A file with a rule that fires in it is refused,
// unless it is released.
func (w *walker) whole(i, end int, s sight) {
	if end-i-2 > w.maxBinary {
		w.tooLarge = true
	}
	if s.marks&w.watch == 0 {
		return
	}
	text := w.decode(w.data[i:end])
	sum := sha256.Sum256(text)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if slices.Contains(w.released, digest) {
		return
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // which a file may begin with
	held := w.held
	w.held = false
	hides := w.flagText(text, &w.flaggedKey)
	w.secretFile = w.secretFile || w.held
	w.held = w.held || held
	if hides && w.offence < 0 {
		w.offence, w.digest = i, digest
	}
}
