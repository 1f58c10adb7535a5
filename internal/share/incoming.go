package share

import (
	"errors"
	"io"
)

// ErrTooLarge is the error for something incoming that is longer than it may be.
var ErrTooLarge = errors.New("message too large")

// Incoming says how something is read that somebody sends, into memory of its own. That
// is allocated for what has arrived, and hardly for what was announced: whoever announces
// much and sends little takes little.
type Incoming struct {
	Length  int // bytes, as announced; negative: that was not
	Most    int // bytes that it may have
	Trusted int // bytes that are allocated because they were announced
	Ahead   int // times what has arrived, which are allocated of what was announced, beyond that
	// Hold is called with how many bytes are needed, before they are allocated. After an
	// error nothing more is read.
	Hold func(bytes int) error
}

// ReadAll reads to the end, or as much as was announced. The error is ErrTooLarge, one of
// Hold or of the reader, or io.ErrUnexpectedEOF if less came than was announced.
func (in Incoming) ReadAll(from io.Reader) (data []byte, err error) {
	if in.Length > in.Most {
		return nil, ErrTooLarge
	}
	for len(data) != in.Length {
		if len(data) == cap(data) {
			if data, err = in.enlarge(data); err != nil {
				return nil, err
			}
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch ended := errors.Is(err, io.EOF); {
		case len(data) > in.Most:
			return nil, ErrTooLarge
		case ended && len(data) < in.Length:
			return nil, io.ErrUnexpectedEOF
		case ended:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
	return data, nil
}

// enlarge returns data, all of whose room is used, with room for more.
func (in Incoming) enlarge(data []byte) ([]byte, error) {
	size := Covered
	switch used := len(data); {
	case used == 0 && in.Length >= 0:
		size = min(in.Length, in.Trusted)
	case used > 0 && in.Length >= 0:
		size = min(max(used*in.Ahead, Step), in.Length)
	case used > 0:
		size = min(max(used*3/2, Step), in.Most+1) // one byte shows that there are too many
	}
	if err := in.Hold(size); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, size), data...), nil
}
