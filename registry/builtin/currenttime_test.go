package builtin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

func TestCurrentTime(t *testing.T) {
	cfg := builtin.Config{Now: func() time.Time { return time.Date(2026, 7, 28, 22, 30, 15, 999, time.UTC) }}
	offer := open(t, cfg, "current_time")
	for arguments, want := range map[string]string{
		`{}`: `{"time":"2026-07-28T22:30:15Z","weekday":"Tuesday","timezone":"UTC","abbreviation":"UTC","offset":"+00:00","unix":1785277815}`,
		`{"timezone":"Europe/Berlin"}`: `{"time":"2026-07-29T00:30:15+02:00","weekday":"Wednesday","timezone":"Europe/Berlin",` +
			`"abbreviation":"CEST","offset":"+02:00","unix":1785277815}`,
		`{"timezone":"Asia/Kolkata"}`: `{"time":"2026-07-29T04:00:15+05:30","weekday":"Wednesday","timezone":"Asia/Kolkata",` +
			`"abbreviation":"IST","offset":"+05:30","unix":1785277815}`,
	} {
		if got := textOf(t, call(t, offer, arguments)); got != want {
			t.Errorf("%s\n got %s\nwant %s", arguments, got, want)
		}
	}
}

func TestCurrentTimeRefusesUnknownZones(t *testing.T) {
	offer := open(t, builtin.Config{}, "current_time")
	for _, zone := range []string{
		"Berlin", "+02:00", "Local", "localtime", "./localtime", "../../etc/passwd", "/etc/localtime", `..\\x`,
		"Europe/../Europe/Berlin",
		"Europe", "Europe/Berlin\\u0000", strings.Repeat("A", 65),
	} {
		got := refusal(t, call(t, offer, `{"timezone":"`+zone+`"}`))
		if !strings.Contains(got, `of the form "Europe/Berlin"`) {
			t.Errorf("%s: got %q", zone, got)
		}
	}
}
