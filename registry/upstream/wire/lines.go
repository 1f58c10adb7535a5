package wire

import (
	"bufio"
	"errors"
)

// maxSkip is how many bytes of one oversized line are skipped. After that the child is given up, because the line may
// never end.
const maxSkip = 256 << 20

var errEndless = errors.New("a line without end")

// readLine returns the next line, with its line feed, in memory of its own. A line of more than limit bytes is skipped
// and reported as ErrTooLarge; reading may go on behind it. Any other error ends the reading.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, errors.Join(ErrTooLarge, err)
		}
		if len(line)+len(part) > limit {
			return nil, skipLine(in)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// skipLine skips the rest of a line.
func skipLine(in *bufio.Reader) error {
	for skipped := 0; skipped < maxSkip; {
		part, err := in.ReadSlice('\n')
		skipped += len(part)
		switch {
		case err == nil:
			return ErrTooLarge
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return errEndless
}
