package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// disk is a small file system in memory that the gateway's log and audit share, which no
// deployment should have: where strangers can fill it, no tenant's call is made any more.
type disk struct {
	dir           string
	size          int64 // bytes
	log           *os.File
	logged, audit int64 // bytes of the two, as measured
}

// mountDisk makes a disk of that many bytes. It takes root.
func mountDisk(dir string, size int64) *disk {
	must.OK(os.Mkdir(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	must.Be(err == nil, "%w: mount a disk: %w", world.ErrNoCage, err)
	d := &disk{dir: dir, size: size}
	defer must.Else(d.unmount)
	d.log = must.Have(os.Create(filepath.Join(dir, "log.jsonl"))) //nolint:gosec // our own folder
	return d
}

// measure asks for how much of the disk the log and the audit take.
func (d *disk) measure() {
	for name, size := range map[string]*int64{"log.jsonl": &d.logged, "audit.jsonl": &d.audit} {
		*size = must.Have(os.Stat(filepath.Join(d.dir, name))).Size()
	}
}

// String is what was written to the disk.
func (d *disk) String() string {
	if d == nil {
		return "none"
	}
	return fmt.Sprintf("%s: log %s, audit %s", page.MiB(d.size), page.MiB(d.logged), page.MiB(d.audit))
}

// words returns where the gateway writes its log.
func (d *disk) words(otherwise io.Writer) io.Writer {
	if d == nil {
		return otherwise
	}
	return d.log
}

func (d *disk) unmount() {
	if d == nil {
		return
	}
	_ = d.log.Close()                              // nobody reads it any more
	_ = syscall.Unmount(d.dir, syscall.MNT_DETACH) // our own folder
}
