package sqlitefile

import (
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// TestCloseClosesAllStatements shows that a connection is closed with all statements that
// are open, which after a panic may be several.
func TestCloseClosesAllStatements(t *testing.T) {
	for open := range 6 {
		c, err := sqlite3.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		for range open {
			if _, _, err := c.Prepare("SELECT 1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := Close(c); err != nil {
			t.Errorf("with %d statements: %v", open, err)
		}
	}
}
