package sanitize_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// frames are the surroundings in which secrets are found, each with one @ for the secret.
func frames() []string {
	return []string{
		"@", "a @ b", `"@"`, "'@'", "`@`", "KEY=@\n", "export KEY='@'", "key: @\n",
		"Authorization: Bearer @\r\n", "<key>@</key>",
		`{"key":"@"}`, `{"body":"{\"key\":\"@\"}"}`, `"{\"a\":\"{\\\"key\\\":\\\"@\\\"}\"}"`, `line\n@\nline`,
		`a\t@`, `a\r\n@\r\n`, `\u0022@\u0022`, `\x3d@`,
		"https://h.example/?q=1&key=@&x=2", "https://h.example/?q=key%3D@%26x", "%22@%22", "a%20@%20b",
		"key%253D@", "--key=@", "[@](x)",
	}
}

// marked is a secret that needs something beside it: the text with it, and the secret
// within that text.
type marked struct{ kind, text, secret string }

// markedSecrets returns one secret of each such kind, chosen by chance.
func markedSecrets(r *rand.Rand) []marked {
	pick := func(alphabet string, n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(out)
	}
	id, secret := "AKIA"+pick(base32, 16), pick(word+"+/", 39)+"k"
	storage, shared := pick(word+"+/", 85)+"A==", pick(word+"+/", 42)+"A="
	password := pick(word+"-_!.~", 7) + "q7Z"
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + pick(word, 9) + `"}`))
	token := header() + "." + claims + "." + pick(word+"_-", 43)
	sealed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + ".." +
		pick(word, 16) + "." + pick(word, 40) + "." + pick(word, 22)
	dashed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"??>>~~"}`)) + "." + claims + "." +
		pick(word+"_-", 86)
	mark := pick(word, 3) + pick(digit, 1) + "Q~" + pick(word+"_-.~", 33) + "x"
	return []marked{
		{"jwt", token, token},
		{"jwt", sealed, sealed},
		{"entra-client-secret", mark, mark},
		{"aws-secret-key", "aws_secret_access_key = " + secret, secret},
		{"aws-secret-key", "AWS_SECRET_ACCESS_KEY=" + secret, secret},
		{"aws-secret-key", `{"SecretAccessKey": "` + secret + `"}`, secret},
		{"aws-secret-key", `{\"secretAccessKey\":\"` + secret + `\"}`, secret},
		{"aws-secret-key", "<SecretAccessKey>" + secret + "</SecretAccessKey>", secret},
		{"aws-secret-key", "secret_access_key%3D" + url.QueryEscape(secret) + "%26", url.QueryEscape(secret)},
		{"aws-secret-key", "Secret Access Key: " + secret, secret},
		{
			"azure-storage-key", "AccountName=x;AccountKey=" + storage + ";EndpointSuffix=core.windows.net",
			storage,
		},
		{
			"azure-storage-key", url.QueryEscape("AccountName=x;AccountKey=" + storage),
			url.QueryEscape(storage),
		},
		{"azure-access-key", "SharedAccessKeyName=Root;SharedAccessKey=" + shared, shared},
		{
			"azure-sas", "https://x.blob.core.windows.net/c?sv=2024-11-04&sp=r&sig=" + url.QueryEscape(shared),
			url.QueryEscape(shared),
		},
		{"azure-sas", "sig=" + url.QueryEscape(shared) + "&sv=2024-11-04", url.QueryEscape(shared)},
		{"url-password", "postgres://app:" + password + "@db.internal:5432/app?sslmode=require", password},
		{"url-password", "https://" + id[4:] + ":" + password + "@[::1]/", password},
		{"url-password", "redis://:" + password + "@cache:6379", password},
		{"url-password", `{\"url\":\"amqp:\/\/app:` + password + `@h\/v\"}`, password},
		{"url-password", "?next=" + url.QueryEscape("ftp://app:"+password+"@h/x"), url.QueryEscape(password)},
		{"url-password", "mongodb+srv://a%40b.example:" + password + "@h1,h2/x", password},
		{"jwt", dashed, dashed},
	}
}

func TestT49VectorsOfEveryKindAreRedactedInEveryFrame(t *testing.T) {
	r, tried := rand.New(rand.NewPCG(5, 6)), 0
	defer func() { t.Attr("secrets", fmt.Sprint(tried)) }()
	for _, frame := range frames() {
		for _, s := range secrets() {
			tried++
			checkVector(t, frame, marked{s.kind, s.prefix + s.body, s.prefix + s.body})
		}
		for range 5 {
			for _, m := range markedSecrets(r) {
				tried++
				checkVector(t, frame, m)
			}
		}
	}
}

func checkVector(t *testing.T, frame string, m marked) {
	t.Helper()
	text := strings.Replace(frame, "@", m.text, 1)
	want := strings.Replace(text, m.secret, "[REDACTED:"+m.kind+"]", 1)
	if got, _ := cleanText(t, sanitize.Policy{}, text); got != want {
		t.Errorf("%q: got %q, want %q", text, got, want)
	} else if again, report := cleanText(t, sanitize.Policy{}, got); again != got || report != nil {
		t.Errorf("%q: cleaned twice %q, once %q", text, again, got)
	}
}

func TestT49SecretKeysNearTheirIDAreRedacted(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		id, secret := "AKIA"+chance(base32, 16), markedSecrets(r)[3].secret
		for _, frame := range []string{
			"%s,%s\n", "id %s\nkey %s", `{"id":"%s","key":"%s"}`, "%s %s %[2]s",
			`%s\n%s`, "[%s](%s)",
		} {
			for _, text := range []string{fmt.Sprintf(frame, id, secret), fmt.Sprintf(frame, secret, id)} {
				got, _ := cleanText(t, sanitize.Policy{}, text)
				if strings.Contains(got, secret) || strings.Contains(got, id) ||
					!strings.Contains(got, "[REDACTED:aws-secret-key]") {
					t.Errorf("%q: got %q", text, got)
				}
				if again, report := cleanText(t, sanitize.Policy{}, got); again != got || report != nil {
					t.Errorf("%q: cleaned twice %q, once %q", text, again, got)
				}
			}
		}
	}
}

// TestT49RandomBodiesAreHardlyEverTakenForWords measures what the test for chance costs,
// at the least length of each kind: of any, at most one in fifty may be missed, and of
// all together one in two hundred.
func TestT49RandomBodiesAreHardlyEverTakenForWords(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const rounds = 300
	kinds, tried, missed := 0, 0, 0
	for _, s := range secrets() {
		here, alphabet := 0, s.alphabet()
		switch s.kind {
		case "notion-token", "slack-token", "slack-webhook", "postman-key", "brevo-key", "sentry-token",
			"drawbridge-secret":
			continue // parts of the body are given
		}
		if alphabet == "" || s.prefix == "sk-" {
			continue // here too
		}
		kinds++
		for range rounds {
			body := []byte(s.body)
			for i := range body {
				body[i] = alphabet[r.IntN(len(alphabet))]
			}
			tried++
			if got, _ := cleanText(t, sanitize.Policy{}, s.prefix+string(body)); !strings.HasPrefix(got,
				"[REDACTED:") {
				missed++
				here++
			}
		}
		if here > rounds/50 {
			t.Errorf("%s: %d of %d random bodies passed", s.prefix, here, rounds)
		}
	}
	if kinds < 35 {
		t.Errorf("only %d kinds have a free body", kinds)
	}
	if missed > tried/200 {
		t.Errorf("%d of %d random bodies passed", missed, tried)
	}
}

func TestT49ExamplesAndWordsAreNoSecrets(t *testing.T) {
	aws := "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCY" + "EXAMPLEKEY"
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + ".eyJzdWIiOiIxIn0."
	other := base64.RawURLEncoding.EncodeToString([]byte(`{"page":"next","after":12345}`)) + "." +
		chance(word, 30) + "." + chance(word, 43)
	for _, text := range []string{
		"sk-proj-" + "loading-spinner-container-wrapper-large-blue", "glpat-" + "documentation-example-token",
		"glpat-" + "Some-Long-Branch-Name-For-Tests",
		"ghp_" + "thisIsTheNameOfAVeryLongVariableInSomeProgram", "npm_" +
			"config_registry_and_more_words_here_and", "pplx-" + strings.Repeat("word", 12),
		"hf_" + "somefunctionnameoftransformermodels", "AKIA" + "YOUR" + "EXAMPLE" + "KEYID", "glpat-" +
			"YOUR_TOKEN_GOES_IN_HERE", "sk-ant-" + strings.Repeat("your-key-", 9),
		"aws_secret_access_key = " + aws, "AKIA" + "IOSFODNN7" + "EXAMPLE," + aws, "aws_secret_access_key=" +
			chance(hex, 40), "SecretAccessKey: " + strings.Repeat("x", 40),
		"AKIA" + "IOSFODNN7" + "EXAMPLE commit " + chance(hex, 40), "AccountKey=...;", "AccountKey=" +
			strings.Repeat("A", 86) + "==", "AccountKey=<your key>",
		"https://h/?sig=" + chance(word, 43) + "%3D", "sha256 sig=" + chance(word, 43) + "=", unsigned, other,
		header() + ".x.y", header() + "." + chance(word, 30),
		"postgres://user:password@localhost/db", "https://user:<password>@h", "https://user:${PASS}@h",
		"https://user:***@h", "https://user:xxxxxxxx@h",
		"https://user:{password}@h", "https://user:$PASSWORD@h", "mysql://root:my-secret-pw@h",
		"amqp://guest:guest@rabbit", "https://user:[REDACTED]@h",
		"redis://default:changeme123@h", "https://username:your_password_here@h",
		"http://localhost:8080/@scope/name", "see http://h:12345678@x", "http://admin:admin@h",
		"git+ssh://git@github.com:org/repo.git", "https://h/a:b@c", "https://h?x=a:bcdefg1@c",
		"http://h:65535,a@b.example", "https://user:...@h", "ftp://me:s3cr3t@",
		"x://" + strings.Repeat("a", 300) + ":pa55word9@h", "abcdQ~" + chance(word, 34), "a1Q~" +
			chance(word, 34), ".atlasv1." + chance(word, 64), "xai-" + strings.Repeat("lowercase", 9),
	} {
		if got, report := cleanText(t, sanitize.Policy{}, text); got != text || report != nil {
			t.Errorf("%q: got %q, %v", text, got, report)
		}
	}
}
