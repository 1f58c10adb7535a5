package strictjson

import "iter"

// Tokens yields the tokens of data, which passed Check, in order: each brace and bracket, and each name and scalar as
// it is written, with the count of bytes before it. The tokens alias data.
func Tokens(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		c := CursorOf(data)
		for kind := c.Kind(); kind != 0; kind = c.Kind() {
			start := c.i
			switch kind {
			case '{', '}', '[', ']':
				c.i++
			default:
				c.Next()
			}
			if !yield(start, data[start:c.i:c.i]) {
				return
			}
		}
	}
}
