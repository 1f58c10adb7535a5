package sanitize_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// TestNamesOfSecrets shows which names are taken for those of secrets: rather too many,
// but not well-known ones of settings.
func TestNamesOfSecrets(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "X-Authorisation": true, "Proxy-Authorization": true, "AUTHORITY": true,
		"X-Api-Key": true, "apikey": true, "GITHUB_TOKEN": true, "ACCESS_TOKENS": true, "AUTH": true,
		"DB_PASS": true, "derbypassword": true, "PGPASSWORD": true, "MYSQL_PWD": true, "Cookie": true,
		"KEYCLOAK_ADMIN_PASSWORD": true, "AUTHOR_TOKEN": true, "MAX_TOKENS_KEY": true, "commonkey": true,
		"--client-secret": true, "GOOGLE_APPLICATION_CREDENTIALS": true, "AUTHOR_AUTH": true,
		"imaxTokenSecret": true,
		"GIT_AUTHOR_NAME": false, "X-Author": false, "MAX_TOKENS": false, "--max-tokens": false,
		"maxTokens": false, "TOKENIZERS_PARALLELISM": false, "FTP_PASSIVE": false, "KEYCLOAK_URL": false,
		"SEARCH_KEYWORDS": false, "LOG_LEVEL": false, "": false,
	} {
		if got := sanitize.NamesSecret(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
