package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// This file alone reads environment variables for the config. All other code gets an
// Environment, so that tests choose the variables.

// Environment looks up one variable and tells whether it is set. Tests have environments
// of their own.
type Environment func(name string) (string, bool)

// ProcessEnvironment is the environment of this process.
func ProcessEnvironment() Environment { return os.LookupEnv }

// expand replaces ${VAR} in text by the value of that variable, and ${VAR:-x} by x when
// the variable is unset or empty. Without a default such a variable is an error: a
// compose file or a chart passes on what is not set as empty. It does not expand the
// result again: a password that happens to hold ${ stays what it is. It also returns
// whether at least one default was taken. The error names the variable and never its
// value.
func expand(text string, env Environment) (out string, defaulted bool, err error) {
	out, err = replaceVariables(text, func(inner string) (string, error) {
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !variableName.MatchString(name) {
			return "", errors.New("${…} wants the name of an environment variable: letters, digits and _, " +
				"then perhaps :- and a default")
		}
		value, set := env(name)
		switch {
		case value != "":
			return value, nil
		case hasFallback:
			defaulted = true
			return fallback, nil
		case set:
			return "", fmt.Errorf("the environment variable %s is empty", name)
		}
		return "", fmt.Errorf("the environment variable %s is not set", name)
	})
	return out, defaulted && err == nil, err
}

// replaceVariables replaces each ${…} in a text by what value returns for what stands in
// it, which is not looked through again.
func replaceVariables(text string, value func(inner string) (string, error)) (string, error) {
	var broken error // the first
	out := variable.ReplaceAllStringFunc(text, func(found string) string {
		replaced, err := "", errors.New("${ without }")
		if inner, closed := strings.CutSuffix(found[len("${"):], "}"); closed {
			replaced, err = value(inner)
		}
		broken = cmp.Or(broken, err)
		return replaced
	})
	if broken != nil {
		return "", broken
	}
	return out, nil
}

// variable is a ${…}, or the rest of a text with one that does not end.
var variable = regexp.MustCompile(`\$\{[^}]*}?`)

// variableName is the form of the name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
