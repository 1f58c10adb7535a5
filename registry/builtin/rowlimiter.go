package builtin

import (
	"io"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// rowLimiter stands between a file and encoding/csv, which keeps a whole row in memory
// however long it is: one missing quotation mark can make a single row of a whole file.
// It passes the bytes on, and refuses a row with too many bytes or cells. Both agree on
// where a row ends as long as the row is valid; in other rows encoding/csv finds the
// fault. To both, a file whose lines end with CR alone would be a single row.
type rowLimiter struct {
	reader    io.Reader
	delimiter byte
	// inside quotation marks; a doubled mark leaves and enters again, which comes to the
	// same
	quoted       bool
	bytes, cells int  // of the present row so far; cells counts delimiters, which are one less
	rows         int  // before the present one
	returned     bool // the byte before was a CR outside of quotation marks
}

// Read implements io.Reader. Its errors are *registry.UsageError, or those of the reader
// below.
func (l *rowLimiter) Read(p []byte) (int, error) {
	n, err := l.reader.Read(p)
	for _, c := range p[:n] {
		l.bytes++
		if l.returned && l.rows == 0 && c != '\r' && c != '\n' {
			return 0, registry.Usagef(
				"The lines of the file end with CR alone: save it with LF, or CR and LF.")
		}
		l.returned = c == '\r' && !l.quoted
		switch {
		case c == '"':
			l.quoted = !l.quoted
		case l.quoted:
		case c == l.delimiter:
			l.cells++
		case c == '\n':
			l.bytes, l.cells, l.rows = 0, 0, l.rows+1
		}
		if l.cells == maxCSVColumns {
			return 0, registry.Usagef("The file has more than %d columns.", maxCSVColumns)
		}
		if l.bytes > maxCSVRow {
			return 0, registry.Usagef(
				"A row of the file is longer than %d MiB. A quotation mark may be missing.", maxCSVRow>>20)
		}
	}
	return n, err
}
