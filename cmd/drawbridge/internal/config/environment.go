package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// This file is the only door to the environment.

// Environment looks up one variable and tells whether it is set. Tests have environments of their own.
type Environment func(name string) (string, bool)

// ProcessEnvironment is the environment of this process.
func ProcessEnvironment() Environment { return os.LookupEnv }

// expand replaces ${VAR} and ${VAR:-x} in text by the variable's value, or by x when the variable is unset or empty. The
// text that it puts in is not expanded again. It also tells whether a default was taken.
func expand(text string, env Environment) (out string, defaulted bool, err error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), defaulted, nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", false, errors.New("${ without }")
		}
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !variableName(name) {
			return "", false, errors.New("${…} wants the name of an environment variable: letters, digits and _, then perhaps :- and a default")
		}
		value, set := env(name)
		switch {
		case set && (value != "" || !hasFallback):
			b.WriteString(value)
		case hasFallback:
			b.WriteString(fallback)
			defaulted = true
		default:
			return "", false, fmt.Errorf("the environment variable %s is not set", name)
		}
		text = after
	}
}

func variableName(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if s[i] != '_' && (c < 'a' || c > 'z') && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
