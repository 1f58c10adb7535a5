package config

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// redisConfig reads a config with that section redis, in a directory with a password and
// the keys that replicas need.
func redisConfig(t *testing.T, section string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	text := "redis: " + section + `
sessions: {keys_file: keys}
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: keys, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [files], rules: [{allow: ["*"]}]}
servers:
  files: {command: mcp-files}
`
	secret, err := os.ReadFile("testdata/keys")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(nil)
	server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, data := range map[string]string{
		"drawbridge.yaml": text, "keys": string(secret), "authority": string(authority),
		"password": "hunter2\n", "two": "a\nb\n", "none": "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(filepath.Join(dir, "drawbridge.yaml"), testEnvironment)
}

func TestRedisPatienceHasBounds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"10ms":  10 * time.Millisecond,
		"250ms": 250 * time.Millisecond, "10s": 10 * time.Second,
	} {
		cfg, err := redisConfig(t, `{url: "redis://cache", patience: `+text+`}`)
		if err != nil || cfg.Redis.Patience != want {
			t.Errorf("%s: got %+v, %v; want %v", text, cfg, err, want)
		}
	}
	for _, text := range []string{"9ms", "11s", "0s", "soon"} {
		if cfg, err := redisConfig(t, `{url: "redis://cache", patience: `+text+`}`); err == nil {
			t.Errorf("%s: got %v, want a problem", text, cfg.Redis.Patience)
		}
	}
}

func TestRedisMemoryHasABound(t *testing.T) {
	t.Parallel()
	cfg, err := redisConfig(t, `{url: "redis://cache", memory: 64MiB}`)
	if err != nil || cfg.Redis.Memory != 64<<20 {
		t.Errorf("got %+v, %v; want 64 MiB", cfg, err)
	}
	for _, text := range []string{"15MiB", "0", "-1", "much"} {
		if cfg, err := redisConfig(t, `{url: "redis://cache", memory: `+text+`}`); err == nil {
			t.Errorf("%s: got %v, want a problem", text, cfg.Redis.Memory)
		}
	}
}

func TestRedisAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Redis{
		"redis://cache":               {Addresses: []string{"cache:6379"}},
		"redis://[::1]:7000/3":        {Addresses: []string{"[::1]:7000"}, Database: 3},
		"rediss://cache.example:6380": {Addresses: []string{"cache.example:6380"}, Secure: true},
		"redis+sentinel://a,b:7,c/main": {
			Addresses: []string{"a:26379", "b:7", "c:26379"},
			Master:    "main",
		},
		"rediss+sentinel://a/main/2": {
			Addresses: []string{"a:26379"}, Master: "main",
			Secure: true, Database: 2,
		},
		"redis+cluster://a,b": {Addresses: []string{"a:6379", "b:6379"}, Cluster: true},
		"rediss+cluster://10.0.0.1:7,10.0.0.2:7": {
			Addresses: []string{"10.0.0.1:7", "10.0.0.2:7"},
			Cluster:   true, Secure: true,
		},
	} {
		cfg, err := redisConfig(t, `{url: "`+text+`"}`)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.Memory = DefaultRedisMemory
		if diff := cmp.Diff(want, cfg.Redis); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

func TestRedisRefused(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{url: "redis://:hunter2@cache"}`:                          "use user and password_file",
		`{url: "redis://cache/?password=hunter2"}`:                 "this is no address of Redis",
		`{url: "hunter2://cache"}`:                                 "this is no address of Redis",
		`{url: "redis+proxy://cache"}`:                             "this is no address of Redis",
		`{url: "redis://cache:hunter2"}`:                           "a host of url is none",
		`{url: "redis://cache:0"}`:                                 "a host of url is none",
		`{url: "redis://"}`:                                        "a host of url is none",
		`{url: "redis+cluster://a,,b"}`:                            "a host of url is none",
		`{url: "redis://a,b"}`:                                     "one server has one address",
		`{url: "redis+sentinel://a"}`:                              "what the sentinels call the master",
		`{url: "redis+cluster://a/1"}`:                             "a cluster has no databases",
		`{url: "redis://a/hunter2"}`:                               "no number of a database",
		`{user: x}`:                                                `redis lacks "url"`,
		`{url: "redis://a", user: x}`:                              "user needs password_file",
		`{url: "redis://a", password_file: gone}`:                  "gone: no such file",
		`{url: "redis://a", password_file: two}`:                   "more than one line",
		`{url: "redis://a", password_file: none}`:                  "is empty",
		`{url: "redis://a", ca_file: keys}`:                        "write rediss://",
		`{url: "rediss://a", ca_file: password}`:                   "holds no certificate",
		`{url: "rediss://a", certificate_file: keys}`:              "certificate_file needs certificate_key_file",
		`{url: "redis://a", sentinel_password_file: password}`:     "goes with redis+sentinel://",
		`{url: "redis://a", password_file: password, passwort: x}`: "passwort",
	} {
		_, err := redisConfig(t, section)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", section, err, want)
		}
		if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), section, ""), "hunter2") {
			t.Errorf("%s: the error repeats a secret: %v", section, err)
		}
	}
}

// TestRedisWithoutURLIsOneProblem: what would be wrong beside a url is not said before
// there is one.
func TestRedisWithoutURLIsOneProblem(t *testing.T) {
	t.Parallel()
	_, err := redisConfig(t, `{user: x}`)
	if err == nil || strings.Contains(err.Error(), "password_file") {
		t.Errorf("got %v, want only that url is lacking", err)
	}
}

// TestRedisIsCheckedBesideOtherProblems has a problem that was found before.
func TestRedisIsCheckedBesideOtherProblems(t *testing.T) {
	t.Parallel()
	_, err := redisConfig(t, `{url: "redis://a", user: x}
public_url: ${NOT_SET}`)
	if err == nil || !strings.Contains(err.Error(), "NOT_SET is not set") ||
		!strings.Contains(err.Error(), "user needs password_file") {
		t.Errorf("got %v, want both problems", err)
	}
	_, err = redisConfig(t, `{url: "${NOT_SET}", ca_file: authority}`)
	if err == nil || strings.Contains(err.Error(), "TLS") {
		t.Errorf("got %v, want only that the variable is not set", err)
	}
}

// TestOtherCertificatesAreAnotherRedis changes a file that is read once. So the config of
// a reload differs from what runs, and the log says that a restart is needed.
func TestOtherCertificatesAreAnotherRedis(t *testing.T) {
	t.Parallel()
	before, err := redisConfig(t, `{url: "rediss://a", ca_file: authority}`)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(before.Redis.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{authority, append(authority, authority...)} {
		if err := os.WriteFile(before.Redis.CAFile, content, 0o600); err != nil {
			t.Fatal(err)
		}
		after, err := Load(before.File, testEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := cmp.Equal(before.Redis, after.Redis), len(content) == len(authority); got != want {
			t.Errorf("with %d bytes in place of %d: got that it is the same %v, want %v", len(content),
				len(authority), got, want)
		}
	}
}

// TestRedisPasswordIsReadAgain changes the file after the config was read.
func TestRedisPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	cfg, err := redisConfig(t, `{url: "redis://a", user: drawbridge, password_file: password}`)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := cfg.Redis.Password(); text != "hunter2" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if err := os.WriteFile(cfg.Redis.PasswordFile, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := cfg.Redis.Password(); text != "another" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if text, err := cfg.Redis.SentinelPassword(); text != "" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}
