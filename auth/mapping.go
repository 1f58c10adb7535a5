package auth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxFound  = 256 // bytes of a claim's value in an Error
	maxWanted = 16  // values that an Error says were expected

	maxTokenID  = 128 // bytes of a token's id that are kept
	maxRecorded = 128 // bytes of a claim that is kept for records
)

// mapping is what the claims of an issuer's tokens mean here: which tenants, scopes and
// names they become, and what they must say. It is never changed.
type mapping struct {
	tenant     string // of every token; "": tenantAt tells it
	tenantAt   claimPath
	tenants    map[string]string // the tenant for each value that is believed
	scopesAt   []claimPath
	scopes     map[string]string // the scope for a value; one that is not there stands for itself
	require    map[string]string // what a claim must be, by the text of its path
	requireAt  []claimPath
	subjectAt  claimPath // not set: sub
	nameAt     claimPath // not set: nobody has a name
	recordedAt []claimPath
	wantsValue []string // the values of tenants, sorted, for errors
}

// newMapping returns the mapping of the issuer cfg, or what is wrong with it.
func newMapping(cfg *Issuer) (*mapping, error) {
	if err := checkTenant(cfg); err != nil {
		return nil, err
	}
	m := &mapping{
		tenant: cfg.Tenant, tenants: maps.Collect(maps.All(cfg.TenantMap)),
		scopes: maps.Clone(cfg.ScopeMap), require: maps.Clone(cfg.Require),
	}
	for _, id := range cfg.TenantsAllowed {
		m.tenants[id] = id
	}
	m.wantsValue = slices.Sorted(maps.Keys(m.tenants))
	var faults []error
	path := func(setting, text string) claimPath {
		p, err := newClaimPath(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %q: %w", setting, text, err))
		}
		return p
	}
	m.tenantAt = path("the claim of the tenant", cfg.TenantClaim)
	m.subjectAt = path("the claim of the subject", cfg.SubjectClaim)
	m.nameAt = path("the claim of the name", cfg.NameClaim)
	for _, text := range cfg.Recorded {
		m.recordedAt = append(m.recordedAt, path("a claim for the records", text))
	}
	for _, text := range cfg.ScopeClaims {
		m.scopesAt = append(m.scopesAt, path("a claim of scopes", text))
	}
	if len(m.scopesAt) == 0 {
		m.scopesAt = []claimPath{{text: "scope", steps: []string{"scope"}}}
	}
	for _, text := range slices.Sorted(maps.Keys(cfg.Require)) {
		m.requireAt = append(m.requireAt, path("a claim that is required", text))
	}
	return m, errors.Join(faults...)
}

// checkTenant returns an error unless it is said in exactly one way which tenant the
// issuer's tokens are for.
func checkTenant(cfg *Issuer) error {
	fromClaim := cfg.TenantClaim != "" || len(cfg.TenantsAllowed) > 0 || len(cfg.TenantMap) > 0
	switch {
	case cfg.Tenant != "" && fromClaim:
		return errors.New("both a tenant and a tenant claim")
	case cfg.Tenant != "":
		return nil
	case cfg.TenantClaim == "" || len(cfg.TenantsAllowed)+len(cfg.TenantMap) == 0:
		return errors.New("needs a tenant, or a tenant claim together with the tenants allowed")
	case len(cfg.TenantsAllowed) > 0 && len(cfg.TenantMap) > 0:
		return errors.New("both a map of tenants and tenants allowed")
	case slices.Contains(cfg.TenantsAllowed, ""):
		return errors.New("an allowed tenant without a name")
	}
	for value, tenant := range cfg.TenantMap {
		if value == "" || tenant == "" {
			return errors.New("a map of tenants with an empty value or tenant")
		}
	}
	return nil
}

// isSame tells whether tokens mean the same by both mappings, apart from their tenants.
func (m *mapping) isSame(other *mapping) bool {
	return m.subjectAt.text == other.subjectAt.text &&
		maps.Equal(m.scopes, other.scopes) && maps.Equal(m.require, other.require) &&
		slices.EqualFunc(m.scopesAt, other.scopesAt, func(a, b claimPath) bool { return a.text == b.text })
}

// check returns an *Error if a claim is not what it must be.
func (m *mapping) check(c *claims) error {
	for i := range m.requireAt {
		at := &m.requireAt[i]
		value, want := at.in(c), m.require[at.text]
		if !says(value, want) {
			return unfit("claims", at, value, []string{want},
				errors.New("a claim that is required is not there, or is another"))
		}
	}
	return nil
}

// says tells whether a claim is that text, number or truth value, or a list that has it.
func says(value []byte, want string) bool {
	if len(value) == 0 || value[0] != '[' {
		return isValue(value, want)
	}
	elements, _ := strictjson.Elements[[]byte](value) // it was checked
	return slices.ContainsFunc(elements, func(element []byte) bool { return isValue(element, want) })
}

// isValue tells whether a JSON value is that text, number or truth value.
func isValue(value []byte, want string) bool {
	if len(value) == 0 || value[0] == '{' || value[0] == '[' {
		return false
	}
	if text, ok := strictjson.Text(value); ok {
		return text == want
	}
	return string(value) == want
}

// tenantsOf returns the tenants that the claims are for, in the order in which they name
// them: at least one, each once. It returns the values that name them, too.
func (m *mapping) tenantsOf(c *claims) (tenants, values []string, err error) {
	if m.tenant != "" {
		return []string{m.tenant}, nil, nil
	}
	claim := m.tenantAt.in(c)
	values, ok := audience(claim)
	if !ok {
		cause := errors.New("the claim of the tenant is not there, or is neither text nor a list of texts")
		if isOverage(c, &m.tenantAt) {
			cause = errors.New("the issuer left the groups out because there are too many: let it put only " +
				"groups that are assigned to the application into tokens, or use roles of the application")
		}
		return nil, nil, unfit("tenant", &m.tenantAt, claim, m.wantsValue, cause)
	}
	tenants, believed := m.believed(values)
	if len(tenants) == 0 {
		return nil, nil, unfit("tenant", &m.tenantAt, claim, m.wantsValue,
			errors.New("no value of the claim is a tenant that this issuer may name"))
	}
	return tenants, believed, nil
}

// believed returns the tenants for values of the claim, each once, and the values that
// lead to them.
func (m *mapping) believed(values []string) (tenants, of []string) {
	for _, value := range values {
		tenant, ok := m.tenants[value]
		if ok && !slices.Contains(of, value) {
			of = append(of, value)
		}
		if ok && !slices.Contains(tenants, tenant) {
			tenants = append(tenants, tenant)
		}
	}
	return tenants, of
}

// isOverage tells whether an issuer says that the claim stands elsewhere, as Microsoft
// Entra does with more than two hundred groups.
// https://openid.net/specs/openid-connect-core-1_0.html#AggregatedDistributedClaims
func isOverage(c *claims, at *claimPath) bool {
	return inside(c.member("_claim_names"), at.steps[0]) != nil
}

// scopesOf returns the scopes of all claims that have any, each once.
func (m *mapping) scopesOf(c *claims) ([]string, error) {
	var scopes []string
	for i := range m.scopesAt {
		at := &m.scopesAt[i]
		list, ok := words(at.in(c))
		if !ok {
			return nil, unfit("claims", at, at.in(c), nil,
				errors.New("the claim of scopes is neither text nor a list of texts"))
		}
		if len(m.scopesAt) == 1 && len(m.scopes) == 0 {
			return list, nil
		}
		for _, word := range list {
			if mapped, is := m.scopes[word]; is {
				word = mapped
			}
			if !slices.Contains(scopes, word) {
				scopes = append(scopes, word)
			}
		}
	}
	return scopes, nil
}

// subjectOf returns who the claims are about.
func (m *mapping) subjectOf(c *claims) (string, error) {
	if !m.subjectAt.isSet() {
		return c.subject, nil
	}
	subject, ok := name(m.subjectAt.in(c))
	if !ok || subject == "" {
		return "", unfit("claims", &m.subjectAt, m.subjectAt.in(c), nil,
			errors.New("the claim of the subject is not there, or is no text of 1 to 255 bytes"))
	}
	return subject, nil
}

// nameOf returns what people call who the claims are about, "" if they do not say.
func (m *mapping) nameOf(c *claims) string {
	called, ok := name(m.nameAt.in(c))
	if !ok {
		return ""
	}
	return called
}

// recordedOf returns what the claims for the records say: a text as it is, anything else
// as JSON. The principal is remembered for as long as its token lasts, so that of each
// only the beginning is kept.
func (m *mapping) recordedOf(c *claims) [][2]string {
	var recorded [][2]string
	for i := range m.recordedAt {
		at := &m.recordedAt[i]
		value := at.in(c)
		if value == nil {
			continue
		}
		said, ok := strictjson.Text(value)
		if !ok {
			said = string(value)
		}
		recorded = append(recorded, [2]string{at.text, beginning(said, maxRecorded)})
	}
	return recorded
}

// beginning returns a copy of the first bytes of a text, so that the whole is not kept.
func beginning(text string, most int) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), most)]), "")
}

// unfit returns an *Error that says which claim is at fault, what stands there and what
// was expected.
func unfit(reason string, at *claimPath, found []byte, wanted []string, cause error) error {
	return &Error{
		Reason: reason, Err: cause, Claim: at.text,
		Found:    strings.ToValidUTF8(string(found[:min(len(found), maxFound)]), ""),
		Expected: wanted[:min(len(wanted), maxWanted)],
	}
}
