package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Limits of what children write.
const (
	maxSkip      = 256 << 20 // bytes of one line that is dropped; beyond, the child is lost
	maxErrorLine = 1 << 10   // bytes of a line on standard error that reach the log
	maxErrors    = 20        // such lines a second
)

var errEndless = errors.New("a line without end")

// listen takes all that the child says. A child that stops talking is lost; one that ends is for reap to name.
func (k *Child) listen(ctx context.Context) {
	err := k.receive(ctx)
	close(k.drained)
	if !k.ended(tailLimit) {
		k.lost(fmt.Errorf("read from child: %w", err))
	}
}

// receive reads the child's standard output, line by line, until it ends.
func (k *Child) receive(ctx context.Context) error {
	in := bufio.NewReaderSize(k.stdout, 64<<10)
	for {
		line, err := readLine(in, maxMessage)
		switch {
		case errors.Is(err, ErrTooLarge):
			k.oversized()
			continue
		case err != nil:
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			k.take(ctx, line)
		}
	}
}

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

// drainErrors reads the child's standard error until it ends, so that the child never waits for a reader. It keeps the last
// lines for when the child fails, and logs the beginnings of some at the lowest level.
func (k *Child) drainErrors(ctx context.Context) {
	defer close(k.silent)
	in := bufio.NewReaderSize(k.stderr, maxKeptLine)
	second, logged, within := time.Now(), 0, false
	for {
		part, err := in.ReadSlice('\n')
		beginning := !within
		within = errors.Is(err, bufio.ErrBufferFull)
		if time.Since(second) > time.Second {
			second, logged = time.Now(), 0
		}
		if text := bytes.TrimSpace(part); beginning && len(text) > 0 {
			k.said.add(text)
			if logged < maxErrors && k.logger.Enabled(ctx, slog.LevelDebug) {
				logged++
				k.logger.DebugContext(ctx, "child wrote to standard error", "line", k.said.readable(text, maxErrorLine))
			}
		}
		if err != nil && !within {
			return // behind the last line, which need not have an end
		}
	}
}
