package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Record is what the gateway put on record of one call of a tool, as far as it is needed
// here.
type Record struct {
	Tenant, Outcome, Reason string
	Arguments               Digest
}

// Digest is the beginning of the SHA-256 of the arguments of a call. A record holds no
// arguments, and its request id is one that a client does not choose, so the digest is
// what joins it with a call: the nonce in the arguments makes it unique. Zero: there were
// none.
type Digest uint64

// DigestOf returns the digest of arguments, byte for byte as a client sends them.
func DigestOf(arguments []byte) Digest {
	sum := sha256.Sum256(arguments)
	return Digest(binary.BigEndian.Uint64(sum[:8]))
}

// line is what is read of a line of an audit file.
type line struct {
	Tenant    string `json:"tenant"`
	Method    string `json:"method"`
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason"`
	Arguments string `json:"arguments"`
}

// ReadRecords reads the records of tools/call from an audit file. A line without its end
// is left out: the gateway was killed while it wrote it, and began a new line when it was
// started again. Any other line that is no record is an error.
func ReadRecords(r io.Reader) ([]Record, error) {
	var records []Record
	words := map[string]string{} // so that equal texts are kept once
	word := func(text string) string {
		if known, ok := words[text]; ok {
			return known
		}
		text = strings.Clone(text)
		words[text] = text
		return text
	}
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if !bytes.HasSuffix(text, []byte("}\n")) {
			continue
		}
		var l line
		if err := strictjson.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d of an audit file: %w", number, err)
		}
		if l.Method != "tools/call" || l.Arguments == "" {
			continue
		}
		digest, err := parseDigest(l.Arguments)
		if err != nil {
			return nil, fmt.Errorf("line %d of an audit file: %w", number, err)
		}
		records = append(records, Record{
			Tenant: word(l.Tenant), Outcome: word(l.Outcome),
			Reason: word(l.Reason), Arguments: digest,
		})
	}
}

var errDigest = errors.New("the digest of the arguments is none")

// parseDigest reads the digest of a record: "sha256:" and 64 hexadecimal digits.
func parseDigest(text string) (Digest, error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return 0, errDigest
	}
	return Digest(binary.BigEndian.Uint64(sum)), nil
}
