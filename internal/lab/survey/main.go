// Command survey tries a folder of OpenAPI documents: how many of their operations become
// tools, which do not, and why. It calls no API, and reads nothing but the folder.
//
//	go run -C internal/lab ./survey path/to/documents
package main

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("survey", nil, run, 1, nil)
}

// run is the whole program. That documents are refused is what it tells, and no error.
func run(_ context.Context, args []string, out io.Writer) error {
	must.Be(len(args) == 1 && args[0] != "",
		"name one folder of OpenAPI documents: make openapi DIR=path/to/documents")
	folder := must.Have(filepath.EvalSymlinks(args[0]))
	files := must.Have(documents(folder))
	must.Be(len(files) > 0, "no file in %s ends in .json, .yaml or .yml", args[0])
	var sum tally
	for _, file := range files {
		name, err := filepath.Rel(folder, file)
		if err != nil || name == "." {
			name = file
		}
		one := survey(file)
		must.Have(io.WriteString(out, one.of(name)))
		sum.add(&one)
	}
	must.Have(io.WriteString(out, sum.sum()))
	return nil
}

// documents lists the files of a folder, and of those in it, that may hold a document.
func documents(folder string) (files []string, err error) {
	endings := []string{".json", ".yaml", ".yml"}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(endings, strings.ToLower(filepath.Ext(path))) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}
