//go:build linux

package world

import (
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// attributes make a child lead a process group of its own, and live in a new network
// namespace if space.
func attributes(space bool) *syscall.SysProcAttr {
	flags := page.Either[uintptr](space, syscall.CLONE_NEWNET, 0)
	return &syscall.SysProcAttr{Setpgid: true, Cloneflags: flags}
}
