//go:build !linux

package redistest

import "os/exec"

// startBound starts a program, which may outlive this process if that is killed.
func startBound(program *exec.Cmd) error { return program.Start() }
