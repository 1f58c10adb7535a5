package server

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/session"
)

func endOf(n int) (key sessionKey) {
	binary.BigEndian.PutUint64(key[:], uint64(n))
	return key
}

// TestEndsOfAllTenantsHadNoBound: each tenant's ends had a bound, and the sum of them grew with the number of tenants.
func TestEndsOfAllTenantsHadNoBound(t *testing.T) {
	t.Parallel()
	m, now := newMarks(), time.Now()
	m.add("quiet", endOf(0), session.Key{Name: "mine"}, now)
	for n := range allMarks + 1000 {
		m.add(fmt.Sprint("loud", n%20), endOf(n), session.Key{Name: "mine"}, now)
	}
	if n := len(m.mine(now)); n != allMarks {
		t.Errorf("%d ends are remembered, want %d", n, allMarks)
	}
	if !m.has("quiet", endOf(0)) {
		t.Error("the end of a tenant with few was forgotten for those of others")
	}
	if last := allMarks + 999; !m.has(fmt.Sprint("loud", last%20), endOf(last)) || m.has("loud0", endOf(0)) {
		t.Error("of a tenant with many the newest were forgotten")
	}
	if m.tidy(now.Add(2 * markTime)); m.count != 0 || len(m.tenants) != 0 {
		t.Errorf("after their time %d ends of %d tenants are remembered, want none", m.count, len(m.tenants))
	}
}
