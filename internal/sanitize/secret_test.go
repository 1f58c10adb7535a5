package sanitize_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// Secrets are put together when the test runs, so that no scanner of source code finds
// one here.

const (
	small  = "abcdefghijklmnopqrstuvwxyz"
	large  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digit  = "0123456789"
	hex    = "0123456789abcdef"
	base32 = large + "234567"
	word   = large + small + digit
)

// chance returns n bytes of the alphabet that look as if chance had chosen them.
func chance(alphabet string, n int) string {
	out := make([]byte, n)
	state := uint32(2463534242)
	for i := range out {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		out[i] = alphabet[state%uint32(len(alphabet))]
	}
	return string(out)
}

func ghp() string { return "ghp" + "_" + chance(word, 36) }

// secret is a sample of one kind. Its body has the least length; an exact one has no
// other.
type secret struct {
	kind, prefix, body string
	exact              bool
}

// alphabet is what the bytes of the body may be replaced by, empty when they may not: it
// has parts of other forms.
func (s secret) alphabet() string {
	for _, alphabet := range []string{hex, base32, large + digit, large + small, word} {
		if strings.Trim(s.body, alphabet) == "" {
			return alphabet
		}
	}
	if strings.Trim(s.body, word+"_-") == "" && strings.HasSuffix(s.prefix, "-") {
		return word + "_-"
	}
	return ""
}

func secrets() []secret {
	digits11 := chance(digit, 11)
	return []secret{
		{"github-pat", "ghp_", chance(word, 36), false},
		{"github-pat", "github_pat_", chance(word, 22) + "_" + chance(word, 59), false},
		{"github-token", "gho_", chance(word, 36), false},
		{"github-token", "ghu_", chance(word, 36), false},
		{"github-token", "ghs_", chance(word, 36), false},
		{"github-token", "ghr_", chance(word, 36), false},
		{"gitlab-token", "glpat-", chance(word+"_-", 20), false},
		{"gitlab-token", "glrt-", chance(word+"_-", 20), false},
		{"aws-access-key", "AKIA", chance(base32, 16), true},
		{"aws-access-key", "ASIA", chance(base32, 16), true},
		{"slack-token", "xoxb-", chance(digit, 12) + "-" + chance(word, 11), false},
		{"slack-token", "xoxp-", chance(digit, 12) + "-" + chance(word, 11), false},
		{"slack-token", "xapp-", "1-A" + chance(word, 21), false},
		{"slack-webhook", "hooks.slack.com/services/", "T" + chance(large, 8) + "/B" + chance(large, 8) +
			"/" + chance(word, 20), false},
		{"stripe-key", "sk_live_", chance(word, 24), false},
		{"stripe-key", "rk_live_", chance(word, 24), false},
		{"stripe-webhook-secret", "whsec_", chance(word, 32), false},
		{"anthropic-key", "sk-ant-", "api03-" + chance(word+"_-", 54), false},
		{"openai-key", "sk-proj-", chance(word+"_-", 40), false},
		{"openai-key", "sk-svcacct-", chance(word+"_-", 40), false},
		{"openai-key", "sk-admin-", chance(word+"_-", 40), false},
		{"openai-key", "sk-", chance(word, 20) + "T3Blbk" + "FJ" + chance(word, 20), true},
		{"npm-token", "npm_", chance(word, 36), true},
		{"pypi-token", "pypi-AgE", chance(word+"_-", 60), false},
		{"rubygems-key", "rubygems_", chance(hex, 48), true},
		{"docker-token", "dckr_pat_", chance(word+"_-", 27), false},
		{"google-api-key", "AIza", chance(word+"_-", 35), true},
		{"google-oauth-secret", "GOCSPX-", chance(word+"_-", 28), true},
		{"google-oauth-token", "ya29.", chance(word+"_-", 50), false},
		{"sendgrid-key", "SG.", chance(word, 22) + "." + chance(word, 43), true},
		{"age-key", "AGE-SECRET-KEY-1", chance(large+digit, 58), true},
		{"digitalocean-token", "dop_v1_", chance(hex, 64), true},
		{"digitalocean-token", "doo_v1_", chance(hex, 64), true},
		{"shopify-token", "shpat_", chance(hex, 32), true},
		{"shopify-token", "shpss_", chance(hex, 32), true},
		{"databricks-token", "dapi", chance(hex, 32), true},
		{"huggingface-token", "hf_", chance(large+small, 34), true},
		{"replicate-token", "r8_", chance(word, 37), true},
		{"groq-key", "gsk_", chance(word, 52), true},
		{"linear-key", "lin_api_", chance(word, 40), true},
		{"notion-token", "ntn_", digits11 + chance(word, 35), true},
		{"doppler-token", "dp.pt.", chance(word, 43), true},
		{"vault-token", "hvs.", chance(word, 24), false},
		{"vault-token", "hvb.", chance(word, 24), false},
		{"postman-key", "PMAK-", chance(hex, 24) + "-" + chance(hex, 34), true},
		{"newrelic-key", "NRAK-", chance(large+digit, 27), true},
		{"grafana-token", "glsa_", chance(word, 32) + "_" + chance(hex, 8), true},
		{"pulumi-token", "pul-", chance(hex, 40), true},
		{"dynatrace-token", "dt0c01.", chance(large+digit, 24) + "." + chance(large+digit, 64), true},
		{"planetscale-token", "pscale_tkn_", chance(word, 32), false},
		{"supabase-token", "sbp_", chance(hex, 40), true},
		{"figma-token", "figd_", chance(word, 40), false},
		{"tailscale-key", "tskey-auth-", chance(word, 20), false},
		{"atlassian-token", "ATATT3", "xFfGF0" + chance(word, 144), false},
		{"atlassian-token", "ATCTT3", "xFfGF0" + chance(word, 144), false},
		{"gitlab-token", "glft-", chance(word+"_-", 20), false},
		{"stripe-key", "sk_org_live_", chance(word, 24), false},
		{"sentry-token", "sntrys_", "eyJ" + chance(word, 77), false},
		{"sentry-token", "sntryu_", chance(hex, 64), true},
		{"perplexity-key", "pplx-", chance(word, 48), true},
		{"xai-key", "xai-", chance(word, 80), true},
		{"openrouter-key", "sk-or-v1-", chance(hex, 64), true},
		{"langsmith-key", "lsv2_pt_", chance(hex, 32) + "_" + chance(hex, 10), true},
		{"brevo-key", "xkeysib-", chance(hex, 64) + "-" + chance(word, 16), true},
		{"terraform-token", chance(word, 14) + ".atlasv1.", chance(word, 60), false},
		{"circleci-token", "CCIPAT_", chance(word, 60), false},
		{"sonarqube-token", "squ_", chance(hex, 40), true},
		{"drawbridge-secret", "dbk_", "abcdefghijklmnopqrstuvwxyz234567abcdefghbuvhsoi", true},
		{"drawbridge-secret", "dbr_", refreshToken(), true},
		{"artifactory-key", "AKCp", chance(word, 69), true},
	}
}

// refreshToken returns the body of a refresh token of this gateway.
func refreshToken() string {
	return base64.RawURLEncoding.EncodeToString([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ\x00\x00\x00\x07" +
		"a MAC of twenty byte"))
}

func TestT49SecretsAreRedactedWhereverTheyStand(t *testing.T) {
	for _, s := range secrets() {
		for _, frame := range []string{
			"@", "a @ b", "KEY=@\n", `{"key":"@"}`, "“@”", "(@)", "https://u:@@h/",
			"@.", "\\@", "\\n@", "\n@\r\n", "漢@字", "_@", "\x1b[1m@\u200b",
		} {
			text := strings.Replace(frame, "@", s.prefix+s.body, 1)
			want := strings.Replace(frame, "@", "[REDACTED:"+s.kind+"]", 1)
			if frame[0] == '\x1b' {
				want = "[REDACTED:" + s.kind + "]"
			}
			got, report := cleanText(t, sanitize.Policy{}, text)
			if got != want || report[sanitize.Secret] != 1 {
				t.Errorf("%s in %+q: got %+q, %v, want %+q", s.prefix, frame, got, report, want)
			}
		}
	}
}

func TestT49SecretsAreFoundBehindEscapes(t *testing.T) {
	for _, s := range secrets() {
		text := s.prefix + s.body
		slashed := mcp.RawJSON(`"` + strings.ReplaceAll("\\n"+text+"\\n", "/", `\/`) + `"`)
		for _, raw := range []mcp.RawJSON{escapeAll("\n" + text + "\n"), slashed} {
			cleaned, report, err := sanitize.Policy{}.Result(
				mcp.NewObject(mcp.Member{Name: "structuredContent", Value: raw}))
			got, want := cleaned.Text("structuredContent"), "\n[REDACTED:"+s.kind+"]\n"
			if err != nil || got != want || report.Total() != 1 {
				t.Errorf("%s: got %q, %v, %v, want %q", raw, got, report, err, want)
			}
		}
	}
}

func TestT49NearMissesPass(t *testing.T) {
	for _, s := range secrets() {
		misses := map[string]string{
			"too short":            s.prefix + s.body[:len(s.body)-1],
			"part of a word":       "x" + s.prefix + s.body,
			"placeholder":          s.prefix + strings.Repeat("x", len(s.body)),
			"other letters":        s.prefix + s.body[:len(s.body)/2] + "!" + s.body[len(s.body)/2+1:],
			"prefix only":          s.prefix,
			"prefix and ellipsis":  s.prefix + "...",
			"prefix in other case": swapCase(s.prefix) + s.body,
			"prefix and space":     s.prefix + " " + s.body,
		}
		if s.exact {
			misses["too long"] = s.prefix + s.body + "0A"
		}
		for name, text := range misses {
			if got, report := cleanText(t, sanitize.Policy{}, "see "+text+" here"); got != "see "+text+
				" here" || report != nil {
				t.Errorf("%s%s: %s: got %q, %v", s.prefix, s.kind, name, got, report)
			}
		}
	}
}

func swapCase(text string) string {
	if upper := strings.ToUpper(text); upper != text {
		return upper
	}
	return strings.ToLower(text)
}

func TestT49OtherTextPasses(t *testing.T) {
	for _, text := range []string{
		"AKIA" + "IOSFODNN7" + "EXAMPLE", // the key of AWS's documentation
		"AKIA" + strings.ToLower(chance(base32, 16)),
		"hvs." + "renderSomeLongFunctionName()", "hvs." + strings.Repeat("snake_case_", 4),
		"sk-" + chance(word, 48), "sk-" + strings.Repeat("kebab-case-", 8),
		"xoxb-" + "your-bot-token-goes-here-please", "tskey-auth-" + strings.Repeat("word-", 8),
		"SG." + chance(word, 65), "ntn_" + "x" + chance(word, 45), "figd_" + strings.Repeat("snake_case_", 5),
		"https://hooks.slack.com/services/", "https://hooks.slack.com/services/" + strings.Repeat("path/",
			10),
		"commit " + chance(hex, 40), "Bearer " + chance(word, 64), "password=" + chance(word, 20),
	} {
		if got, report := cleanText(t, sanitize.Policy{}, text); got != text || report != nil {
			t.Errorf("%q: got %q, %v", text, got, report)
		}
	}
}

func TestT49SecretsSideBySide(t *testing.T) {
	key, aws := ghp(), "AKIA"+chance(base32, 16)
	for _, c := range []struct{ text, want string }{
		{key + " " + aws, "[REDACTED:github-pat] [REDACTED:aws-access-key]"},
		{key + "," + key + ";" + key, "[REDACTED:github-pat],[REDACTED:github-pat];[REDACTED:github-pat]"},
		{aws + "_" + aws, "[REDACTED:aws-access-key]_[REDACTED:aws-access-key]"},
		{key + "\ufe0f\u20e3", "[REDACTED:github-pat]\u20e3"},
		{
			"SG." + chance(word, 22) + "." + chance(word, 43) + "." + aws,
			"[REDACTED:sendgrid-key].[REDACTED:aws-access-key]",
		},
		{"AIza" + chance(word, 34) + "-" + aws, "[REDACTED:google-api-key][REDACTED:aws-access-key]"},
		{"AIza" + chance(word, 35) + "-" + aws, "[REDACTED:google-api-key]-[REDACTED:aws-access-key]"},
		{"glpat-" + chance(word, 20) + "-" + aws, "[REDACTED:gitlab-token]"},
	} {
		got, _ := cleanText(t, sanitize.Policy{}, c.text)
		if again, report := cleanText(t, sanitize.Policy{}, got); got != c.want || again != got ||
			report != nil {
			t.Errorf("got %q, then %q, want %q", got, again, c.want)
		}
	}
}

// pem returns a private key as text.
func pem(label, newline string) string {
	body := newline
	for i := range 5 {
		body += chance(word+"+/", 64-i) + newline
	}
	return "-----BEGIN " + label + "-----" + body + "-----END " + label + "-----"
}

func TestT49PrivateKeysAreRedacted(t *testing.T) {
	const private = "PRIVATE" + " KEY"
	const redacted = "[REDACTED:private-key]"
	headers := "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
	whole := pem("RSA "+private, "\n")
	for _, c := range []struct{ name, text, want string }{
		{"PKCS 8", "a\n" + pem(private, "\n") + "\nb", "a\n" + redacted + "\nb"},
		{"PKCS 1", whole, redacted},
		{"EC", pem("EC "+private, "\n"), redacted},
		{"OpenSSH", pem("OPENSSH "+private, "\r\n"), redacted},
		{"encrypted", pem("ENCRYPTED "+private, "\n"), redacted},
		{"PGP", pem("PGP "+private+" BLOCK", "\n"), redacted},
		{"with headers", strings.Replace(whole, "\n", headers, 1), redacted},
		{"in one line", pem(private, " "), redacted},
		{"with escaped line breaks", `"key": "` + pem(private, `\n`) + `\n"`, `"key": "` + redacted + `\n"`},
		{"two", pem(private, "\n") + "\n" + whole, redacted + "\n" + redacted},
		{"broken off", "x " + whole[:200], "x " + redacted},
		{"broken off, with text", whole[:200] + "\n\nHope that helps.", redacted + "\n\nHope that helps."},
		{"broken off, and a whole one", whole[:200] + "\n" + whole, redacted + "\n" + redacted},
		{"public key", pem("PUBLIC KEY", "\n"), pem("PUBLIC KEY", "\n")},
		{"certificate", pem("CERTIFICATE", "\n"), pem("CERTIFICATE", "\n")},
		{
			"placeholder", "-----BEGIN " + private + "-----\n...\n-----END " + private + "-----",
			"-----BEGIN " + private + "-----\n...\n-----END " + private + "-----",
		},
		{"mention", "It begins with -----BEGIN " + private +
			"----- and then some words follow, but never a key.", "It begins with -----BEGIN " + private +
			"----- and then some words follow, but never a key."},
	} {
		got, report := cleanText(t, sanitize.Policy{}, c.text)
		if got != c.want || (report == nil) != (c.text == c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, report, c.want)
		}
	}
}

// header returns the first part of a JSON Web Token.
func header() string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
}

// TestTextsForRecordsAreClean shows that a text of somebody who is no server is cleaned
// as any other, and stays as it is when no rule fires.
func TestTextsForRecordsAreClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":      "",
		"a é 😀": "a é 😀",
		"x ghp_16C7e42F292c6912E7710c838347Ae178B4a":         "x [REDACTED:github-pat]",
		"x ghp_16C7e42F292c69\u200b12E7710c838347Ae178B4a y": "x [REDACTED:github-pat] y",
		"a\x1b[2Jb": "ab",
	} {
		if got := sanitize.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
