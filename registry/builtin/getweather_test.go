package builtin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

const (
	berlin = `{"results":[{"id":1,"name":"Berlin","admin1":"Land Berlin","country":"Germany","latitude":52.52437,"longitude":13.41053}]}`
	cloudy = `{"utc_offset_seconds":7200,"current":{"time":"2026-07-28T14:15","temperature_2m":21.5,"apparent_temperature":20,` +
		`"relative_humidity_2m":40,"precipitation":0.0,"weather_code":3,"wind_speed_10m":12.25}}`
)

// meteo is a small Open-Meteo: one answer for each of the two paths.
type meteo struct {
	geocoding, forecast func(http.ResponseWriter, *http.Request)

	mu   sync.Mutex // guards the field below
	seen []string   // request targets, as they came
}

func (m *meteo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.seen = append(m.seen, r.RequestURI)
	m.mu.Unlock()
	switch r.URL.Path {
	case "/geo/v1/search":
		m.geocoding(w, r)
	case "/v1/forecast":
		m.forecast(w, r)
	default:
		http.NotFound(w, r)
	}
}

func says(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// weather returns get_weather over m.
func weather(t *testing.T, m *meteo, timeout time.Duration) registry.Offer {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return open(t, builtin.Config{
		GeocodingURL: server.URL + "/geo/", WeatherURL: server.URL, Client: client, Timeout: timeout,
	}, "get_weather")
}

func TestGetWeather(t *testing.T) {
	m := &meteo{geocoding: says(berlin), forecast: says(cloudy)}
	offer := weather(t, m, 0)
	for arguments, want := range map[string]string{
		`{"location":"Berlin"}`:                     `"units":{"temperature":"°C","precipitation":"mm","wind_speed":"km/h"}}`,
		`{"location":" 10115 ","units":"imperial"}`: `"units":{"temperature":"°F","precipitation":"inch","wind_speed":"mph"}}`,
	} {
		want = `{"place":"Berlin, Land Berlin, Germany","latitude":52.52437,"longitude":13.41053,"time":"2026-07-28T14:15:00+02:00",` +
			`"conditions":"overcast","temperature":21.5,"feels_like":20,"humidity":40,"precipitation":0,"wind_speed":12.25,` + want
		if got := textOf(t, call(t, offer, arguments)); got != want {
			t.Errorf("%s\n got %s\nwant %s", arguments, got, want)
		}
	}
}

func TestGetWeatherAsksInTheUnitsThatAreWanted(t *testing.T) {
	for units, want := range map[string]string{
		"metric":   "&precipitation_unit=mm&temperature_unit=celsius&timezone=auto&wind_speed_unit=kmh",
		"imperial": "&precipitation_unit=inch&temperature_unit=fahrenheit&timezone=auto&wind_speed_unit=mph",
	} {
		m := &meteo{geocoding: says(berlin), forecast: says(cloudy)}
		call(t, weather(t, m, 0), fmt.Sprintf(`{"location":"Berlin","units":%q}`, units))
		want := []string{
			"/geo/v1/search?count=1&format=json&language=en&name=Berlin",
			"/v1/forecast?current=temperature_2m%2Crelative_humidity_2m%2Capparent_temperature%2Cprecipitation%2Cweather_code%2Cwind_speed_10m" +
				"&latitude=52.52437&longitude=13.41053" + want,
		}
		if strings.Join(m.seen, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: asked %q, want %q", units, m.seen, want)
		}
	}
}

// What the service leaves out is left out; what it says in excess is cut or dropped.
func TestGetWeatherKeepsWhatFits(t *testing.T) {
	m := &meteo{
		geocoding: says(`{"results":[{"name":"` + strings.Repeat("ü", 300) +
			`","country":"X","latitude":-90,"longitude":180}]}`),
		forecast: says(
			`{"utc_offset_seconds":-9223372036854775808,"current":{"time":"soon","temperature_2m":-3,"weather_code":1e300}}`),
	}
	got := textOf(t, call(t, weather(t, m, 0), `{"location":"x"}`))
	want := `{"place":"` + strings.Repeat("ü", 100) +
		`, X","latitude":-90,"longitude":180,"temperature":-3,` +
		`"units":{"temperature":"°C","precipitation":"mm","wind_speed":"km/h"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestGetWeatherFailsCleanly(t *testing.T) {
	const unusable, leak = "an answer that cannot be used", "upstream-says-secret"
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, leak, code) }
	}
	for name, test := range map[string]struct {
		geocoding, forecast func(http.ResponseWriter, *http.Request)
		want                string
	}{
		"unknown place": {says(`{"generationtime_ms":0.5}`), nil, "No place was found"},
		"no results":    {says(`{"results":[]}`), nil, "No place was found"},
		"null results":  {says(`{"results":null}`), nil, "No place was found"},
		"server error":  {status(500), nil, unusable},
		"refused":       {status(400), nil, unusable},
		"redirect": {func(w http.ResponseWriter,
			r *http.Request,
		) {
			http.Redirect(w, r, "/v1/forecast", http.StatusFound)
		}, nil, unusable},
		"no JSON":        {says("<html>" + leak), nil, unusable},
		"repeated names": {says(`{"results":[],"results":[{"name":"` + leak + `"}]}`), nil, unusable},
		"wrong types":    {says(`{"results":"` + leak + `"}`), nil, unusable},
		"no coordinates": {says(`{"results":[{"name":"` + leak + `"}]}`), nil, unusable},
		"impossible place": {
			says(`{"results":[{"name":"` + leak + `","latitude":90.1,"longitude":0}]}`),
			nil, unusable,
		},
		"text for a number": {says(`{"results":[{"name":"x","latitude":"1&current=` + leak +
			`","longitude":0}]}`), nil, unusable},
		"nameless place": {says(`{"results":[{"latitude":1,"longitude":0}]}`), nil, unusable},
		"too long":       {says(strings.Repeat(" ", 256<<10) + berlin), nil, unusable},
		"too deep":       {says(strings.Repeat("[", 100_000)), nil, unusable},
		"forecast error": {says(berlin), status(503), unusable},
		"empty forecast": {says(berlin), says(`{}`), unusable},
		"forecast too long": {
			says(berlin),
			says(`{"current":{"temperature_2m":1}}` + strings.Repeat(" ", 256<<10)), unusable,
		},
		"hangs up": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil,
			"cannot be reached",
		},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, leak)
		}, nil, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			offer := weather(t, &meteo{geocoding: test.geocoding, forecast: test.forecast}, 0)
			got := refusal(t, call(t, offer, `{"location":"Berlin"}`))
			if !strings.Contains(got, test.want) || strings.Contains(got, leak) ||
				strings.Contains(got, "127.0.0.1") {
				t.Errorf("got %q, want %q and nothing of the service", got, test.want)
			}
		})
	}
}

func TestGetWeatherUnreachable(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close()
	offer := open(t, builtin.Config{GeocodingURL: address, WeatherURL: address, Client: &http.Client{}},
		"get_weather")
	if got := refusal(t, call(t, offer,
		`{"location":"Berlin"}`)); got != "The weather service cannot be reached. Try again later." {
		t.Errorf("got %q", got)
	}
}

func TestGetWeatherIsTimed(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	offer := weather(t, &meteo{geocoding: says(berlin), forecast: hang}, 150*time.Millisecond)
	if got := refusal(t, call(t, offer, `{"location":"Berlin"}`)); !strings.Contains(got,
		"did not answer in time") {
		t.Errorf("got %q", got)
	}
}

func TestGetWeatherEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }
	offer := weather(t, &meteo{geocoding: hang}, 0)
	if _, err := tryCall(ctx, t, offer, `{"location":"Berlin"}`); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// Whatever an argument holds, the service sees one request line with one query of four
// values, and the name in it is the argument.
func TestT3ArgumentsStayInsideTheQuery(t *testing.T) {
	for _, location := range []string{
		"../", "../../v1/forecast", "..%2f..%2fadmin", "%2e%2e%2f", "%00", "?", "?name=x", "#", "#fragment",
		"&", "&count=100&name=x",
		"a&name=b", "a=b", ";", "a;b=c", "+", "a b", "a\r\nHost: evil\r\n\r\nGET /admin HTTP/1.1", "a\nb",
		"a\rb", "a\tb", "a\x00b",
		"//evil.example/", "http://evil.example/", "@evil.example", "\\", "Zürich", "東京", "🏰", "\u202Eabc",
		"\"<>{}|^`", "%", "%zz",
	} {
		got := rawRequest(t, location)
		want := "GET /base/v1/search?count=1&format=json&language=en&name=" + url.QueryEscape(location) +
			" HTTP/1.1"
		if got[0] != want {
			t.Errorf("%q: request line\n got %q\nwant %q", location, got[0], want)
		}
		_, query, _ := strings.Cut(strings.Fields(got[0])[1], "?")
		values, err := url.ParseQuery(query)
		if err != nil || len(values) != 4 || len(values["name"]) != 1 || values.Get("name") != location {
			t.Errorf("%q: the query reads as %v, %v", location, values, err)
		}
		for _, header := range got[1:] {
			name, _, _ := strings.Cut(header, ":")
			if !slices.Contains([]string{"Host", "Accept", "User-Agent", "Accept-Encoding"}, name) {
				t.Errorf("%q: unexpected header %q", location, header)
			}
		}
	}
}

func TestT3EmptyAndLongLocationsAskNobody(t *testing.T) {
	m := &meteo{}
	offer := weather(t, m, 0)
	for _, location := range []string{"", " ", "\t\r\n", strings.Repeat("ü", 101)} {
		if got := refusal(t, call(t, offer, fmt.Sprintf(`{"location":%s}`,
			mcp.String(location)))); !strings.Contains(got, "must be a city") {
			t.Errorf("%q: got %q", location, got)
		}
	}
	if len(m.seen) != 0 {
		t.Errorf("asked %q", m.seen)
	}
}

// rawRequest returns the lines of the head that get_weather sends, as bytes off the wire.
func rawRequest(t *testing.T, location string) []string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heads := make(chan []string, 1)
	go func() { // ends with the listener, or when the request is read; the channel is waited for below
		defer close(heads)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var lines []string
		for reader := bufio.NewReader(conn); ; {
			line, err := reader.ReadString('\n')
			if line = strings.TrimSuffix(line, "\r\n"); err != nil || line == "" {
				break
			}
			lines = append(lines, line)
		}
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		heads <- lines
	}()
	address := "http://" + listener.Addr().String() + "/base"
	cfg := builtin.Config{
		GeocodingURL: address, WeatherURL: address,
		Client: &http.Client{Transport: &http.Transport{}},
	}
	refusal(t, call(t, open(t, cfg, "get_weather"), fmt.Sprintf(`{"location":%s}`, mcp.String(location))))
	lines := <-heads
	if len(lines) == 0 {
		t.Fatalf("%q: no request came", location)
	}
	return lines
}
