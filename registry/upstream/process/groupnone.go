//go:build !unix

package process

import (
	"errors"
	"syscall"
)

// possible tells why no program can be run here: nothing would end what the program
// starts.
func possible() error {
	return errors.New("this system cannot run servers that are programs: that needs Linux or another Unix")
}

func ownGroup() *syscall.SysProcAttr { return nil }
func terminateGroup(int)             {}
func killGroup(int)                  {}

// KeepFiles does nothing, as there are no programs.
func KeepFiles() {}
