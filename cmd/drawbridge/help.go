package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// helpHelp is the help of the command help.
var helpHelp = help{
	"[topic]",
	"Prints a page of the documentation, what it says of a command, or what a code or an outcome " +
		"means.\n" +
		"Without a topic it prints the commands and the topics.",
}

// helpCommand is the command help. Without a topic it prints the commands.
func helpCommand(*flag.FlagSet) action {
	return func(_ context.Context, words []string, s streams) error {
		if len(words) == 0 {
			usage(s.say)
			return nil
		}
		return helpOn(strings.Join(words, " "), s)
	}
}

// helpOn prints what the documentation says of a topic: a page or a command of that name,
// what it means in the records, and for what is neither page nor command what helps
// somebody who sees it.
func helpOn(topic string, s streams) error {
	text, command := page(topic), section(page("commands"), topic)
	parts := []string{text, command, meansIn(topic)}
	switch {
	case text != "" && command != "":
		parts[1] = fmt.Sprintf("The command of that name: drawbridge %s -h\n", topic)
	case text+command == "":
		parts = append(parts, ofSymptom(topic)...)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	if len(parts) == 0 {
		return refused("there is nothing about %q%s\n\nTopics: %s, each command, each code and outcome of "+
			"the records, as drawbridge help DB-TOOL, and what people see, as drawbridge help 403",
			topic, nearTopics(topic), strings.Join(topics(), ", "))
	}
	s.say("%s", strings.Join(parts, "\n"))
	return nil
}

// meansIn says line by line what a code, an outcome or a reason means in the records, ""
// for what is none.
func meansIn(topic string) (lines string) {
	for _, words := range slices.Concat([]string{topic}, withReason(topic)) {
		if m := meaningOf(words); m.says != "" {
			lines += fmt.Sprintf("%s: %s\n%s", words, m.says, when(m.cure != "", "cure: %s\n", m.cure))
		}
		if m := signInMeanings()[words]; m.says != "" && m != meaningOf(words) {
			lines += fmt.Sprintf("%s, of a sign-in: %s\n", words, m.says)
		}
	}
	return lines
}

// nearTopics names what help knows that looks like a topic, "" for nothing.
func nearTopics(topic string) string {
	all := topics()
	for _, c := range commands() {
		all = append(all, c.name)
	}
	all = distinct(slices.AppendSeq(all, maps.Keys(meanings())))
	nearest, typed := registry.Nearest(topic, append(topics(), all...)), strings.ToLower(topic)
	near := slices.DeleteFunc(all, func(name string) bool {
		known := strings.ToLower(name)
		isAlike := strings.Contains(known, typed) || len(known) > 3 && strings.Contains(typed, known)
		return !isAlike || name == nearest
	})
	if nearest != "" {
		near = slices.Insert(near, 0, nearest)
	}
	return when(len(near) > 0, " (did you mean %s?)", strings.Join(near[:min(len(near), 5)], " or "))
}
