package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// expand replaces each ${…} in a text of a client's file. It knows the variables of a drawbridge config, which Claude
// Code writes in the same way, and those that VS Code and Cursor have beyond them. A variable without a value is an
// error: the server would otherwise start with a literal ${…} in place of its token.
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

// variable returns the value of ${inner}.
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

// inputVariable returns the name of the environment variable that takes the place of an input of VS Code, such as
// INPUT_API_KEY for the input api-key. VS Code asks its user for inputs; here nobody is there to be asked.
func inputVariable(id string) string {
	return "INPUT_" + strings.Map(func(c rune) rune {
		if c < 0x80 && variableName("_"+string(c)) {
			return c
		}
		return '_'
	}, strings.ToUpper(id))
}

// workspace returns the folder of the project that the file belongs to: the directory of the file or, if that is
// .vscode or .cursor, the directory above it.
func (f *clientFile) workspace() (string, error) {
	folder, err := filepath.Abs(filepath.Dir(f.file))
	if slices.Contains([]string{".vscode", ".cursor"}, filepath.Base(folder)) {
		folder = filepath.Dir(folder)
	}
	return folder, err
}
