package openapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
)

// A document may lie in several files: an operation, a path item, or a part of one is
// then a reference to a file beside it. A file is read when an operation needs it,
// through Config.Files, which decides what can be read; only names below the document's
// folder ever reach it.

// maxFiles bounds how many files a document may refer to. Together with the document they
// may have maxDocument bytes.
const maxFiles = 5_000

// files are the document and the files that it refers to, read as far as they were
// needed.
type files struct {
	open func(name string) ([]byte, error) // Config.Files; nil: no file is read
	read map[string]*file                  // by the path from the document's folder; "": the document
	size int                               // bytes of all that were read
}

// file is the content of a file as JSON, or why it cannot be read.
type file struct {
	*place
	err error
}

var (
	errNoFiles   = errors.New("leads to a file, and files are not read here (bundle the document first)")
	errElsewhere = errors.New("leads to an address, and only files below the document's folder are read")
	errFolder    = errors.New("leads out of the document's folder, and only files below it are read")
	errFiles     = fmt.Errorf("is one file more than the %d that a document may refer to", maxFiles)
	errBytes     = fmt.Errorf("makes the document and its files more than %d MiB", maxDocument>>20)
)

// target returns the file and the place in it where a reference leads that stands in the
// file from. The error completes the sentence "$ref … ".
func (f *files) target(from, ref string) (name, fragment string, err error) {
	name, fragment, _ = strings.Cut(ref, "#")
	if name == "" {
		return from, fragment, nil
	}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawQuery != "" {
		return "", "", errElsewhere
	}
	to := path.Join(path.Dir(from), u.Path)
	if path.IsAbs(u.Path) || strings.Contains(u.Path, `\`) || !fs.ValidPath(to) {
		return "", "", errFolder
	}
	if f.open == nil {
		return "", "", errNoFiles
	}
	return to, fragment, nil
}

// content returns the whole of a file. The error completes the sentence "$ref … ".
func (f *files) content(name string) (*place, error) {
	if f.read[name] == nil {
		p, err := f.load(name)
		f.read[name] = &file{p, err}
	}
	return f.read[name].place, f.read[name].err
}

// load reads a file for the first time.
func (f *files) load(name string) (*place, error) {
	if len(f.read) > maxFiles {
		return nil, errFiles
	}
	data, err := f.open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %s", oneLine(err))
	}
	if f.size += len(data); f.size > maxDocument {
		return nil, errBytes
	}
	raw, err := asJSON(data)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return &place{name: name, raw: raw}, nil
}
