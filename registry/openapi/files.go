package openapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// A document may lie in several files: an operation, a path item, or a part of one is
// then a reference to a file beside it. What such references lead to becomes components,
// as if the document had been bundled, so that all else sees one document. A file is read
// when an operation needs it, through Config.Files, which decides what can be read; only
// names below the document's folder ever reach it.

// maxFiles bounds how many files a document may refer to. Together with the document they
// may have maxDocument bytes.
const maxFiles = 5_000

// files are those that a document refers to, read as far as they were needed.
type files struct {
	open    func(name string) ([]byte, error) // Config.Files; nil: no file is read
	read    map[string]*file                  // by name
	size    int                               // bytes of the document and of those that were read
	imports map[string]origin                 // components that stand in files, by section and name
	known   map[string]string                 // references to imports, by section and origin
}

// file is the content of a file as JSON, or why it cannot be read.
type file struct {
	place
	err error
}

// origin is a place in a file.
type origin struct {
	file    string // by its path from the document's folder
	pointer string // as in a reference, without #
}

func (o origin) String() string { return strings.TrimSuffix(o.file+"#"+o.pointer, "#") }

var (
	errNoFiles   = errors.New("leads to a file, and files are not read here (bundle the document first)")
	errElsewhere = errors.New("leads to an address, and only files below the document's folder are read")
	errFolder    = errors.New("leads out of the document's folder, and only files below it are read")
	errFiles     = fmt.Errorf("is one file more than the %d that a document may refer to", maxFiles)
	errBytes     = fmt.Errorf("makes the document and its files more than %d MiB", maxDocument>>20)
)

// within returns where a reference leads that stands in a file, "" for the document
// itself. The error completes the sentence "$ref … ".
func (f *files) within(from, ref string) (origin, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if name == "" {
		return origin{from, pointer}, nil
	}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawQuery != "" {
		return origin{}, errElsewhere
	}
	to := path.Join(path.Dir(from), u.Path)
	if path.IsAbs(u.Path) || strings.Contains(u.Path, `\`) || !fs.ValidPath(to) {
		return origin{}, errFolder
	}
	if f.open == nil {
		return origin{}, errNoFiles
	}
	return origin{to, pointer}, nil
}

// at returns the JSON at a place in a file. The error completes the sentence "$ref … ".
func (f *files) at(o origin) ([]byte, error) {
	if _, known := f.read[o.file]; !known {
		raw, err := f.load(o.file)
		f.read[o.file] = &file{place{raw: raw}, err}
	}
	content := f.read[o.file]
	if content.err != nil || o.pointer == "" {
		return content.raw, content.err
	}
	tokens, err := pointer("#" + o.pointer)
	if err != nil {
		return nil, err
	}
	if raw := content.follow(tokens); raw != nil {
		return raw, nil
	}
	return nil, errNowhere
}

// load reads a file for the first time.
func (f *files) load(name string) ([]byte, error) {
	if len(f.read) >= maxFiles {
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
	return raw, nil
}

// local returns raw, which stands in a file, with references to components in the place
// of those that lead to files. pointer is where the result stands in the document.
// References that lead to no file that can be read stay as they are.
func (d *document) local(from, pointer string, raw []byte) []byte {
	if len(raw) == 0 || from == "" && !d.scattered {
		return raw
	}
	return d.appendLocal(make([]byte, 0, len(raw)), from, pointer, raw)
}

func (d *document) appendLocal(out []byte, from, pointer string, raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`$ref`)) {
		return append(out, raw...)
	}
	switch raw[0] {
	case '{':
		out = append(out, '{')
		for i, m := range membersOf(raw) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(strictjson.AppendQuote(out, m.Name), ':')
			target, err := strictjson.Unquote(m.Value)
			if m.Name == "$ref" && m.Value[0] == '"' && err == nil {
				out = strictjson.AppendQuote(out, d.reference(from, pointer, target))
				continue
			}
			out = d.appendLocal(out, from, pointer+token(m.Name), m.Value)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		elements, _ := strictjson.Elements(nil, raw)
		for i, element := range elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = d.appendLocal(out, from, pointer+"/"+strconv.Itoa(i), element)
		}
		return append(out, ']')
	}
	return append(out, raw...)
}

// reference returns what stands for a reference to a file: one to the component that is
// imported when it is needed.
func (d *document) reference(from, pointer, ref string) string {
	to, err := d.within(from, ref)
	if err != nil || to.file == "" {
		return ref
	}
	section := cmp.Or(sectionAt(pointer), "pathItems") // or an operation, which has no section
	key := section + " " + to.String()
	if known := d.known[key]; known != "" {
		return known
	}
	base := to.pointer[strings.LastIndex(to.pointer, "/")+1:]
	base = cmp.Or(base, strings.TrimSuffix(path.Base(to.file), path.Ext(to.file)))
	base = strings.Map(func(c rune) rune {
		if !plainName(string(c)) {
			return '_'
		}
		return c
	}, base)
	name := base
	for i := 0; d.has(section, name); i++ {
		name = hashed(base, key+strconv.Itoa(i))
	}
	d.imports[section+"/"+name] = to
	d.known[key] = "#/components/" + section + "/" + name
	return d.known[key]
}

// has tells whether a component has that name.
func (d *document) has(section, name string) bool {
	_, imported := d.imports[section+"/"+name]
	return imported || d.components[section][name] != nil
}

// component returns the JSON of a component, nil when there is none. The error is for one
// that stands in a file.
func (d *document) component(section, name string) ([]byte, error) {
	pointer := pointerTo([]string{"components", section, name})
	from, imported := d.imports[section+"/"+name]
	if !imported {
		return d.local("", pointer, d.components[section][name]), nil
	}
	raw, err := d.at(from)
	if err != nil {
		return nil, err
	}
	return d.local(from.file, pointer, raw), nil
}

// written returns how the document or a file of it writes a reference.
func (d *document) written(ref string) string {
	if from, imported := d.imports[strings.TrimPrefix(ref, "#/components/")]; imported {
		return from.String()
	}
	return ref
}

// isScattered tells whether some reference in a document of JSON leads to a file.
func isScattered(data []byte) bool {
	name := []byte(`"$ref"`)
	for {
		i := bytes.Index(data, name)
		if i < 0 {
			return false
		}
		data = bytes.TrimLeft(data[i+len(name):], " \t\r\n:")
		if bytes.HasPrefix(data, []byte(`"`)) && !bytes.HasPrefix(data, []byte(`"#`)) {
			return true
		}
	}
}
