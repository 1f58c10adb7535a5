// Package fatal ends a test at the error of what it, or who helps it, cannot go on
// without. It judges nothing else.
package fatal

import "testing"

// OK ends a test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Have returns what hands a value to a test, as in fatal.Have(os.Getwd())(t). With an
// error it ends the test instead.
func Have[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}
