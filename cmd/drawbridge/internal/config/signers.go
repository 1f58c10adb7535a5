package config

import "github.com/drawbridge-mcp/drawbridge/internal/gateway"

// LoadSigners reads only what is needed to sign a token: the issuers with their keys, the
// ids of tenants and the address of the gateway. It neither checks nor returns the rest
// of the config, so that a token can be had while the config is not finished, and on a
// machine where the variables with the servers' secrets are not set. The errors are those
// of Load.
func LoadSigners(path string, env Environment) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	r := newReader(path, data, nil, env)
	return r.parse(data, r.signers)
}

// signers is to LoadSigners what reader.config is to Load. It ignores the keys that it
// does not know.
func (r *reader) signers() {
	known := fields{
		"listen":     into(&r.cfg.Listen, r.address),
		"public_url": into(&r.cfg.PublicURL, r.publicURL),
		"issuers":    r.issuers,
		"tenants": func(n *node) {
			r.entries(n, "tenants", func(m member) {
				r.cfg.Tenants = append(r.cfg.Tenants, gateway.TenantConfig{ID: m.name})
			})
		},
	}
	if !r.includes(r.root, r.topFields()) {
		return
	}
	whole := r.entries(r.root, "the config", func(m member) {
		if read := known[m.name]; read != nil {
			read(m.value)
		}
	})
	if whole && r.need(r.root, "the config", "issuers", "tenants") {
		r.finish()
	}
}
