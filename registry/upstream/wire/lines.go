package wire

import (
	"bufio"
	"errors"
)

// maxSkip is how many bytes one line may have that is dropped. Beyond, the child is lost.
const maxSkip = 256 << 20

var errEndless = errors.New("a line without end")

// readLine returns the next line in memory of its own. A line over limit bytes is dropped and reported as ErrTooLarge;
// reading can go on behind it.
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

// skipLine drops the rest of a line.
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
