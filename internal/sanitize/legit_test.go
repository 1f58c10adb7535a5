package sanitize_test

import (
	"encoding/base64"
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
		"Persian":   "نمی\u200cخواهم کتاب\u200cهایم را ببرم؛ می\u200cدانم که خانه\u200cی ما آن\u200cجاست. ه\u200d.ق. ۱۴۴۵",
		"Urdu":      "یہ ایک مثال ہے۔ کتاب\u200cخانہ",
		"Arabic":    "مَرْحَبًا بِالعَالَمِ (Hello)\u200f، السعر 25$\u200f.\nسطر ثانٍ ـــ تمت",
		"Hebrew":    "שָׁלוֹם עוֹלָם! C++\u200f היא שפה. \"ויקיפדיה\" (Wikipedia)\u200f, 1948\u200e–2024.",
		"isolates":  "ברוך הבא, \u2068John\u2069! יש לך \u20665\u2069 הודעות.\nשורה \u2067אחת\u2069 \u202a(x)\u202c",
		"Hindi":     "नमस्ते दुनिया। क्\u200dया, श्\u200c, र्\u200dय, विज्ञान, क्\u200cष",
		"Bengali":   "র\u200d্যাম, উত্\u200d, ক্\u200cষ বাংলা",
		"Kannada":   "ರ\u200d್ಯಾಂಕ್ ಕನ್ನಡ ರಾಜ್\u200cಕುಮಾರ್",
		"Malayalam": "അവന്\u200d നന്\u200dമ മലയാളം",
		"Sinhala":   "ශ්\u200dරී ලංකා ප්\u200dරජාතන්ත්\u200dරවාදී ක්\u200dරම",
		"Thai":      "ประเทศ\u200bไทย\u200bมี\u200bประชากร ๖๖ ล้าน",
		"Khmer":     "ភាសា\u200bខ្មែរ\u200bជា\u200bភាសា",
		"Lao":       "ພາສາ\u200bລາວ",
		"Burmese":   "မြန်မာ\u200bဘာသာ",
		"Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠠ᠋",
		"Japanese":  "葛󠄀飾区と葛城市。カタカナ、ひらがな、ｶﾅ",
		"Korean":    "대한민국 헌법 제1조 ㈜",
		"Chinese":   "敏捷的棕色狐狸，跳过了懒狗。「引号」",
		"Greek":     "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία",
		"zalgo":     "Z̸̛͓a̷̢l̵̨g̶͜o̴͠",
		"emoji":     "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🏴‍☠️ ❤️‍🔥 🧑‍⚕️ 👁️‍🗨️ 🐻‍❄️ 🙋🏿‍♀️ ☺️ ☺︎ ©️ ™️ ↔️ ⬛️ ㊗️ 〰️",
		"flags":     "🇩🇪 🇺🇳 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿 🏴",
		"keycaps":   "1️⃣2️⃣ #️⃣ *️⃣ 0⃣ 🔟",
		"symbols":   "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ · ½ ± ≠ → ⇒ █▓▒░ ┌─┐ \u00a0 \u2009 \u202f\u2028",
		"private":   "\ue0b0 \uf8ff powerline",
		"JSON":      `{"a": [1, 2.5e-3, null, true], "path": "C:\\dir\\file", "s": "\u0041\n"}`,
		"Go":        source,
		"diff":      "--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,4 @@\n-----\n-old_name\n+new_name\n \tcontext\n",
		"log":       "2026-11-21T03:46:42Z INFO [worker-3] sk-1 pk_test AKIA npm_config_cache=/x hf_model task-77 key=ghp_ xoxb- AIza...\n",
		"CSV":       "id;name;\"quoted \"\"text\"\"\"\r\n1;Müller;-3,5\r\n",
		"SVG":       `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0L10-5.5z"/><a href="javascript:x">y</a><image href="data:image/png;base64,AAAA"/></svg>`,
		"Markdown":  "# T\n\n![img](https://x.example/i.png?q=1) [l](http://y) <b>html</b> <!-- c -->\n\n| a | b |\n|---|---|\n---------BEGIN--------\n",
		"base64":    base64.StdEncoding.EncodeToString(binary),
		"base64url": base64.URLEncoding.EncodeToString(binary),
		"JWT":       "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
		"hashes":    "d41d8cd98f00b204e9800998ecf8427e 6ba7b810-9dad-11d1-80b4-00c04fd430c8 sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		"public key": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n" +
			"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUYQ==\n-----END CERTIFICATE-----\n",
	}
}

func TestT33LegitimateTextsKeepEveryByte(t *testing.T) {
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
		if cleaned, report := sanitize.Definition(definition); report != nil || !sameBytes(definition, cleaned) {
			t.Errorf("%s: report %v", name, report)
		}
	}
}
