package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// A line that is wider than this does not fit beside another file. A tab is four columns
// wide.
const (
	widest   = 110
	tabWidth = 4
)

// columns are the names of the figures, in their order.
var columns = [figuresOfCode]string{"statements", "code lines", "comment lines", "lines over 110 columns"}

const figuresOfCode = 4

// figures are what is counted. Statements are those of the syntax, with clauses of switch
// and select and without blocks. A line with code and a comment is a line of code.
type figures [figuresOfCode]int

func (f figures) plus(other figures) figures {
	for i := range f {
		f[i] += other[i]
	}
	return f
}

// measure counts one file.
func measure(name string, source []byte) (figures, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, source, parser.SkipObjectResolution)
	if err != nil {
		return figures{}, err
	}
	code, comments := lines(source)
	return figures{statements(file), code, comments, overlong(source)}, nil
}

func statements(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		_, block := node.(*ast.BlockStmt)
		if _, ok := node.(ast.Stmt); ok && !block {
			n++
		}
		return true
	})
	return n
}

// lines counts the lines on which there is code, and those on which there is only a
// comment.
func lines(source []byte) (code, comments int) {
	const hasComment, hasCode = 1, 2
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	kinds := make(map[int]int)
	for {
		at, tok, text := s.Scan()
		kind := hasCode
		switch {
		case tok == token.EOF:
			for _, kind := range kinds {
				if kind == hasCode {
					code++
				} else {
					comments++
				}
			}
			return code, comments
		case tok == token.SEMICOLON && text != ";": // the scanner's own, at the end of a line
			continue
		case tok == token.COMMENT:
			kind = hasComment
		}
		first := file.Line(at)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			kinds[line] = max(kinds[line], kind)
		}
	}
}

func overlong(source []byte) (n int) {
	for line := range strings.Lines(string(source)) {
		line = strings.TrimRight(line, "\r\n")
		if utf8.RuneCountInString(line)+(tabWidth-1)*strings.Count(line, "\t") > widest {
			n++
		}
	}
	return n
}
