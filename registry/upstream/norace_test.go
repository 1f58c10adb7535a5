//go:build !race

package upstream_test

// raced says that the race detector is on.
const raced = false
