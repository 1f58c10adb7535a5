package sanitize_test

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// repairs returns how many repairs of r change bytes.
func repairs(r sanitize.Report) int {
	return r.Total() - r[sanitize.FlaggedKey] - r[sanitize.FlaggedURI]
}

// checkGrowth checks that what a repair writes is all that a value grows by.
func checkGrowth(t testing.TB, before, after []byte, r sanitize.Report) {
	t.Helper()
	const longestMarker = 80
	written := r[sanitize.Secret] + r[sanitize.Truncated] + r[sanitize.FlaggedURI]
	if len(after) > len(before)+written*longestMarker {
		t.Errorf("%d bytes became %d with %v", len(before), len(after), r)
	}
}

func FuzzResult(f *testing.F) {
	for _, text := range []string{
		`{"content":[{"type":"text","text":"a\u202eb\u001b[31m"},{"type":"resource_link","uri":"javascript:x"},{"data":"AA","type":"image"}]}`,
		`{"messages":[{"content":{"type":"text","text":"\ud83d\udc69\u200d\ud83d\udc67"}}],"requestState":"\u200b"}`,
		`{"resultType":"input_required","inputRequests":{"a":{"params":{"requestedSchema":{"properties":{"b":{"enum":["\u200b"]}}}}}},"requestState":"\u200b"}`,
		`{"contents":[{"uri":"\u200b","blob":"A A","text":"` + ghp() + `"}],"\u200b":{"data":[]}}`,
		`{"structuredContent":{"a":["\u05d0\u2068\u05d1\u2069\u200f.",1.5e3,null,[],{}]} }`,
		`{"content":[{"type":"tool_result","content":[{"type":"tool_result","content":"x\u200b"}]},"\u200b",7]}`,
	} {
		f.Add([]byte(text), uint16(8))
	}
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		mended, _ := strictjson.Mend(data)
		result, err := mcp.ParseObject(mended)
		if err != nil {
			return
		}
		for _, p := range []sanitize.Policy{
			{},
			{MaxText: int(limit)},
			{HiddenText: sanitize.Off},
			{Secrets: sanitize.Off},
		} {
			cleaned, report, err := p.Result(result)
			if err != nil {
				if _, hides := errors.AsType[*sanitize.HiddenError](err); !hides &&
					!errors.Is(err, sanitize.ErrTooLarge) {
					t.Fatal(err)
				}
				continue
			}
			checkValid(t, cleaned.JSON())
			checkGrowth(t, result.JSON(), cleaned.JSON(), report)
			if report == nil && !sameBytes(result, cleaned) {
				t.Errorf("changed without a report: %s, was %s", cleaned.JSON(), result.JSON())
			}
			again, report, err := p.Result(cleaned)
			if err != nil || repairs(report) != 0 || !sameBytes(cleaned, again) {
				t.Errorf("cleaned twice %+q, %v, %v\nonce %+q\nfrom %+q", again.JSON(), report, err,
					cleaned.JSON(), result.JSON())
			}
		}
	})
}

func FuzzDefinition(f *testing.F) {
	f.Add(
		[]byte(
			`{"name":"\u200b","description":"a\r\u202e\ue000","inputSchema":{"properties":{"a":{"enum":["\u200b"],"description":"\u001b[0m"}}}}`))
	f.Add(
		[]byte(
			`{"uri":"javascript:x","icons":[{"src":"\u200b"}],"arguments":[{"name":"a","title":"\u200d"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		definition, err := mcp.ParseObject(data)
		if err != nil {
			return
		}
		cleaned, report := cleanDefinition(definition)
		checkValid(t, cleaned.JSON())
		checkGrowth(t, definition.JSON(), cleaned.JSON(), report)
		again, report := cleanDefinition(cleaned)
		if repairs(report) != 0 || !sameBytes(cleaned, again) {
			t.Errorf("cleaned twice %+q, %v\nonce %+q", again.JSON(), report, cleaned.JSON())
		}
	})
}

// FuzzText builds texts out of pieces on which rules fire, one for each byte of the
// input.
func FuzzText(f *testing.F) {
	pieces := []string{
		"\x1b", "[", "]", "31m", "\u009b", "\u009c", "\x07", "\\", "\n", "\r", "\x00", "\u0085", "P",
		"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u061c", "\u202a", "\u202c", "\u202e", "\u2066",
		"\u2068", "\u2069",
		"\ufe0f", "\ufe0e", "\U000E0100", "\u180b", "\u2060", "\u034f", "🏴",
		"\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
		"\U000E0067", "👩", "❤", "1", "\u20e3", "#", "漢", "א", "ب", "\u064b", "क", "\u094d", "ก", "ᠠ", "a",
		" ", ".", "-", "_", "/", "…",
		ghp(), "ghp_", "AKIA" + chance(base32, 16), "glpat-" + chance(word, 20), "SG." + chance(word, 22) +
			"." + chance(word, 43),
		"-----BEGIN PRIVATE" + " KEY-----", chance(word, 40), "-----END PRIVATE KEY-----", "sk-ant-", "://u:",
		"@h", "k3y" + chance(word, 20), "SecretAccessKey=", chance(word, 40), "%3D", "\\n", ".eyJ", "\ue000",
		"\ufe00", "\ufe01", "0", "、", "か", "∩", "\u180e", "\U000E0108", "邉", "\f", "\ufffe",
	}
	f.Add([]byte{0, 1, 3, 13, 56, 57})
	f.Add([]byte{39, 23, 40, 24, 8, 59, 60, 61})
	f.Fuzz(func(t *testing.T, choice []byte) {
		var text strings.Builder
		for _, c := range choice {
			text.WriteString(pieces[int(c)%len(pieces)])
		}
		once, _ := cleanText(t, sanitize.Policy{}, text.String())
		if twice, report := cleanText(t, sanitize.Policy{}, once); twice != once || report != nil {
			t.Errorf("cleaned twice %+q, %v\nonce %+q\nfrom %+q", twice, report, once, text.String())
		}
		cut := sanitize.Policy{MaxText: max(1, text.Len()/2)}
		once, _ = cleanText(t, cut, text.String())
		if twice, report := cleanText(t, cut, once); twice != once || report != nil {
			t.Errorf("cut twice %+q, %v\nonce %+q\nfrom %+q", twice, report, once, text.String())
		}
		definition := mcp.NewObject(mcp.Member{Name: "description", Value: mcp.String(text.String())})
		cleaned, _ := cleanDefinition(definition)
		if again, report := cleanDefinition(cleaned); report != nil || !sameBytes(cleaned, again) {
			t.Errorf("definition cleaned twice %+q, %v, once %+q", again.JSON(), report, cleaned.JSON())
		}
	})
}

// TestHostileTextsCostNoMoreThanTheirLength cleans megabytes of what makes a careless
// scanner read on and on. A linear one needs a fraction of a second for each, a quadratic
// one many minutes.
func TestHostileTextsCostNoMoreThanTheirLength(t *testing.T) {
	size := 1 << 20
	if raced {
		size >>= 2
	}
	for _, piece := range []string{
		"\x1b[", "\x1b]", "\x1b", "\u009d", "\u009b1;", "[", "![", "\u200d", "می\u200c", "👩\u200d", "א\u2068",
		"\u2069", "א\n\u2068", "א\u2068b\u2069", "א\u2068\u2069", "葛\U000E0100", "か\u200b", "0\ufe00",
		"\u200eא",
		"🏴\U000E0067", "❤\ufe0f", "ghp_", "ghp_-", "glpat-", "sk-ant-", "sk-proj-", "xoxb-1", "AKIA", "AIza-",
		"SG.", "dapi ", "whsec_", "://a:b@", "://", "%40AKIA%3A%2F%2F", "://x:k3yB@", "-eyJ", header() +
			".", "sig=", "AKIA" + chance(base32, 16) + " ", "SecretAccessKey=", "%3D", "3Q~", "abc3Q~",
		".atlasv1.",
		"hooks.slack.com/services/T", "-----BEGIN ", "-----BEGIN PRIVATE" + " KEY-----",
		"-----BEGIN PRIVATE" + " KEY-----\nabc ", "\r", "e\u0301", "\\", `"`,
	} {
		text := fill(piece, size)
		p := sanitize.Policy{MaxText: 2 * size}
		start := time.Now()
		once, _ := cleanText(t, p, text)
		cleanDefinition(mcp.NewObject(mcp.Member{Name: "description", Value: mcp.String(text)}))
		if spent := time.Since(start); spent > time.Minute {
			t.Errorf("%d bytes of %+q took %v", size, piece, spent)
		}
		if again, report := cleanText(t, p, once); again != once || report != nil {
			t.Errorf("%+q…: not clean after once", piece)
		}
	}
}

// TestHeadersOfTokensAreDecodedOnce holds for beginnings of tokens that no end follows:
// the bytes of one belong to no other.
func TestHeadersOfTokensAreDecodedOnce(t *testing.T) {
	result := mcp.TextResult(strings.Repeat("-eyJ", 255) + ".")
	if allocations := testing.AllocsPerRun(10, func() {
		_, _, _ = sanitize.Policy{}.Result(result)
	}); allocations > 20 {
		t.Errorf("got %v allocations for 255 beginnings, want some for all of them", allocations)
	}
}

// TestManyMembersCostNoMoreThanTheirLength holds for members of a result that all need a
// repair.
func TestManyMembersCostNoMoreThanTheirLength(t *testing.T) {
	var members []mcp.Member
	for i := range 5_000 {
		members = append(members, mcp.Member{Name: strconv.Itoa(i), Value: mcp.String("a\u200bb")})
	}
	result := mcp.NewObject(members...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, report, err := sanitize.Policy{}.Result(result)
	runtime.ReadMemStats(&after)
	if err != nil || report[sanitize.Hidden] != len(members) {
		t.Fatalf("got %v, %v", report, err)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 100<<20 {
		t.Errorf("cleaning %d bytes took %d bytes of memory, want a few times their size", result.Size(), spent)
	}
}
