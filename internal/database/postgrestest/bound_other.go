//go:build !linux

package postgrestest

import "os/exec"

const nobody = 65534

func unprivileged(c *exec.Cmd) *exec.Cmd { return c }
