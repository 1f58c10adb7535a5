package strictjson

import "iter"

// Tokens yields the tokens of data, which passed Check, in order: each brace and bracket, and each name and scalar as it
// is written, with the count of bytes before it. The tokens alias data.
func Tokens(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := space(data, 0); i < len(data); i = space(data, i) {
			end := i + 1
			switch data[i] {
			case ',', ':':
				i = end
				continue
			case '{', '}', '[', ']':
			default:
				if end = value(data, i); end == i {
					return // data did not pass Check
				}
			}
			if !yield(i, data[i:end:end]) {
				return
			}
			i = end
		}
	}
}
