package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unique"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Record is what the gateway put on record of one call of a tool, as far as it is needed
// here.
type Record struct {
	Tenant, Outcome string
	Nonce           Nonce // among the arguments, which the gateway was told to record
}

// line is what is read of a line of an audit file.
type line struct {
	Tenant    string `json:"tenant"`
	Method    string `json:"method"`
	Outcome   string `json:"outcome"`
	Arguments struct {
		Nonce string `json:"nonce"`
	} `json:"named_arguments"`
}

// ReadRecords reads the records of tools/call from an audit file. A line without its end
// is left out: the gateway was killed while it wrote it, and began a new line when it was
// started again. Any other line that is no record is an error.
func ReadRecords(r io.Reader) (records []Record) {
	word := func(text string) string { return unique.Make(text).Value() } // so that equal texts are kept once
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records
		}
		must.OK(err)
		if !bytes.HasSuffix(text, []byte("}\n")) {
			continue
		}
		var l line
		err = strictjson.Unmarshal(text, &l)
		must.Be(err == nil, "line %d of an audit file: %w", number, err)
		if nonce := ParseNonce(l.Arguments.Nonce); nonce != 0 && l.Method == "tools/call" {
			records = append(records, Record{Tenant: word(l.Tenant), Outcome: word(l.Outcome), Nonce: nonce})
		}
	}
}
