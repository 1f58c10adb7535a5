package raid

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Call returns a call of the small tool of a server, as it goes over the wire.
func Call(addr, token, server string) []byte {
	tool := server + "__echo"
	return client.Request{
		Addr: addr, Token: token, Revision: mcp.LatestModern, RPC: mcp.MethodToolsCall, Tool: tool,
		Body: client.Message("1", mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{"message":"hello"}`,
			mcp.LatestModern),
	}.Bytes()
}

// Instead says what came instead of the answer to a Call, "" if it was answered.
func Instead(answer *client.Answer, err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case err != nil:
		return "connection closed"
	case answer.Status != http.StatusOK || !bytes.Contains(answer.Body, []byte(upstream.Sentence)):
		return fmt.Sprintf("%d %s", answer.Status, code.Find(answer.Body))
	}
	return ""
}

// Answers tells whether a Call is answered.
func Answers(ctx context.Context, addr string, call []byte) bool {
	w, err := client.Dial(ctx, addr, "")
	if err != nil {
		return false
	}
	defer w.Close()
	return Instead(w.Exchange(call, kept)) == ""
}
