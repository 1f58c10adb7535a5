package gateway

import "github.com/drawbridge-mcp/drawbridge/registry"

// CheckTenants returns every problem for which SetTenants would refuse the tenants, nil when there is none. It needs no
// gateway, so that a config can be checked before one is made.
func CheckTenants(tenants []TenantConfig) error {
	_, err := newDirectory(tenants, &directory{})
	return err
}

// UnmatchedIn returns what Unmatched would return of a gateway that has these tenants and this catalogue. The error is
// that of CheckTenants; then there is no result.
func UnmatchedIn(catalogue *registry.Registry, tenants []TenantConfig) ([]Unmatched, error) {
	g := New(Config{Registry: catalogue}) // SetTenants and Unmatched use nothing else of the config
	if err := g.SetTenants(tenants); err != nil {
		return nil, err
	}
	return g.Unmatched(), nil
}
