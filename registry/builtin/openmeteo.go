package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxWeatherAnswer = 256 << 10 // bytes
	maxPlaceName     = 200       // bytes of each part of a place's name
	maxOffset        = 24 * 60 * 60
	weatherCurrent   = "temperature_2m,relative_humidity_2m,apparent_temperature,precipitation,weather_code,wind_speed_10m"
)

var (
	errNoPlace   = errors.New("no such place")
	errBadAnswer = errors.New("unusable answer")
)

// openMeteo asks a geocoding and a forecast service of the Open-Meteo shape.
// https://open-meteo.com/en/docs
type openMeteo struct {
	geocoding, forecast *url.URL // without query
	client              *http.Client
	timeout             time.Duration // of one request
}

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
	// Two requests are made. What is left of the call's time lets the model be told which way it failed.
	return &openMeteo{geocoding: geocoding, forecast: forecast, client: cfg.Client, timeout: cfg.Timeout / 3}, nil
}

// endpoint returns the address of path below base.
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

type place struct {
	Name      string   `json:"name"`
	Region    string   `json:"admin1"`
	Country   string   `json:"country"`
	Latitude  *float64 `json:"latitude"`
	Longitude *float64 `json:"longitude"`
}

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

// weather finds the place and asks for its weather.
func (m *openMeteo) weather(ctx context.Context, name string, imperial bool) (*getWeatherResult, error) {
	where, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	units := weatherUnits{"°C", "mm", "km/h"}
	query := url.Values{
		"latitude": {coordinate(*where.Latitude)}, "longitude": {coordinate(*where.Longitude)},
		"current": {weatherCurrent}, "timezone": {"auto"},
		"temperature_unit": {"celsius"}, "wind_speed_unit": {"kmh"}, "precipitation_unit": {"mm"},
	}
	if imperial {
		units = weatherUnits{"°F", "inch", "mph"}
		query.Set("temperature_unit", "fahrenheit")
		query.Set("wind_speed_unit", "mph")
		query.Set("precipitation_unit", "inch")
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
		Time: f.time(), Conditions: conditions(f.Current.Code),
		Temperature: *f.Current.Temperature, FeelsLike: f.Current.FeelsLike, Humidity: f.Current.Humidity,
		Precipitation: f.Current.Precipitation, WindSpeed: f.Current.WindSpeed, Units: units,
	}, nil
}

// find returns the place that fits a name or a postal code best.
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

func within(degrees *float64, limit float64) bool {
	return degrees != nil && -limit <= *degrees && *degrees <= limit
}

func coordinate(degrees float64) string { return strconv.FormatFloat(degrees, 'f', -1, 64) }

// get asks for u with query and decodes the answer into v. The query is the only part of the request that depends on
// a caller, and url.Values leaves no character in it that could end a value.
func (m *openMeteo) get(ctx context.Context, u *url.URL, query url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	address := *u
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "drawbridge")
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the answer was read or is not wanted
	body, err := io.ReadAll(io.LimitReader(response.Body, maxWeatherAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read answer: %w", err)
	case response.StatusCode != http.StatusOK || len(body) > maxWeatherAnswer:
		return errBadAnswer
	}
	if err := strictjson.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	return nil
}

// String returns the place with region and country, as far as they are known and differ.
func (p *place) String() string {
	var parts []string
	for _, part := range []string{p.Name, p.Region, p.Country} {
		if part != "" && (len(parts) == 0 || parts[len(parts)-1] != part) {
			parts = append(parts, clipped(part))
		}
	}
	return strings.Join(parts, ", ")
}

// clipped returns the beginning of text, cut between characters.
func clipped(text string) string {
	if len(text) <= maxPlaceName {
		return text
	}
	end := maxPlaceName
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// time returns when the weather was observed, "" when that cannot be told.
func (f *forecast) time() string {
	local, err := time.Parse("2006-01-02T15:04", f.Current.Time)
	if err != nil || f.OffsetSeconds > maxOffset || f.OffsetSeconds < -maxOffset {
		return ""
	}
	zone := time.FixedZone("", f.OffsetSeconds)
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, zone).Format(time.RFC3339)
}

// conditions returns the words for a WMO weather code, "" for one that is not used.
func conditions(code *float64) string {
	if code == nil {
		return ""
	}
	switch *code {
	case 0:
		return "clear sky"
	case 1:
		return "mainly clear"
	case 2:
		return "partly cloudy"
	case 3:
		return "overcast"
	case 45, 48:
		return "fog"
	case 51, 53, 55:
		return "drizzle"
	case 56, 57:
		return "freezing drizzle"
	case 61, 63, 65:
		return "rain"
	case 66, 67:
		return "freezing rain"
	case 71, 73, 75, 77:
		return "snow"
	case 80, 81, 82:
		return "rain showers"
	case 85, 86:
		return "snow showers"
	case 95:
		return "thunderstorm"
	case 96, 99:
		return "thunderstorm with hail"
	}
	return ""
}
