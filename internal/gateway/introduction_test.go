package gateway

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestWhatIsServedIsDeclared finds methods that the desk serves under a capability that
// clients are not told of.
func TestWhatIsServedIsDeclared(t *testing.T) {
	declared := Capabilities()
	served := []string{
		mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList,
		mcp.MethodSubscribe, mcp.MethodSetLevel,
	}
	for name := range methods() {
		served = append(served, name)
	}
	for _, name := range served {
		method := mcp.MethodOf(name)
		if method.Extension == mcp.ExtensionSkills { // declared where a server has it, and served there alone
			continue
		}
		if told := declared.Has(method.Capability) || method.OfTasks() && mcp.DeclaresTasks(declared); !told {
			t.Errorf("%s is served and belongs to capability %q, which is not in %s", name, method.Capability,
				declared.JSON())
		}
	}
}
