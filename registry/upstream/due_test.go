package upstream

import (
	"context"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestOpenPipeIsNotTakenForNews shows when the lists of a child are read again that says
// nothing of changes, whatever it declares.
func TestOpenPipeIsNotTakenForNews(t *testing.T) {
	t.Parallel()
	for declares, want := range map[string]topics{
		`{"tools":{"listChanged":false},"prompts":{"listChanged":true},"resources":{}}`: everyTopic,
		`{"tools":{"listChanged":true},"prompts":{"listChanged":"true"}}`:               topicTools | topicPrompts,
		`{"resources":{"listChanged":true,"x":{"y":1}}}`:                                topicResources,
		`{}`: topicTools,
	} {
		c := newConnection(&Config{Name: "up"})
		c.hearBy(&legacy{streaming: make(chan struct{})})
		capabilities, err := mcp.ParseObject([]byte(declares))
		if err != nil {
			t.Fatal(err)
		}
		c.declare(capabilities)
		c.Following(true, false) // as over a pipe
		l := newLists(&control{connection: c}, (*legacy)(nil).page)
		for after, want := range map[time.Duration]topics{
			freshMax - time.Minute: 0,
			freshMax + time.Minute: want,
		} {
			for _, one := range l.all() {
				one.read, one.fresh = time.Now().Add(-after), checkEvery
			}
			if got := l.due(); got != want {
				t.Errorf("%s: after %v due are %b, want %b", declares, after, got, want)
			}
		}
	}
}

// TestTheLeastThatAPageSaysCounts has the second page of a list say the longest time that
// there is: how long the list is fresh is still what the first one says.
func TestTheLeastThatAPageSaysCounts(t *testing.T) {
	t.Parallel()
	one := &listing{method: mcp.MethodSkillsList, member: "skills", key: "uri"}
	got := one.fetch(t.Context(), &connection{}, func(_ context.Context, _ string, params mcp.Object) (mcp.Object, error) {
		if params.Len() == 0 {
			return mcp.ParseObject([]byte(`{"skills":[],"ttlMs":60000,"nextCursor":"x"}`))
		}
		return mcp.ParseObject([]byte(`{"skills":[],"ttlMs":9223372036854775807}`))
	})
	if got.err != nil || got.ttl != time.Minute || got.fresh != time.Minute {
		t.Errorf("got ttl %v, fresh %v, %v, want a minute", got.ttl, got.fresh, got.err)
	}
}
