package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// mutation changes a message that is as it should be. A mutation of members changes the
// tree, and the schema tells what became of it; one of text makes what no reader may take
// for a message.
type mutation struct {
	name string
	// one of these; tree and at return false where there is nothing to change
	tree func(r *rand.Rand, m *members) bool
	at   func(r *rand.Rand, at place) bool // changes something anywhere in the tree
	text func(r *rand.Rand, text string) string
}

// change changes the tree of a message.
func (m *mutation) change(r *rand.Rand, tree *members) bool {
	if m.tree != nil {
		return m.tree(r, tree)
	}
	all := places(tree)
	return len(all) > 0 && m.at(r, all[r.IntN(len(all))])
}

// odd are values in the place of others.
func odd(r *rand.Rand) any {
	return pick(r, []any{
		nil, true, false, "", "x", "\u202e", strings.Repeat("x", 300), literal("0"), literal("-1"),
		literal("1.5"), literal("1e400"), literal("9007199254740993"),
		literal("123456789012345678901234567890"),
		[]any{},
		[]any{nil},
		&members{}, &members{{"a", "b"}}, "\U0001F600", "\x00", literal("1e2"), literal("-0"),
	})
}

var mutations = []mutation{
	{name: "another type", at: func(r *rand.Rand, at place) bool { return at.set(odd(r)) }},
	{name: "a member missing", at: func(_ *rand.Rand, at place) bool {
		return at.in != nil && at.in.cut(at.at)
	}},
	{name: "a member more", at: func(r *rand.Rand, at place) bool {
		return at.in != nil && at.in.set(pick(r, []string{
			"x", "", "a b", "__proto__", "constructor", "toString", "$ref", "_meta", "cursor", "requestState",
			"inputResponses", "task", "result", "error", "id", "\u202e", "x\x00",
		}), odd(r))
	}},
	{name: "a huge text", at: func(r *rand.Rand, at place) bool {
		return at.set(strings.Repeat(pick(r, []string{"x", "\U0001F600", "\u202e", `\`, "../", "%00"}), 1+r.IntN(4000)))
	}},
	{name: "deep", at: func(r *rand.Rand, at place) bool {
		n := 1 + r.IntN(60)
		return at.set(literal(strings.Repeat("[", n) + strings.Repeat("]", n)))
	}},
	{name: "another name", at: rename},
	{name: "an odd id", tree: reidentify},
	{name: "the same name twice", text: double},
	{name: "cut off", text: func(r *rand.Rand, text string) string { return text[:r.IntN(len(text))] }},
	{name: "invalid UTF-8", text: spoil},
	{name: "something behind", text: func(r *rand.Rand, text string) string {
		return text + pick(r, []string{"{}", "x", ",", "]", "}", "\x00", text, "//", "\ufeff", "[]"})
	}},
	{name: "something before", text: func(r *rand.Rand, text string) string {
		return pick(r, []string{"\ufeff", "/**/", "[", ",", "\x00", "x", "{}", "'", "null"}) + text
	}},
	{name: "a broken character", text: breakOne},
	{name: "too deep", text: func(r *rand.Rand, text string) string {
		n := 65 + r.IntN(3000)
		return `{"jsonrpc":"2.0","x":` + strings.Repeat(`{"a":[`, n) + strings.Repeat("]}", n) + "," +
			text[1:]
	}},
	{name: "an imitated name", text: imitate},
}

func rename(r *rand.Rand, at place) bool {
	if at.in == nil {
		return false
	}
	one := &(*at.in)[at.at]
	one.name = pick(r, []string{one.name + "_", "x" + one.name, strings.TrimSuffix(one.name, "s") + "z", ""})
	return true
}

func reidentify(r *rand.Rand, m *members) bool {
	return m.value("id") != nil && m.set("id", pick(r, []any{
		nil, true, literal("1.5"), literal("9007199254740992"), literal("-9007199254740992"), literal("1e3"),
		[]any{},
		&members{}, strings.Repeat("i", 129), literal("1e400"),
		literal("7"), "", "ü", literal("0"), literal("-1"), literal("9007199254740991"), " ", "\u202e",
	}))
}

// double gives a message a member that it has already.
func double(r *rand.Rand, text string) string {
	names := slices.DeleteFunc([]string{`"jsonrpc"`, `"method"`, `"id"`},
		func(name string) bool { return !strings.Contains(text, name+":") })
	if len(names) == 0 {
		return text + text
	}
	name := pick(r, names)
	spelt := name
	if r.IntN(2) == 0 { // the first letter as an escape
		spelt = `"\u00` + strconv.FormatInt(int64(name[1]), 16) + name[2:]
	}
	return "{" + spelt + ":" + pick(r, []string{`"2.0"`, `"ping"`, "7", "null"}) + "," + text[1:]
}

// spoil puts bytes that are no UTF-8 into a string.
func spoil(r *rand.Rand, text string) string {
	quotes := strings.Count(text, `":"`)
	bad := pick(r, []string{
		"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x80", "\xe2\x82",
		`\ud800`, `\udc00`, `\ud800x`, "\x01", "\n", `\x`, `\u12g`,
	})
	if quotes == 0 {
		return bad + text
	}
	at := 0
	for range 1 + r.IntN(quotes) {
		at += strings.Index(text[at:], `":"`) + 3
	}
	return text[:at] + bad + text[at:]
}

// breakOne replaces what holds the text together: behind the first string a colon must
// come.
func breakOne(r *rand.Rand, text string) string {
	before, after, found := strings.Cut(text, ":")
	if !found {
		return "{"
	}
	return before + pick(r, []string{
		" ", "=", ";", ",", "::", ":,", ":+", ":.", ":-,", ":NaN,", ":Infinity,",
		":0x1,", ":01,", ":'x',",
	}) + after
}

// imitate adds a member that careless readers take for one that means something.
func imitate(r *rand.Rand, text string) string {
	name := pick(r, []string{"method", "params", "id", "jsonrpc"})
	fakes := []string{
		strings.ToUpper(name), string(unicode.ToUpper(rune(name[0]))) + name[1:], name + `\u0000`,
		strings.Replace(name, "s", "\u017f", 1),
		strings.Map(func(c rune) rune { return c + 0xFEE0 }, name),
	}
	fake := pick(r, fakes)
	return `{"` + page.Either(fake == name, fakes[0], fake) + `":` +
		pick(r, []string{`"tools/call"`, `{"name":"box__evil"}`, "9", `"1.0"`}) + "," + text[1:]
}
