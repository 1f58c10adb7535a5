package sanitize_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

func legitimate() map[string]string {
	binary := make([]byte, 30_000)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	return map[string]string{
		"Pashto":                 "زه ښوونځي ته ځم، کتاب\u200cونه لولم.",
		"Kurdish":                "دەستە\u200cکان و مرۆڤ\u200cەکان",
		"Syriac":                 "ܫܠܡܐ ܥܠܡܐ (x)\u200f",
		"Dhivehi":                "ދިވެހި ރާއްޖެ (Maldives)\u200f، 2024",
		"Yiddish":                "אַ גוטן טאָג! \u2068YIVO\u2069 און ייִדיש",
		"Latin quoted in Hebrew": "ראו את הקובץ \u2066internal/sanitize/bidi.go\u2069 ואת \u2067א\u2066b\u2069ג\u2069",
		"Fluent in Arabic":       "لديك \u2068٣\u2069 رسائل من \u2068Anna\u2069 و\u2068Müller GmbH\u2069.",
		"price in Arabic":        "السعر: \u200e+49 (30) 1234\u200e أو \u061c-5",
		"Marathi":                "सूर्\u200dया, दर्\u200dशन, तऱ्\u200dहा",
		"Nepali":                 "गर्\u200dयो, पर्\u200dछ",
		"Gujarati":               "ગુજરાતી ક્\u200dષ",
		"Punjabi":                "ਪੰਜਾਬੀ ਵਿੱਚ",
		"Tamil":                  "க்\u200cஷ தமிழ்",
		"Telugu":                 "తెలుగు క్\u200cషీ సాఫ్ట్\u200cవేర్",
		"Odia":                   "ଓଡ଼ିଆ ର୍\u200dୟ",
		"Tibetan":                "བོད་སྐད། ༄༅༎",
		"Mongolian selectors":    "ᠭᠠ\u180bᠨ ᠰᠠᠷ\u180eᠠ ᠴᠠᠭ\u180bᠠᠨ ᠬᠠᠨ\u180eᠠ",
		"Phags-pa":               "ꡖ\ufe00ꡜ\ufe00ꡞ\ufe00ꡟ\ufe00ꡠ\ufe00ꡨ\ufe00 ꡏꡡꡃ",
		"Myanmar dotted":         "\u1000\ufe00\u1002\ufe00\u1075\ufe00\u107a\ufe00\u1080\ufe00 \uaa60\ufe00\uaa6b\ufe00\uaa7a\ufe00",
		"Shan":                   "ၽႃႇသႃႇ\u200bတႆး",
		"Manichaean":             "\U00010AC5\ufe00\U00010AD6\ufe00\U00010AE1\ufe00",
		"Javanese":               "ꦧꦱ\u200bꦗꦮ",
		"Balinese":               "ᬩᬲ\u200bᬩᬮᬶ",
		"mathematics":            "A ∩\ufe00 B ∪\ufe00 C ⊊\ufe00 D, ∅\ufe00, a ≨\ufe00 b ⪬\ufe00 c, \u212c\ufe00 \u212c\ufe01 \U0001D49C\ufe00, 0\ufe00",
		"CJK variants":           "海\ufe00と海\ufe01、豈\ufe00、凞\ufe00",
		"name kanji":             "渡邉\U000E0100太郎様、渡邊\U000E0112花子様、芦\u8fbb市",
		"register of names": strings.Repeat("氏名：葛\U000E0100城太郎、住所：東京都葛飾区青戸一丁目二番三号、生年月日：昭和四十年五月六日。\n",
			20),
		"Japanese with breaks":  "今日は\u200bとても\u200bよい\u200b天気\u200bです。\u200bコーヒー\u200bを飲む、\u200bそして歩く。",
		"vertical punctuation":  "一、\ufe01二。\ufe01三四",
		"Vietnamese":            "Tiếng Việt: Nguyễn Phủ Quốc e\u0323\u0302",
		"German":                "Straße, Größe, „Anführung“, Donaudampfschiff",
		"French":                "« Bonjour\u202f! », l’œuvre, 1\u202f000\u00a0€",
		"Polish":                "Zażółć gęślą jaźń",
		"Turkish":               "İstanbul'da ılık şiir",
		"Russian":               "Съешь ещё этих мягких булок",
		"Georgian":              "საქართველო ვეფხისტყაოსანი",
		"Armenian":              "Հայաստան, բարև։",
		"Amharic":               "ሰላም ዓለም።",
		"Cherokee":              "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
		"Inuktitut":             "ᐃᓄᒃᑎᑐᑦ",
		"N'Ko":                  "ߒߞߏ ߞߊ߲ (x)\u200f",
		"Adlam":                 "𞤆𞤵𞤤𞤢𞤪",
		"hieroglyphs":           "\U00013000\U00013430\U00013001",
		"groups of hieroglyphs": "\U00013000\U00013431\U00013437\U00013001\U00013430\U00013002\U00013438\U00013438\U00013430\U00013003",
		"damaged hieroglyphs":   "\U00013000\U00013440\U00013447\U00013430\U00013001\U00013455 \U00013443\U00013441\U00013002",
		"Khitan":                "\U00018B00\U00016FE4\U00018B01\U00018CD5",
		"Braille":               "⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙",
		"phonetics":             "[ˈfoʊnᵻks] t͡ʃ",
		"newer emoji":           "🫩 🫨 🧑🏻‍🤝‍🧑🏿 👨‍👨‍👦 🧔🏾‍♂️ 🏳️‍⚧️ ⛓️‍💥 🏃🏽‍♀️‍➡️ ♟️ ✔︎ ☎︎",
		"RFC":                   "Doe                          Standards Track                   [Page 1]\n\f\nRFC 1234                         Example\n",
		"old C source":          "int main(void)\n{\n\treturn 0;\n}\n\f\n/* next page */\n",
		"Python":                "def f(x: int) -> str:\n    return f\"{x!r:>10}\"  # \\u200b is an escape here\n",
		"shell":                 "export PATH=\"$HOME/bin:$PATH\"; curl -u \"$USER:$PASS\" https://example.com/?a=%20b%3D1 | jq '.x'\n",
		"YAML":                  "url: postgres://user:password@db:5432/app\nother: amqp://guest:guest@localhost\npass: ${DB_PASS}\n",
		"XML":                   "<?xml version=\"1.0\"?><a xmlns:x=\"http://x.example/\">&#8203;&nbsp;</a>",
		"TOML":                  "[a.\"b c\"]\nkey = 'C:\\new\\table'\ndate = 1979-05-27T07:32:00Z\n",
		"stack trace":           "panic: x\n\ngoroutine 1 [running]:\nmain.main()\n\t/tmp/a.go:3 +0x1d\nexit status 2\r\n",
		"box drawing":           "├── a\n│   └── b\n┌─┬─┐ ▁▂▃▄▅▆▇█ ⣿⣷",
		"PEM request":           "-----BEGIN CERTIFICATE REQUEST-----\nMIIBszCCAVmgAwIBAgIUYQ==\n-----END CERTIFICATE REQUEST-----\n",
		"e-mail":                "From: Anna <anna@example.com>\r\nSubject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHi\r\n",
		"Persian":               "نمی\u200cخواهم کتاب\u200cهایم را ببرم؛ می\u200cدانم که خانه\u200cی ما آن\u200cجاست. ه\u200d.ق. ۱۴۴۵",
		"Urdu":                  "یہ ایک مثال ہے۔ کتاب\u200cخانہ",
		"Arabic":                "مَرْحَبًا بِالعَالَمِ (Hello)\u200f، السعر 25$\u200f.\nسطر ثانٍ ـــ تمت",
		"Hebrew":                "שָׁלוֹם עוֹלָם! C++\u200f היא שפה. \"ויקיפדיה\" (Wikipedia)\u200f, 1948\u200e–2024.",
		"isolates":              "ברוך הבא, \u2068John\u2069! יש לך \u20665\u2069 הודעות.\nשורה \u2067אחת\u2069 \u202a(x)\u202c",
		"Hindi":                 "नमस्ते दुनिया। क्\u200dया, श्\u200c, र्\u200dय, विज्ञान, क्\u200cष",
		"Bengali":               "র\u200d্যাম, উত্\u200d, ক্\u200cষ বাংলা",
		"Kannada":               "ರ\u200d್ಯಾಂಕ್ ಕನ್ನಡ ರಾಜ್\u200cಕುಮಾರ್",
		"Malayalam":             "അവന്\u200d നന്\u200dമ മലയാളം",
		"Sinhala":               "ශ්\u200dරී ලංකා ප්\u200dරජාතන්ත්\u200dරවාදී ක්\u200dරම",
		"Thai":                  "ประเทศ\u200bไทย\u200bมี\u200bประชากร ๖๖ ล้าน",
		"Khmer":                 "ភាសា\u200bខ្មែរ\u200bជា\u200bភាសា",
		"Lao":                   "ພາສາ\u200bລາວ",
		"Burmese":               "မြန်မာ\u200bဘာသာ",
		"Mongolian":             "ᠮᠣᠩᠭᠣᠯ ᠠ᠋",
		"Japanese":              "葛󠄀飾区と葛城市。カタカナ、ひらがな、ｶﾅ",
		"Korean":                "대한민국 헌법 제1조 ㈜",
		"Chinese":               "敏捷的棕色狐狸，跳过了懒狗。「引号」",
		"Greek":                 "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία",
		"zalgo":                 "Z̸̛͓a̷̢l̵̨g̶͜o̴͠",
		"emoji":                 "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🏴‍☠️ ❤️‍🔥 🧑‍⚕️ 👁️‍🗨️ 🐻‍❄️ 🙋🏿‍♀️ ☺️ ☺︎ ©️ ™️ ↔️ ⬛️ ㊗️ 〰️",
		"flags":                 "🇩🇪 🇺🇳 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿 🏴",
		"keycaps":               "1️⃣2️⃣ #️⃣ *️⃣ 0⃣ 🔟",
		"symbols":               "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ · ½ ± ≠ → ⇒ █▓▒░ ┌─┐ \u00a0 \u2009 \u202f\u2028",
		"JSON":                  `{"a": [1, 2.5e-3, null, true], "path": "C:\\dir\\file", "s": "\u0041\n"}`,
		"Go":                    source,
		"diff":                  "--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,4 @@\n-----\n-old_name\n+new_name\n \tcontext\n",
		"log":                   "2026-11-21T03:46:42Z INFO [worker-3] sk-1 pk_test AKIA npm_config_cache=/x hf_model task-77 key=ghp_ xoxb- AIza...\n",
		"CSV":                   "id;name;\"quoted \"\"text\"\"\"\r\n1;Müller;-3,5\r\n",
		"SVG":                   `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0L10-5.5z"/><a href="javascript:x">y</a><image href="data:image/png;base64,AAAA"/></svg>`,
		"Markdown":              "# T\n\n![img](https://x.example/i.png?q=1) [l](http://y) <b>html</b> <!-- c -->\n\n| a | b |\n|---|---|\n---------BEGIN--------\n",
		"base64":                base64.StdEncoding.EncodeToString(binary),
		"base64url":             base64.URLEncoding.EncodeToString(binary),
		"JWT":                   "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
		"hashes":                "d41d8cd98f00b204e9800998ecf8427e 6ba7b810-9dad-11d1-80b4-00c04fd430c8 sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		"public key": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n" +
			"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUYQ==\n-----END CERTIFICATE-----\n",
	}
}

// designed are legitimate texts that cleaning changes by design. The name of each stands
// in a table of docs/cleaning.md with the reason.
func designed() []struct{ name, text, want string } {
	return []struct{ name, text, want string }{
		{"terminal colours", "\x1b[32mok\x1b[0m internal/mcp", "ok internal/mcp"},
		{"terminal links", "\x1b]8;;https://a.example/\x1b\\docs\x1b]8;;\x1b\\", "docs"},
		{"other control characters", "bell\a, overstrike A\bA, NUL\x00", "bell, overstrike AA, NUL"},
		{"soft hyphens", "Donau\u00addampf\u00adschiff", "Donaudampfschiff"},
		{"private use", "\ue0b0 main \uf8ff", " main "},
		{"noncharacters", "\ufdd0\U0001FFFF", ""},
		{"byte order mark", "\ufeffid,name\n", "id,name\n"},
		{"word joiner", "10\u2060km, a\ufeffb", "10km, ab"},
		{"invisible operators", "f\u2061(x) a\u2062b 1\u2064½", "f(x) ab 1½"},
		{"zero-width space elsewhere", "very\u200blong/\u200bpath, 漢\u200b字", "verylong/path, 漢字"},
		{"joiner elsewhere", "a\u200db, x\u200cy", "ab, xy"},
		{"isolates without right-to-left letters", "Hello \u2068Anna\u2069!", "Hello Anna!"},
		{
			"isolates far from right-to-left letters", "א " + strings.Repeat("word ", 8) + "\u2068Anna\u2069",
			"א " + strings.Repeat("word ", 8) + "Anna",
		},
		{"direction marks without right-to-left letters", "(c)\u200e 2024", "(c) 2024"},
		{"overrides", "\u202eabc\u202c", "abc"},
		{"combining grapheme joiner", "c\u034fh, יְרוּשָׁלִַ\u034fם", "ch, יְרוּשָׁלִַם"},
		{"fillers of Hangul", "\u115f\u1161 \u1100\u1160 \u3164", "\u1161 \u1100 "},
		{"inherent vowels of Khmer", "ក\u17b4\u17b5", "ក"},
		{"annotation characters", "\ufff9漢\ufffaかん\ufffb", "漢かん"},
		{"deprecated format characters", "a\u206ab\u206f", "ab"},
		{
			"musical and shorthand format characters", "\U0001D173\U0001D15F\U0001D174 \U0001BC00\U0001BCA0",
			"\U0001D15F \U0001BC00",
		},
		{"other flags of tags", "🏴\U000E0075\U000E0073\U000E0074\U000E0078\U000E007F", "🏴"},
		{"many ideographic variants", strings.Repeat("葛\U000E0101", 6), strings.Repeat("葛\U000E0101", 4) +
			"葛葛"},
		{"rare ideographic variants", "葛\U000E0109", "葛"},
		{"rotated hieroglyphs", "\U00013091\ufe00", "\U00013091"},
		{"tokens on purpose", "use " + ghp(), "use [REDACTED:github-pat]"},
	}
}

func TestT33LegitimateTextsChangeOnlyByDesign(t *testing.T) {
	page, err := os.ReadFile("../../docs/cleaning.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	_, table, _ := strings.Cut(string(page), "## Legitimate texts that change")
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "|") {
			rows++
		}
	}
	for _, c := range designed() {
		if got, report := cleanText(t, sanitize.Policy{}, c.text); got != c.want || report == nil {
			t.Errorf("%s: got %+q, %v, want %+q", c.name, got, report, c.want)
		}
		if !strings.Contains(table, "\n| "+c.name+" |") {
			t.Errorf("docs/cleaning.md has no row for %s", c.name)
		}
	}
	if rows != len(designed())+2 {
		t.Errorf("docs/cleaning.md has %d rows, want %d and two of the head", rows, len(designed()))
	}
	if n := len(legitimate()); n < 69 {
		t.Errorf("%d legitimate texts, want at least 69", n)
	}
}

func TestT33LegitimateTextsKeepEveryByte(t *testing.T) {
	t.Attr("texts", fmt.Sprint(len(legitimate())))
	for name, text := range legitimate() {
		t.Run(name, func(t *testing.T) {
			for _, raw := range []mcp.RawJSON{mcp.String(text), escapeAll(text)} {
				for _, place := range []string{"structuredContent", "content"} {
					result := mcp.NewObject(mcp.Member{Name: place, Value: raw})
					cleaned, report, err := sanitize.Policy{}.Result(result)
					if err != nil || report != nil || !sameBytes(result, cleaned) {
						got, _ := cleaned.Value(place).Text()
						t.Errorf("%s: %v, %v\ngot  %+q\nwant %+q", place, report, err, got, text)
					}
				}
			}
		})
	}
}

func TestT33LegitimateTextsTogetherKeepEveryByte(t *testing.T) {
	var all strings.Builder
	all.WriteString(legitimate()["register of names"]) // ideographs enough for the variants in all others
	for _, text := range legitimate() {
		all.WriteString(text + "\n")
	}
	if got, report := cleanText(t, sanitize.Policy{}, all.String()); got != all.String() || report != nil {
		t.Errorf("report %v", report)
	}
}

func TestRealDefinitionsKeepEveryByte(t *testing.T) {
	for name, data := range corpus.Tools(t) {
		definition := object(t, string(data))
		if cleaned, report := cleanDefinition(definition); report != nil ||
			!sameBytes(definition, cleaned) {
			t.Errorf("%s: report %v", name, report)
		}
	}
}
