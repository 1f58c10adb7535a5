// Command zitadel is the example provider of zitadel's library for OpenID Connect, with
// the client drawbridge, on loopback: zitadel PORT CALLBACK. Its person is
// test-user@127.0.0.1, with the password verysecure.
package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	if len(os.Args) != 3 {
		_, _ = fmt.Fprintln(os.Stderr, "zitadel PORT CALLBACK") // nobody reads it
		os.Exit(2)
	}
	address := "127.0.0.1:" + os.Args[1]
	issuer := "http://" + address + "/"
	storage.RegisterClients(storage.WebClient("drawbridge", "a-client-secret-of-some-length", os.Args[2]))
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	provider := exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), log, false)
	server := &http.Server{Addr: address, Handler: provider, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // nobody reads it
		os.Exit(1)
	}
}
