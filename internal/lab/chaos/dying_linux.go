package main

import "syscall"

// dying makes a process end with this one.
func dying() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
