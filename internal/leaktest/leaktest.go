// Package leaktest has the tests of a package leave no goroutine behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, and ends the process with an error if one of them
// fails, or has begun a goroutine that does not end within two minutes of the last one.
func Main(m *testing.M) {
	code, over := m.Run(), time.Now()
	for code == 0 {
		err := goleak.Find() // which waits for less than a second
		if err == nil {
			break
		}
		if time.Since(over) > 2*time.Minute {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
