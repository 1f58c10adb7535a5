// Package sealtest keeps what an earlier version of the gateway has sealed, for tests
// that a later one still reads it. While a new version is rolled out both serve the same
// clients, so each reads what the other has written.
package sealtest

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// Ring returns the ring, always of the same key, with which kept files are sealed.
func Ring(t testing.TB) *seal.Ring {
	t.Helper()
	return fatal.Have(seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize)))(t)
}

// Stored returns what testdata/formats of the package keeps under a name. A kept file is
// never changed: what is in it may be in the hands of clients. Who adds a format writes
// made, which is what this version makes, into a new file.
func Stored(t testing.TB, name string, made []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", "formats", name)
	text, err := os.ReadFile(file) //nolint:gosec // a name that a test gives
	if err != nil {
		t.Fatalf("%v; this version writes\n%s", err, base64.StdEncoding.EncodeToString(made))
	}
	return fatal.Have(base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text))))(t)
}
