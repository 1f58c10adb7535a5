package builtin

import (
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
)

// Config says which tools to offer and what they may access.
type Config struct {
	Tools   []string // names; an unknown or repeated one is an error of New
	CSVRoot string   // the directory below which analyze_csv reads; required for it
	// address of a forecast API like Open-Meteo's, without /v1/forecast; for get_weather
	WeatherURL string
	// address of a geocoding API like Open-Meteo's, without /v1/search; for get_weather
	GeocodingURL string
	// that query_database and describe_database read, the first by default; required for
	// them
	Databases []Database
	Turns     *fairqueue.Queue // that files take, of databases and of CSV; nil: they do not wait
	Client    *http.Client     // should follow no redirect, which is not checked; required for get_weather
	Now       func() time.Time // nil: time.Now
	Timeout   time.Duration    // limit of one call; zero: 30 s
}
