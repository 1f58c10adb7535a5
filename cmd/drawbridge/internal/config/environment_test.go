package config

import "testing"

func TestVariablesExpandInsideValuesOnly(t *testing.T) {
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{"${LEVEL}", "debug"},
		{"a ${LEVEL} b ${LEVEL}", "a debug b debug"},
		{"${UNSET:-x}", "x"},
		{"${UNSET:-}", ""},
		{"${EMPTY:-x}", "x"},
		{"$LEVEL", "$LEVEL"},
		{"${STRUCTURE}", "{level: debug}"},
	}
	for _, test := range tests {
		got, _, err := expand(test.text, testEnvironment)
		if err != nil || got != test.want {
			t.Errorf("expand(%q): got %q, %v, want %q", test.text, got, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"Bearer ${EMPTY}": "the environment variable EMPTY is empty",
		"${UNSET}/mcp":    "the environment variable UNSET is not set",
	} {
		if got, _, err := expand(text, testEnvironment); errorText(err) != want {
			t.Errorf("expand(%q): got %q, %v, want the error %q", text, got, err, want)
		}
	}
	if got, _, err := expand("${OUTER}",
		func(string) (string, bool) { return "${LEVEL}", true }); err != nil || got != "${LEVEL}" {
		t.Errorf("a value was expanded again: got %q, %v", got, err)
	}
}
