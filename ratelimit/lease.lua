-- Takes tokens of a bucket ahead, for one replica. The bucket is a hash: its tokens, and for each replica how many it has
-- ahead, and until when it may use them. The arguments are rate, burst, how many tokens are needed now, how many more are
-- wanted, how many must be left by those, the replica, how many it has ahead already, for how many seconds it may use them,
-- and how many it gives back of those that it had. The answer is how many it has got, and how many are left.
local rate, burst, need, ahead = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local reserve, replica, held, life = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local back = tonumber(ARGV[9])
local key = KEYS[1]

local fields = redis.pcall('HGETALL', key)
if fields.err then -- somebody else's; an empty bucket takes its place
  redis.call('DEL', key)
  fields = {'bucket', ''}
end

-- before is what all replicas had ahead since the last trip, others what the others have now, and own what this one has.
local bucket, before, others, own = nil, 0, 0, 0
for i = 1, #fields, 2 do
  local name, text = fields[i], fields[i + 1]
  if name == 'bucket' then
    bucket = text
  else
    local tokens, till = numbers(string.match(text, '^[^ ]* [^ ]*') or '') -- a later version may add to that
    local good = tokens and till <= now + life * 1e6 -- later than that none is written, unless the clock was set back
    if good then before = before + tokens end
    if good and till > now and name ~= replica then
      others = others + tokens
    elseif good and till > now then
      own = tokens
    elseif name ~= replica then
      redis.call('HDEL', key, name)
    end
  end
end

-- A bucket that filled up while tokens of it are elsewhere would hold those once more. So it does not: together they are
-- never more than burst.
local has = burst
if bucket then
  local had, at = numbers(bucket)
  has = math.min((had or 0) + math.max(now - (at or now), 0) / 1e6 * rate, burst - before)
end
has = math.max(math.min(has + math.min(back, own), burst - others - held), 0)

local got = 0
if not short(has, need, rate) then
  got = need + math.max(math.min(ahead, math.floor(has - need - reserve)), 0)
end
local left = math.max(has - got, 0)
redis.call('HSET', key, 'bucket', pair(left, now), replica, pair(held + math.max(got - need, 0), now + life * 1e6))
expire(key, life + (burst - left) / rate)
return {got, exact(left)}
