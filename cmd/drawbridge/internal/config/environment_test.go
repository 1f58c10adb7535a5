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
		{"${EMPTY}", ""},
		{"$LEVEL", "$LEVEL"},
		{"${STRUCTURE}", "{level: debug}"},
	}
	for _, test := range tests {
		got, _, err := expand(test.text, testEnvironment)
		if err != nil || got != test.want {
			t.Errorf("expand(%q): got %q, %v, want %q", test.text, got, err, test.want)
		}
	}
	if got, _, err := expand("${OUTER}",
		func(string) (string, bool) { return "${LEVEL}", true }); err != nil || got != "${LEVEL}" {
		t.Errorf("a value was expanded again: got %q, %v", got, err)
	}
}
