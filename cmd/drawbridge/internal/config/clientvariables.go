package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// expand replaces ${…} in a text of a client's file: variables as this gateway's config and Claude Code write them, and
// what VS Code and Cursor know beyond them.
func (f *clientFile) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ without }")
		}
		value, err := f.variable(inner)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = after
	}
}

// variable is the value of ${inner}.
// https://code.visualstudio.com/docs/reference/variables-reference
func (f *clientFile) variable(inner string) (string, error) {
	kind, name, _ := strings.Cut(inner, ":")
	if strings.HasPrefix(name, "-") {
		kind = "" // ${NAME:-default}
	}
	switch {
	case kind == "env":
		inner = name
	case kind == "input":
		if value, set := f.env(inputVariable(name)); set {
			return value, nil
		}
		return "", fmt.Errorf("the input %q cannot be asked for here; set the environment variable %s to its value", name, inputVariable(name))
	case kind == "config" || kind == "command":
		return "", fmt.Errorf("%q is known to the editor alone; write its value instead", "${"+inner+"}")
	case inner == "workspaceFolder":
		return f.workspace()
	case inner == "workspaceFolderBasename":
		folder, err := f.workspace()
		return filepath.Base(folder), err
	case inner == "userHome":
		inner = "HOME"
	case inner == "pathSeparator" || inner == "/":
		return string(filepath.Separator), nil
	}
	value, _, err := expand("${"+inner+"}", f.env)
	return value, err
}

// inputVariable is the environment variable that stands for an input of VS Code: INPUT_API_KEY for api-key.
func inputVariable(id string) string {
	return "INPUT_" + strings.Map(func(c rune) rune {
		if c < 0x80 && variableName("_"+string(c)) {
			return c
		}
		return '_'
	}, strings.ToUpper(id))
}

// workspace is the folder that the file is about: where it lies, or that above .vscode or .cursor.
func (f *clientFile) workspace() (string, error) {
	folder, err := filepath.Abs(filepath.Dir(f.file))
	if slices.Contains([]string{".vscode", ".cursor"}, filepath.Base(folder)) {
		folder = filepath.Dir(folder)
	}
	return folder, err
}
