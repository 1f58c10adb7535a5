package corpus

import (
	"fmt"
	"strings"
	"unicode"
)

// twisted returns texts of members in which a parser may find good or bad under key,
// depending on how it reads names.
func twisted(key, good, bad string) []string {
	fake := imitations(key)
	texts := make([]string, 0, 3*len(fake)+2)
	for _, name := range fake {
		texts = append(texts,
			fmt.Sprintf(`"%s":%s,"%s":%s`, key, good, name, bad),
			fmt.Sprintf(`"%s":%s,"%s":%s`, name, bad, key, good),
			fmt.Sprintf(`"%s":%s`, name, bad))
	}
	return append(texts,
		fmt.Sprintf(`"%s":%s,"%s":%s`, key, good, key, bad),
		fmt.Sprintf(`"%s":%s,"%s":%s,"%s":%s`, key, good, key, bad, key, good))
}

// imitations are names that some parser takes for key.
func imitations(key string) []string {
	runes := []rune(key)
	last := len(runes) - 1
	all := []string{
		string(unicode.ToUpper(runes[0])) + string(runes[1:]),
		strings.ToUpper(key),
		fmt.Sprintf(`\u%04x`, runes[0]) + string(runes[1:]),
		string(runes[:last]) + fmt.Sprintf(`\u%04X`, runes[last]),
		key + `\u0000`, key + `\u0000x`, key + " ", "\ufeff" + key, key + "\u200b",
		strings.Map(func(r rune) rune { // full width
			if r > ' ' && r < 0x7F {
				return r + 0xFEE0
			}
			return r
		}, key),
	}
	for plain, folds := range map[string][]string{
		"s": {"\u017f", `\u017f`}, "k": {"\u212a", `\u212a`},
		"a": {"\u00aa"}, "i": {"\u2170"},
	} {
		for _, fold := range folds {
			if strings.Contains(key, plain) {
				all = append(all, strings.Replace(key, plain, fold, 1))
			}
		}
	}
	return all
}

// Smuggled returns bodies of tools/call in which one reader finds the tool up__ok and
// another one up__evil. The arguments have a member serial with the text SERIAL, which is
// for the caller to replace. inside is what the revision wants in params, "" or a member
// _meta.
func Smuggled(inside string) []string {
	const mark = `{"serial":SERIAL}`
	params := func(members string) string { return "{" + strings.TrimPrefix(inside+","+members, ",") + "}" }
	call := func(members string) string { return `{"jsonrpc":"2.0","id":SERIAL,` + members + `}` }
	good := params(`"name":"up__ok","arguments":` + mark)
	bad := params(`"name":"up__evil","arguments":` + mark)
	var bodies []string
	add := func(body string) { bodies = append(bodies, body) }
	add(call(`"method":"tools/call","params":` + good)) // plain: this one runs
	for _, text := range twisted("params", good, bad) {
		add(call(`"method":"tools/call",` + text))
	}
	for _, text := range twisted("method", `"ping"`, `"tools/call"`) {
		add(call(text + `,"params":` + bad))
	}
	for _, text := range twisted("method", `"tools/call"`, `"tools/list"`) {
		add(call(text + `,"params":` + bad))
	}
	for _, text := range twisted("id", `8`, `9`) {
		add(`{"jsonrpc":"2.0","method":"tools/call",` + text + `,"params":` + bad + `}`)
	}
	for _, text := range twisted("jsonrpc", `"2.0"`, `"1.0"`) {
		add(`{"id":7,"method":"tools/call",` + text + `,"params":` + bad + `}`)
	}
	for _, text := range twisted("name", `"up__ok"`, `"up__evil"`) {
		add(call(`"method":"tools/call","params":` + params(text+`,"arguments":`+mark)))
	}
	for _, text := range twisted("arguments", mark, `{"serial":-SERIAL}`) {
		add(call(`"method":"tools/call","params":` + params(text+`,"name":"up__ok"`)))
	}
	for _, text := range twisted("path", `"a"`, `"b"`) {
		add(call(`"method":"tools/call","params":` + params(`"name":"up__ok","arguments":{"serial":SERIAL,`+
			text+`}`)))
		add(call(`"method":"tools/call","params":` +
			params(`"name":"up__ok","arguments":{"serial":SERIAL,"deep":[{`+text+`}]}`)))
	}
	meta := strings.TrimSuffix(inside, "}")
	if meta == "" {
		meta = `"_meta":{"x":1`
	}
	for _, key := range []string{
		"progressToken", "io.modelcontextprotocol/protocolVersion",
		"io.modelcontextprotocol/clientCapabilities",
	} {
		for _, text := range twisted(key, `"2026-07-28"`, `"2025-03-26"`) {
			add(call(`"method":"tools/call","params":{` + meta + `,` + text +
				`},"name":"up__evil","arguments":` + mark + `}`))
		}
	}
	for _, name := range []string{
		`"up__ok\u0000"`, `"up__ok\u0000up__evil"`, `"UP__EVIL"`, `"up__evil "`,
		`"up__evil\u200b"`, `"ｕｐ__evil"`, `["up__ok","up__evil"]`, `{"name":"up__evil"}`, `"up__\ud800evil"`,
		"\"up__evil\xff\"", `null`, `7`,
	} {
		add(call(`"method":"tools/call","params":` + params(`"name":`+name+`,"arguments":`+mark)))
	}
	whole := call(`"method":"tools/call","params":` + bad)
	fine := call(`"method":"tools/call","params":` + good)
	for _, body := range []string{
		fine + whole, fine + "\n" + whole, fine + "\x00" + whole, "\ufeff" + whole,
		"[" + fine + "," + whole + "]", "[" + whole + "]", fine + "]", "/**/" + whole, fine + ",", "[" +
			fine + "]" + whole, `"` + fine + `"`, strings.Replace(fine, `"2.0"`, `"2.0",`+"\x01", 1),
	} {
		add(body)
	}
	return bodies
}
