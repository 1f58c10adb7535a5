package corpus

import (
	"cmp"
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
	named := `"method":"tools/call","params":`
	meta := cmp.Or(strings.TrimSuffix(inside, "}"), `"_meta":{"x":1`)
	bodies := []string{call(named + good)} // plain: this one runs
	for _, place := range []struct{ key, good, bad, body string }{
		{"params", good, bad, call(`"method":"tools/call",HERE`)},
		{"method", `"ping"`, `"tools/call"`, call(`HERE,"params":` + bad)},
		{"method", `"tools/call"`, `"tools/list"`, call(`HERE,"params":` + bad)},
		{"id", `8`, `9`, `{"jsonrpc":"2.0","method":"tools/call",HERE,"params":` + bad + `}`},
		{"jsonrpc", `"2.0"`, `"1.0"`, `{"id":7,"method":"tools/call",HERE,"params":` + bad + `}`},
		{"name", `"up__ok"`, `"up__evil"`, call(named + params(`HERE,"arguments":`+mark))},
		{"arguments", mark, `{"serial":-SERIAL}`, call(named + params(`HERE,"name":"up__ok"`))},
		{"path", `"a"`, `"b"`, call(named + params(`"name":"up__ok","arguments":{"serial":SERIAL,HERE}`))},
		{
			"path", `"a"`, `"b"`,
			call(named + params(`"name":"up__ok","arguments":{"serial":SERIAL,"deep":[{HERE}]}`)),
		},
		{"progressToken", `"2026-07-28"`, `"2025-03-26"`, ""},
		{"io.modelcontextprotocol/protocolVersion", `"2026-07-28"`, `"2025-03-26"`, ""},
		{"io.modelcontextprotocol/clientCapabilities", `"2026-07-28"`, `"2025-03-26"`, ""},
	} {
		body := cmp.Or(place.body, call(named+`{`+meta+`,HERE},"name":"up__evil","arguments":`+mark+`}`))
		for _, text := range twisted(place.key, place.good, place.bad) {
			bodies = append(bodies, strings.Replace(body, "HERE", text, 1))
		}
	}
	for _, name := range []string{
		`"up__ok\u0000"`, `"up__ok\u0000up__evil"`, `"UP__EVIL"`, `"up__evil "`,
		`"up__evil\u200b"`, `"ｕｐ__evil"`, `["up__ok","up__evil"]`, `{"name":"up__evil"}`, `"up__\ud800evil"`,
		"\"up__evil\xff\"", `null`, `7`,
	} {
		bodies = append(bodies, call(named+params(`"name":`+name+`,"arguments":`+mark)))
	}
	whole, fine := call(named+bad), call(named+good)
	return append(bodies,
		fine+whole, fine+"\n"+whole, fine+"\x00"+whole, "\ufeff"+whole,
		"["+fine+","+whole+"]", "["+whole+"]", fine+"]", "/**/"+whole, fine+",", "["+
			fine+"]"+whole, `"`+fine+`"`, strings.Replace(fine, `"2.0"`, `"2.0",`+"\x01", 1),
	)
}
