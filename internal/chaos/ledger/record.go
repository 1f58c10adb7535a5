package ledger

import "io"

// ReadRecords reads the records of tools/call from an audit file. A last line that was torn when the gateway was killed
// is left out.
func ReadRecords(r io.Reader) ([]Record, error) { return nil, nil }
