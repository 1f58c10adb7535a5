package strictjson

import "iter"

// Tokens yields the tokens of data, which must have passed Check, in their order, each
// with the count of bytes that stand before it. Tokens are each brace and bracket, and
// each name and scalar as it is written. They alias data.
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
