package openapi_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestAnswersStayWithinTheShareOfTheirUser lets one user keep the answers of an API, as
// if its client did not read.
func TestAnswersStayWithinTheShareOfTheirUser(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for kind, body := range map[string]string{
		"application/json": `{"a": [` + strings.Repeat(`"`+strings.Repeat("b", 46)+`", `, size/50) + `"b"]}`,
		"text/plain":       strings.Repeat("x", size),
	} {
		for _, declared := range []bool{true, false} {
			service := newAPI(t)
			service.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				if !declared {
					w.(http.Flusher).Flush()
				}
				io.WriteString(w, body)
			})
			tools, _ := load(t, service.config(issues(t), "issues/get"))
			b := share.New(64 << 20)
			call := func(u share.User) (mcp.Object, *share.Reservation, error) {
				room := b.Reserve(u)
				result, err := tools["issues_get"].Call(t.Context(), &registry.Call{
					Method: mcp.MethodToolsCall, Memory: room,
					Params: mcp.NewObject(mcp.Member{
						Name:  "arguments",
						Value: mcp.RawJSON(`{"owner":"o","repo":"r","number":1}`),
					}),
				})
				return result, room, err
			}
			var claims []*share.Reservation
			alice, kept := share.User{TenantID: "acme", Subject: "alice"}, int64(0)
			for {
				result, room, err := call(alice)
				claims = append(claims, room)
				if err == nil && result.Size() < size {
					t.Fatalf("%s: got %.300s", kind, result.JSON())
				}
				if err != nil {
					var full *registry.MemoryError
					if !errors.As(err, &full) || !errors.Is(err, share.ErrUser) || len(claims) < 3 {
						t.Errorf("%s: call %d: got %v, want *registry.MemoryError of the user's share", kind,
							len(claims), err)
					}
					break
				}
				kept += int64(result.Size())
				if room.Size() < int64(result.Size()) || kept > b.Most() {
					t.Fatalf("%s: %d are held for a result of %d, and %d in all", kind, room.Size(),
						result.Size(), kept)
				}
			}
			for _, other := range []share.User{
				{TenantID: "acme", Subject: "bob"},
				{TenantID: "globex", Subject: "alice"},
			} {
				_, room, err := call(other)
				claims = append(claims, room)
				if err != nil {
					t.Errorf("%s: %v beside them: %v", kind, other, err)
				}
			}
			for _, room := range claims {
				room.Release()
			}
			if b.InUse() != 0 {
				t.Errorf("%s: %d are held in the end", kind, b.InUse())
			}
		}
	}
}
