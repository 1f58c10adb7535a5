package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const maxLocation = 100 // characters

//go:embed getweather.json
var getWeatherDefinition string

// weatherUnits are the units of the numbers in a result, such as °C, mm and km/h.
type weatherUnits struct {
	Temperature   string `json:"temperature"`
	Precipitation string `json:"precipitation"`
	WindSpeed     string `json:"wind_speed"`
}

// getWeatherResult is the structured content; getWeatherDefinition says what its members
// mean. nil means that the service did not say.
type getWeatherResult struct {
	Place         string       `json:"place"`
	Latitude      float64      `json:"latitude"`
	Longitude     float64      `json:"longitude"`
	Time          string       `json:"time,omitempty"`
	Conditions    string       `json:"conditions,omitempty"`
	Temperature   float64      `json:"temperature"`
	FeelsLike     *float64     `json:"feels_like,omitzero"`
	Humidity      *float64     `json:"humidity,omitzero"`
	Precipitation *float64     `json:"precipitation,omitzero"`
	WindSpeed     *float64     `json:"wind_speed,omitzero"`
	Units         weatherUnits `json:"units"`
}

// newGetWeather makes the tool get_weather.
func newGetWeather(cfg Config) (registry.Func, error) {
	meteo, err := newOpenMeteo(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		args := arguments(c)
		name := strings.TrimSpace(args.Text("location"))
		if name == "" || utf8.RuneCountInString(name) > maxLocation {
			return mcp.Object{}, registry.Usagef(
				`The location must be a city such as "Berlin" or a postal code, of at most %d characters.`,
				maxLocation)
		}
		imperial := args.Text("units") == "imperial"
		result, err := meteo.weather(ctx, name, imperial)
		if err == nil {
			return structuredResult(result), nil
		}
		if ctx.Err() != nil { // the caller left or the whole call timed out, which the gateway answers
			return mcp.Object{}, fmt.Errorf("look up weather: %w", ctx.Err())
		}
		return mcp.Object{}, registry.Usagef("%s", weatherFault(err))
	}, nil
}

// weatherFault words an error of openMeteo.weather for the model. It repeats nothing that
// the service said, which may be anything.
func weatherFault(err error) string {
	switch {
	case errors.Is(err, errNoPlace):
		return `No place was found for that location. ` +
			`Give the name of a city alone, such as "Berlin", or a postal code.`
	case errors.Is(err, context.DeadlineExceeded):
		return "The weather service did not answer in time. Try again later."
	case errors.Is(err, errBadAnswer):
		return "The weather service gave an answer that cannot be used. Try again later."
	}
	return "The weather service cannot be reached. Try again later."
}
