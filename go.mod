module github.com/drawbridge-mcp/drawbridge

go 1.26.5

require (
	code.dny.dev/ssrf v0.3.0
	github.com/go-jose/go-jose/v4 v4.1.8
	github.com/go-json-experiment/json v0.0.0-20260623181947-01eb4420fa68
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/google/go-cmp v0.7.0
	go.uber.org/goleak v1.3.0
	golang.org/x/text v0.43.0
)

require golang.org/x/time v0.15.0

require github.com/prometheus/client_golang v1.25.0 // indirect
