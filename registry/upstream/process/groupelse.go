//go:build !linux

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// bind does nothing: unlike on Linux, the program may outlive an owner that is killed.
func bind(*syscall.SysProcAttr) {}

var errLinux = errors.New("keepers need Linux")

// line is the line to a keeper, which only Linux has.
type line struct{}

func startWithKeeper(context.Context, Program, *exec.Cmd) (*Tree, error) { return nil, errLinux }

func (*line) last() (string, bool)  { return "", false }
func (*line) terminate(*os.Process) {}
func (*line) letGo(p *os.Process)   { _ = p.Kill() } // it has ended
func (*line) close()                {}

// Keep ends the process: there are no keepers here.
func Keep([]string) { os.Exit(1) }
