//go:build !linux

package redistest

import "os/exec"

// StartBound starts a program, which may outlive this process if that is killed.
func StartBound(program *exec.Cmd) error { return program.Start() }
