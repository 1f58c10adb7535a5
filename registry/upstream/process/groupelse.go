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

// socket leads to a keeper, which only Linux has.
type socket struct{}

func startWithKeeper(context.Context, Program, *exec.Cmd) (*Tree, error) { return nil, errLinux }

func (*socket) last() (string, bool)  { return "", false }
func (*socket) terminate(*os.Process) {}
func (*socket) letGo(p *os.Process)   { _ = p.Kill() } // it has ended
func (*socket) close()                {}

// Keep ends the process: there are no keepers here.
func Keep([]string) { os.Exit(1) }
