// Package must keeps straight lines of a lab straight: what a lab cannot go on without
// panics with its error, and who can go on without it gets the error back. It is for the
// goroutine that calls it: one that a lab starts has to Try what may panic.
package must

import (
	"fmt"
	"runtime"
)

// OK panics with an error, if there is one.
func OK(err error) {
	if err != nil {
		panic(err)
	}
}

// Have returns the value, and panics with the error if there is one.
func Have[T any](v T, err error) T {
	OK(err)
	return v
}

// Be panics unless something is so, and says in the words of fmt.Errorf what is not.
func Be(so bool, otherwise string, args ...any) {
	if !so {
		panic(fmt.Errorf(otherwise, args...))
	}
}

// Try does something, and returns the error with which it panicked, if it did. Any other
// panic, such as that of a nil pointer, goes on.
func Try(do func()) (err error) {
	defer func() {
		wrong := recover()
		failed, is := wrong.(error)
		if _, mistake := wrong.(runtime.Error); wrong != nil && (!is || mistake) {
			panic(wrong)
		}
		err = failed
	}()
	do()
	return nil
}

// Trying returns Try of something, for a goroutine of an errgroup.
func Trying(do func()) func() error {
	return func() error { return Try(do) }
}

// Got is Try for what returns a value.
func Got[T any](do func() T) (v T, err error) {
	err = Try(func() { v = do() })
	return v, err
}

// Else does something if what comes after it panics, as in defer must.Else(w.Close).
func Else(undo func()) {
	if wrong := recover(); wrong != nil {
		undo()
		panic(wrong)
	}
}
