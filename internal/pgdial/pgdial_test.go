package pgdial_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/pgdial"
)

// TestAddressesAreJudged reads files with addresses, and shows that no error has what
// they say.
func TestAddressesAreJudged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:secret@127.0.0.1:5432/db":                         "",
		"postgres://u:secret@localhost/db?sslmode=disable":              "",
		"postgres://u:secret@[::1]/db":                                  "",
		"postgresql://u:secret@db.example/db?sslmode=verify-full":       "",
		"postgres://u:secret@db.example/db":                             "TLS is needed beyond this machine",
		"postgres://u:secret@10.0.0.1/db?sslmode=disable":               "TLS is needed beyond this machine",
		"postgres://u:secret@db.example/db?sslmode=require":             "does not make sure whom the password is sent to",
		"postgres://u:secret@db.example/db?sslmode=prefer":              "does not make sure whom the password is sent to",
		"postgres://u:secret@localhost/db?options=-crole%3Dpostgres":    `the option "options" has no meaning here`,
		"postgres://u:secret@localhost/db?host=/var/run":                `the option "host" has no meaning here`,
		"postgres://u:secret@a,b/db":                                    "this is no address",
		"postgres:///db":                                                "this is no address",
		"postgres://u:secret@localhost":                                 "this is no address",
		"postgres://u:secret@localhost:99999/db":                        "this is no address",
		"mysql://u:secret@localhost/db":                                 "this is no address",
		"host=localhost user=u password=secret":                         "this is no address",
		"":                                                              "this is no address",
		"postgres://u:secret@h/db?sslmode=verify-full&sslrootcert=none": "no such file",
		"postgres://u:sec%ret@localhost/db":                             "this is no address",
	} {
		file := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := pgdial.CheckFile(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "sec%ret")) {
			t.Errorf("%s: the error %v has the password", text, err)
		}
	}
}
