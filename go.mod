module github.com/drawbridge-mcp/drawbridge

go 1.26.5
