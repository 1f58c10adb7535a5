package interop_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolHome is a home for programs of the pinned packages.
func toolHome(t *testing.T, w *signInWorld, at signInAddress) *agentHome {
	t.Helper()
	binary, modules := node(t)
	h := newAgentHome(t, filepath.Join(modules, ".bin")+":"+filepath.Dir(binary),
		"MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file",
		"MCP_OAUTH_CALLBACK_URL=http://127.0.0.1:"+strconv.Itoa(freePort(t))+"/oauth/callback")
	h.withBrowser(t, w.surf, at.tenant)
	return h
}

// inspectorSignsIn signs in with the MCP Inspector.
func inspectorSignsIn(t *testing.T, w *signInWorld, at signInAddress) caller {
	return inspectorWith(t, w, at)
}

// inspectorWith is inspectorSignsIn with more options. Each call is a run of its own.
func inspectorWith(t *testing.T, w *signInWorld, at signInAddress, options ...string) caller {
	h := toolHome(t, w, at)
	return func(t *testing.T, tool string) string {
		arguments := []string{
			"--cli", at.url, "--transport", "http", "--connect-timeout", "0", "--method", "tools/call",
			"--tool-name", tool,
		}
		for name, value := range argumentsOf(tool) {
			arguments = append(arguments, "--tool-arg", name+"="+value.(string))
		}
		out, errs, _ := h.run(t, "mcp-inspector", append(arguments, options...)...)
		return out + errs
	}
}

// remoteSignsIn signs in with mcp-remote, for clients that only know local servers.
func remoteSignsIn(t *testing.T, w *signInWorld, at signInAddress) caller {
	return remoteWith(t, w, at)
}

// remoteWith is remoteSignsIn with more options.
func remoteWith(t *testing.T, w *signInWorld, at signInAddress, options ...string) caller {
	h := toolHome(t, w, at)
	arguments := []string{
		at.url, strconv.Itoa(freePort(t)), "--auth-timeout", strconv.Itoa(int(patient.Seconds())),
	}
	cmd := h.command(t.Context(), "mcp-remote", append(arguments, options...)...)
	cmd.Stderr = &output{}
	client := sdk.NewClient(&sdk.Implementation{Name: "local", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, cmd.Stderr)
	}
	t.Cleanup(func() { _ = session.Close() })
	return func(t *testing.T, tool string) string {
		call := &sdk.CallToolParams{Name: tool, Arguments: argumentsOf(tool)}
		result, err := session.CallTool(t.Context(), call)
		if err != nil && strings.Contains(err.Error(), "sign in again") {
			// Where two of its requests are refused at once, it signs in for the next
			// call.
			result, err = session.CallTool(t.Context(), call)
		}
		if err != nil {
			return err.Error()
		}
		return result.Content[0].(*sdk.TextContent).Text
	}
}
