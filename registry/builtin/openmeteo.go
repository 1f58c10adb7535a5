package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxWeatherAnswer = 256 << 10    // bytes
	maxPlaceName     = 200          // bytes of each part of the name of a place
	maxOffset        = 24 * 60 * 60 // seconds between local time and UTC
	weatherCurrent   = "temperature_2m,relative_humidity_2m,apparent_temperature,precipitation," +
		"weather_code,wind_speed_10m"
)

// Errors of weather; all others mean that the service did not answer.
var (
	errNoPlace   = errors.New("no such place")
	errBadAnswer = errors.New("unusable answer")
)

// openMeteo asks a geocoding service where a place is and a forecast service for the
// weather there. Both speak the API of Open-Meteo. It is immutable and safe for
// concurrent use. https://open-meteo.com/en/docs
type openMeteo struct {
	geocoding, forecast *url.URL // without query
	client              *http.Client
	timeout             time.Duration // of one request
}

// newOpenMeteo checks what get_weather needs of the config.
func newOpenMeteo(cfg Config) (*openMeteo, error) {
	geocoding, err := endpoint(cfg.GeocodingURL, "v1/search")
	if err != nil {
		return nil, fmt.Errorf("geocoding address: %w", err)
	}
	forecast, err := endpoint(cfg.WeatherURL, "v1/forecast")
	if err != nil {
		return nil, fmt.Errorf("weather address: %w", err)
	}
	if cfg.Client == nil {
		return nil, errors.New("needs an HTTP client")
	}
	// A call makes two requests one after the other. A third of its time each leaves the
	// last third, so that a service that does not answer is reported to the model before
	// the call itself times out.
	return &openMeteo{geocoding: geocoding, forecast: forecast, client: cfg.Client, timeout: cfg.Timeout / 3},
		nil
}

// endpoint returns the address of path below base. The error says what is wrong with
// base.
func endpoint(base, path string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("not an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("must begin with http:// or https:// and a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must have no user, query or fragment")
	}
	return u.JoinPath(path), nil
}

// place is one result of the geocoding service. Members that the service left out are nil
// or "".
type place struct {
	Name      string   `json:"name"`
	Region    string   `json:"admin1"`
	Country   string   `json:"country"`
	Latitude  *float64 `json:"latitude"`
	Longitude *float64 `json:"longitude"`
}

// forecast is the answer of the forecast service. Measurements that the service left out
// are nil.
type forecast struct {
	OffsetSeconds int `json:"utc_offset_seconds"`
	Current       struct {
		Time          string   `json:"time"`
		Temperature   *float64 `json:"temperature_2m"`
		FeelsLike     *float64 `json:"apparent_temperature"`
		Humidity      *float64 `json:"relative_humidity_2m"`
		Precipitation *float64 `json:"precipitation"`
		WindSpeed     *float64 `json:"wind_speed_10m"`
		Code          *float64 `json:"weather_code"`
	} `json:"current"`
}

// weather finds the place of that name and asks for its weather. Errors are errNoPlace,
// errBadAnswer, that of ctx or of the time limit of one request, or those of the HTTP
// client.
func (m *openMeteo) weather(ctx context.Context, name string, imperial bool) (*getWeatherResult, error) {
	where, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	units, asked := weatherUnits{"°C", "mm", "km/h"}, weatherUnits{"celsius", "mm", "kmh"}
	if imperial {
		units, asked = weatherUnits{"°F", "inch", "mph"}, weatherUnits{"fahrenheit", "inch", "mph"}
	}
	query := url.Values{
		"latitude": {coordinate(*where.Latitude)}, "longitude": {coordinate(*where.Longitude)},
		"current": {weatherCurrent}, "timezone": {"auto"},
		"temperature_unit": {asked.Temperature}, "wind_speed_unit": {asked.WindSpeed},
		"precipitation_unit": {asked.Precipitation},
	}
	var f forecast
	if err := m.get(ctx, m.forecast, query, &f); err != nil {
		return nil, err
	}
	if f.Current.Temperature == nil {
		return nil, errBadAnswer
	}
	return &getWeatherResult{
		Place: where.String(), Latitude: *where.Latitude, Longitude: *where.Longitude,
		Time: f.time(), Conditions: f.conditions(),
		Temperature: *f.Current.Temperature, FeelsLike: f.Current.FeelsLike, Humidity: f.Current.Humidity,
		Precipitation: f.Current.Precipitation, WindSpeed: f.Current.WindSpeed, Units: units,
	}, nil
}

// find returns the place that in the judgement of the service fits a name or postal code
// best. Its coordinates are not nil.
func (m *openMeteo) find(ctx context.Context, name string) (*place, error) {
	var answer struct {
		Results []place `json:"results"`
	}
	query := url.Values{"name": {name}, "count": {"1"}, "language": {"en"}, "format": {"json"}}
	if err := m.get(ctx, m.geocoding, query, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) == 0 {
		return nil, errNoPlace
	}
	p := &answer.Results[0]
	if !within(p.Latitude, 90) || !within(p.Longitude, 180) || p.String() == "" {
		return nil, errBadAnswer
	}
	return p, nil
}

// within tells whether the service gave a coordinate, and a possible one.
func within(degrees *float64, limit float64) bool {
	return degrees != nil && -limit <= *degrees && *degrees <= limit
}

func coordinate(degrees float64) string { return strconv.FormatFloat(degrees, 'f', -1, 64) }

// get sends a GET request for u with query, and decodes the answer into v. Only the query
// depends on what a caller wrote, and url.Values encodes every character that could end a
// value and begin another parameter. An answer that is no JSON, too large, or has another
// status than 200 is errBadAnswer.
func (m *openMeteo) get(ctx context.Context, u *url.URL, query url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	address := *u
	address.RawQuery = query.Encode()
	answer, err := fetch.Do(ctx, m.client, fetch.Request{
		Address: address.String(), Most: maxWeatherAnswer,
		Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"drawbridge"}},
	})
	switch {
	case err != nil:
		return fmt.Errorf("ask: %w", err)
	case answer.Status != http.StatusOK || len(answer.Body) > maxWeatherAnswer:
		return errBadAnswer
	}
	if err := strictjson.Unmarshal(answer.Body, v); err != nil {
		return fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	return nil
}

// String returns the names of place, region and country with commas between them. A name
// that is unknown or the same as the one before it is left out, as in Berlin, Germany.
func (p *place) String() string {
	var parts []string
	for _, part := range []string{p.Name, p.Region, p.Country} {
		if part != "" && (len(parts) == 0 || parts[len(parts)-1] != part) {
			parts = append(parts, clipped(part))
		}
	}
	return strings.Join(parts, ", ")
}

// clipped returns text, or its beginning when it is longer than maxPlaceName, cut between
// characters.
func clipped(text string) string {
	return strings.ToValidUTF8(text[:min(maxPlaceName, len(text))], "")
}

// time returns when the weather was observed, as RFC 3339, and "" when the service gave
// no usable time. The service writes local time without an offset, and the offset in a
// member of its own.
func (f *forecast) time() string {
	zone := time.FixedZone("", f.OffsetSeconds)
	local, err := time.ParseInLocation("2006-01-02T15:04", f.Current.Time, zone)
	if err != nil || f.OffsetSeconds > maxOffset || f.OffsetSeconds < -maxOffset {
		return ""
	}
	return local.Format(time.RFC3339)
}

// conditions returns the words for the weather code, "" for one that is absent or
// unknown.
func (f *forecast) conditions() string {
	if f.Current.Code == nil {
		return ""
	}
	return weatherCodes[*f.Current.Code]
}

// weatherCodes are the words for WMO weather codes as Open-Meteo uses them.
// https://open-meteo.com/en/docs
var weatherCodes = map[float64]string{
	0:  "clear sky",
	1:  "mainly clear",
	2:  "partly cloudy",
	3:  "overcast",
	45: "fog", 48: "fog",
	51: "drizzle", 53: "drizzle", 55: "drizzle",
	56: "freezing drizzle", 57: "freezing drizzle",
	61: "rain", 63: "rain", 65: "rain",
	66: "freezing rain", 67: "freezing rain",
	71: "snow", 73: "snow", 75: "snow", 77: "snow",
	80: "rain showers", 81: "rain showers", 82: "rain showers",
	85: "snow showers", 86: "snow showers",
	95: "thunderstorm",
	96: "thunderstorm with hail", 99: "thunderstorm with hail",
}
