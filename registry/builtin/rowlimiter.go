package builtin

import "io"

// rowLimiter reads a CSV text and refuses a row of too many bytes or cells before anyone keeps it in memory. It agrees
// with encoding/csv on where a row ends, as long as that finds no fault in the row.
type rowLimiter struct {
	reader       io.Reader
	delimiter    byte
	quoted       bool // inside quotation marks; a doubled one leaves and enters again
	bytes, cells int  // of this row so far; cells less one
}

// Read is io.Reader's. Beside those of the reader below its errors are *usageError.
func (l *rowLimiter) Read(p []byte) (int, error) {
	n, err := l.reader.Read(p)
	for _, c := range p[:n] {
		l.bytes++
		switch {
		case c == '"':
			l.quoted = !l.quoted
		case l.quoted:
		case c == l.delimiter:
			l.cells++
		case c == '\n':
			l.bytes, l.cells = 0, 0
		}
		if l.cells == maxCSVColumns {
			return 0, usagef("The file has more than %d columns.", maxCSVColumns)
		}
		if l.bytes > maxCSVRow {
			return 0, usagef("A row of the file is longer than %d MiB. A quotation mark may be missing.", maxCSVRow>>20)
		}
	}
	return n, err
}
