package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// moment is what all parts hold while nobody works.
type moment struct {
	name  string
	at    time.Duration // since the beginning
	lives int64         // sessions that were opened, used and ended since then
	usage map[string]world.Usage
	redis holding
}

// holding is what Redis holds.
type holding struct {
	used  int64 // bytes
	kinds map[string]kind
}

// kind is all keys of one kind, such as session.
type kind struct {
	keys  int
	bytes int64
}

// countScript tells of each kind of keys how many there are, and how many bytes they
// take.
const countScript = `local n, b, out = {}, {}, {}
for _, key in ipairs(redis.call('KEYS', 'db2:*')) do
  local kind = string.match(key, '^db2:{[^}]*}:(%a+)') or string.match(key, '^db2:(%a+)')
  n[kind] = (n[kind] or 0) + 1
  b[kind] = (b[kind] or 0) + redis.call('MEMORY', 'USAGE', key)
end
for kind, keys in pairs(n) do out[#out + 1] = kind .. ' ' .. keys .. ' ' .. b[kind] end
return out`

// removeScript removes the keys of the kinds in its arguments, which are names and lives
// in milliseconds in turn, that will end by themselves within the life of their kind. Of
// all kinds it returns, one in a line, those of which keys never end, or end later than
// that.
const removeScript = `local life, wrong, out = {}, {}, {}
for i = 1, #ARGV, 2 do life[ARGV[i]] = tonumber(ARGV[i + 1]) end
for _, key in ipairs(redis.call('KEYS', 'db2:*')) do
  local kind = string.match(key, '^db2:{[^}]*}:(%a+)') or string.match(key, '^db2:(%a+)')
  local left = redis.call('PTTL', key)
  local why
  if left == -1 then why = ' never ends'
  elseif life[kind] and left > life[kind] then why = ' lives too long'
  elseif life[kind] then redis.call('DEL', key) end
  if why then wrong[kind .. why] = (wrong[kind .. why] or 0) + 1 end
end
for what, keys in pairs(wrong) do out[#out + 1] = what .. ': ' .. keys .. ' keys' end
table.sort(out)
return out`

// staying are the kinds of keys that live for longer than it takes to measure, and how
// long they live at most, as docs/replicas.md says: the entry of a session that was not
// ended, answers of calls under a key, and used states.
var staying = map[string]time.Duration{
	"session": 37 * time.Minute, "once": 10 * time.Minute, "used": 11 * time.Minute,
}

func stays(kind string) bool { return staying[kind] > 0 }

// removal is the command that runs removeScript.
func removal() []string {
	command := []string{"EVAL", removeScript, "0"}
	for kind, life := range staying {
		command = append(command, kind, strconv.FormatInt(life.Milliseconds(), 10))
	}
	return command
}

// measure waits until nothing is left of what clients did, and looks at what all parts
// hold. Nobody may be at work.
func (s *soak) measure(ctx context.Context, name string) *moment {
	quiet := time.Now()
	s.well(ctx)
	world.Pause(ctx, time.Until(quiet.Add(closing)))
	m := &moment{
		name: name, at: time.Since(s.began), lives: s.tally.Deeds().Lives, usage: map[string]world.Usage{},
	}
	for _, r := range s.Replicas {
		m.usage[r.Name] = s.usage(ctx, r)
	}
	m.redis = s.store(ctx)
	return m
}

// usage looks at what a replica holds. Its heap is the least of some looks, since each
// finds what was made since the last collection, too.
func (s *soak) usage(ctx context.Context, r *world.Replica) (least world.Usage) {
	const looks = 3
	for i := range looks {
		s.collect(ctx, r)
		u := r.Usage(ctx)
		if i > 0 {
			u.Heap = min(u.Heap, least.Heap)
		}
		least = u
	}
	return least
}

// collect has a replica collect its garbage twice, after which what its pools kept is
// gone, too. The metrics tell when it has, and asking for them makes the garbage that it
// takes.
func (s *soak) collect(ctx context.Context, r *world.Replica) {
	const collections = "go_gc_duration_seconds_count"
	before := r.Metric(ctx, collections)
	ctx, stop := context.WithTimeout(ctx, stopTime)
	defer stop()
	for now := before; now < before+2; {
		now = r.Metric(ctx, collections)
	}
}

// store looks at what Redis holds.
func (s *soak) store(ctx context.Context) holding {
	h := holding{kinds: map[string]kind{}}
	for line := range strings.Lines(s.Redis.Nodes[0].Exec(ctx, "EVAL", countScript, "0")) {
		var name string
		var k kind
		n, err := fmt.Sscan(line, &name, &k.keys, &k.bytes)
		must.Be(n == 3, "redis says %q: %w", line, err)
		h.kinds[name] = k
	}
	_, rest, _ := strings.Cut(s.Redis.Nodes[0].Exec(ctx, "INFO", "memory"), "used_memory:")
	digits, _, _ := strings.Cut(rest, "\n")
	h.used = must.Have(strconv.ParseInt(strings.TrimSpace(digits), 10, 64))
	return h
}

// String is the moment in a line.
func (m *moment) String() string {
	return fmt.Sprintf("%s (%v): Redis %s", m.name, m.at.Round(time.Second), page.MiB(m.redis.used)) +
		page.Rows(slices.Sorted(maps.Keys(m.redis.kinds)), func(name string) string {
			k := m.redis.kinds[name]
			return fmt.Sprintf(", %d %s with %s", k.keys, name, page.MiB(k.bytes))
		}) +
		page.Rows(slices.Sorted(maps.Keys(m.usage)), func(name string) string {
			u := m.usage[name]
			return fmt.Sprintf("; %s: %d goroutines, %d descriptors, heap %s, RSS %s", name, u.Goroutines,
				u.Descriptors, page.MiB(u.Heap), page.MiB(u.Resident))
		})
}

// describe writes the section.
func (s *soak) describe() string {
	d, v, wrong := s.tally.Deeds(), &s.total, ""
	if err := s.verdict(); err != nil {
		wrong = fmt.Sprintf("\n**Not all was back:** %.3000s\n",
			strings.Join(strings.Fields(err.Error()), " "))
	}
	return fmt.Sprintf(soakSection, time.Since(s.began).Round(time.Second), s.balancer, page.Grouped(d.Lives),
		page.Grouped(d.Requests), page.Grouped(v.Requests), s.reloads, s.restarts, v.Lost(),
		page.Grouped(v.Answered), s.known, s.asked, len(s.late), s.unrecorded, v.Unstreamed,
		tabled("end of a call that was not answered", s.ends), page.Rows(s.Replicas, s.held),
		page.Rows(s.moments, (*moment).stored), wrong)
}

// soakSection is the section, with places for what was found.
const soakSection = `%v behind %s. **%s sessions were opened, used and ended. There were %s requests, ` +
	`%s calls and %d reloads. %d replicas were replaced, by SIGTERM and SIGKILL in turn. The oracle found %d.**

` + `%s calls were answered. Of those that were not, %d were in flight at any replica when one was killed. ` +
	`%d were made within a second of that, and %d were others. Of the calls that were executed, %d were ` +
	`not on record without an excuse. %d were answered without a stream for their events.

%s
| while nobody works | goroutines | descriptors | heap in use | resident |
|---|--:|--:|--:|--:|
%s
| Redis | memory in use | keys that live for seconds | sessions (37 min) | answers under a key (10 min) | used states (11 min) |
|---|--:|--:|--:|--:|--:|
%s%s`

// held are the lines of what a replica held.
func (s *soak) held(r *world.Replica) string {
	what := page.Either(r == s.longLived(), "all the time", "replaced")
	return page.Rows(s.moments[:3], func(m *moment) string {
		u := m.usage[r.Name]
		return fmt.Sprintf("| %s (%s), %s, after %v | %d | %d | %s | %s |\n", r.Name, what, m.name,
			m.at.Round(time.Second), u.Goroutines, u.Descriptors, page.MiB(u.Heap), page.MiB(u.Resident))
	})
}

// stored is the line of what Redis held.
func (m *moment) stored() string {
	short := 0
	for name, k := range m.redis.kinds {
		if !stays(name) {
			short += k.keys
		}
	}
	return fmt.Sprintf("| %s | %s | %d", m.name, page.MiB(m.redis.used), short) +
		page.Rows([]string{"session", "once", "used"}, func(name string) string {
			k := m.redis.kinds[name]
			return fmt.Sprintf(" | %s with %s", page.Grouped(k.keys), page.MiB(k.bytes))
		}) + " |\n"
}
