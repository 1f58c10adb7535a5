package builtin

import (
	"context"
	_ "embed"
	"path"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // compiled in, because a minimal container has no files with time zones

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

//go:embed currenttime.json
var currentTimeDefinition string

// currentTimeResult is the structured content; currentTimeDefinition says what its
// members mean.
type currentTimeResult struct {
	Time         string `json:"time"`
	Weekday      string `json:"weekday"`
	Timezone     string `json:"timezone"`
	Abbreviation string `json:"abbreviation"`
	Offset       string `json:"offset"`
	Unix         int64  `json:"unix"`
}

// newCurrentTime makes the tool current_time. It reads the clock of cfg.Now.
func newCurrentTime(cfg Config) (registry.Func, error) {
	return func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		zone, ok := location(arguments(c).Text("timezone"))
		if !ok {
			return mcp.Object{}, registry.Usagef(
				`No time zone has that name. Use an IANA name of the form "Europe/Berlin", or "UTC".`)
		}
		now := cfg.Now().In(zone)
		abbreviation, _ := now.Zone()
		return structuredResult(currentTimeResult{
			Time: now.Format(time.RFC3339), Weekday: now.Weekday().String(), Timezone: zone.String(),
			Abbreviation: abbreviation, Offset: now.Format("-07:00"), Unix: now.Unix(),
		}), nil
	}, nil
}

// location returns the time zone of that IANA name, and false for an unknown one; "" is
// UTC. The names that stand for the zone of the machine count as unknown, because they
// would tell callers where the gateway runs.
func location(name string) (*time.Location, bool) {
	local := []string{"local", "localtime", "posixrules"} // ./localtime is the same
	if len(name) > 64 || slices.Contains(local, strings.ToLower(path.Base(name))) {
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}
