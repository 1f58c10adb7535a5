package config_test

import "testing"

// TestAccessKeysAreTurnedOffWithoutAnotherChange has rules that name subjects of access
// keys. They stay as they are when keys are turned off.
func TestAccessKeysAreTurnedOffWithoutAnotherChange(t *testing.T) {
	const named = `data: {dir: kept}
tenants:
  acme: {servers: [files], rules: [{allow: ["*"], subjects: ["https://mcp.example.com#ci"]}]}
`
	for keys, refused := range map[string]bool{
		"access_keys: on\n": false, "access_keys: off\n": false, "": true,
	} {
		if problem := loadSnippet(t, wholeConfig(keys+named)); (problem != "") != refused {
			t.Errorf("%q: got %q", keys, problem)
		}
	}
}
