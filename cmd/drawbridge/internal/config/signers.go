package config

import "github.com/drawbridge-mcp/drawbridge/internal/gateway"

// LoadSigners reads only what is needed to sign a token: the issuers with their keys, the
// ids of tenants and the address of the gateway. It neither checks nor returns the rest
// of the config, so that a token can be had while the config is not finished, and on a
// machine where the variables with the servers' secrets are not set. The errors are those
// of Load.
func LoadSigners(path string, env Environment) (*Config, error) {
	data, _, err := readFile(path)
	if err != nil {
		return nil, err
	}
	r := newReader(path, data, nil, env)
	return r.parse(data, r.signers)
}

// signers is to LoadSigners what reader.config is to Load. It ignores the keys that it
// does not know.
func (r *reader) signers() {
	known := r.topFields()
	if !r.includes(r.root, known) {
		return
	}
	r.index = r.newIndex()
	r.entries(r.root, "the config", func(m member) {
		switch m.name {
		case "listen", "public_url":
			known[m.name](m.value)
		case "tenants":
			r.entries(m.value, "tenants", func(m member) {
				r.cfg.Tenants = append(r.cfg.Tenants, gateway.TenantConfig{ID: m.name})
			})
		}
	})
	if n := r.root.member("issuers"); n != nil {
		r.issuers(n)
	}
	r.need(r.root, "the config", "issuers", "tenants")
}
