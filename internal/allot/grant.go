package allot

import (
	"context"
	"fmt"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// granting is a script that grants a replica a block of the slots of a tenant. It
// answers how many slots the replica may give out.
//
//	KEYS[1]  what replicas hold: by replica "held lacks at", and what a later version adds after that; at is when it was
//	         granted, by the clock of the server
//	ARGV     replica, limit, slots taken, slots needed, slots wanted, for how many milliseconds a block counts whose
//	         replica is not known, the life of the key in milliseconds, and the replicas that live
//
// A replica that gets less than it needs says what it lacks. Another then gets no more
// than leaves so much free, but what it needs up to an even part in any case. It may be
// granted fewer slots than are taken; it holds those until they are given back. So what
// all hold is never more than the limit.
var granting = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local self, limit, taken = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local needed, wanted, young = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lives = {}
for i = 8, #ARGV do lives[ARGV[i]] = true end
if wanted == 0 and taken == 0 then
  redis.call('HDEL', KEYS[1], self)
  return 0
end
local all = redis.call('HGETALL', KEYS[1])
local held, lacking, living = 0, 0, 1
for i = 1, #all, 2 do
  local holds, lacks, at = string.match(all[i + 1], '^(%d+) (%d+) (%d+)%f[%z ]')
  local age = at and now - tonumber(at)
  if not age or not lives[all[i]] and (age < 0 or age > young) then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= self then
    held, lacking, living = held + tonumber(holds), lacking + tonumber(lacks), living + 1
  end
end
local free = math.max(limit - held, 0)
local granted = math.min(wanted, free)
if lacking > 0 then
  local due = math.min(needed, math.floor(limit / living))
  granted = math.min(granted, math.max(free - lacking, due))
end
local lacks = math.max(math.min(needed, limit) - granted, 0)
redis.call('HSET', KEYS[1], self, string.format('%d %d %d', math.max(granted, taken), lacks, now))
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return granted`)

// grant asks for a block. The error wraps redis.ErrDown, or says that the answer has
// another form.
func (b *Blocks) grant(ctx context.Context, n name, d demand) (slots int, err error) {
	key := redis.Key(n.tenant, "blocks", string(n.kind))
	args := []string{
		b.config.Self, strconv.Itoa(d.limit), strconv.Itoa(d.taken), strconv.Itoa(d.needed),
		strconv.Itoa(d.wanted), redis.Millis(young), redis.Millis(keyLife),
	}
	for _, id := range b.config.Living() {
		args = append(args, string(id))
	}
	reply, err := granting.Run(ctx, b.config.Store, []string{key}, args)
	if err != nil {
		return 0, err
	}
	granted, err := reply.Int()
	if err != nil || granted < 0 || granted > int64(d.limit) {
		return 0, fmt.Errorf("redis grants %d of %d slots: %w", granted, d.limit, err)
	}
	return int(granted), nil
}
