//go:build !race

package sanitize_test

// raced tells whether the race detector is on.
const raced = false
