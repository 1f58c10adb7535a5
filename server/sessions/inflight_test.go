package sessions

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestAllWhoWaitForTheEndOfJobsAreTold has two wait for the end of what a session runs,
// as two requests do that end it at once.
func TestAllWhoWaitForTheEndOfJobsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &Session{}, &exchange.Job{ID: "1"}
		if refused := l.Enter(j, false, nil); refused != nil {
			t.Fatal(refused.Err)
		}
		began := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { l.AwaitJobs(t.Context()) })
		}
		time.AfterFunc(time.Second, func() { l.EndJob(j) })
		both.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("both were told after %v, want a second, when the call ended", took)
		}
	})
}
