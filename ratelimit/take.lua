-- Takes the tokens of all buckets of a call, or of none, and takes others ahead of their use for the replica that asks. A
-- bucket is a hash: its tokens, and for each replica how many it has ahead, and until when it may use them. The first two
-- arguments are the replica, and for how many seconds it may use what it takes ahead. Six follow for each bucket: rate,
-- burst, how many tokens are needed now, what the sharer owes that needs them (below zero: there is none, or a quiet one),
-- how many more are wanted ahead, and how many the replica has ahead already. The answer is 1 if what is needed was taken,
-- or 0, and for each bucket how many tokens came ahead and how many are left.
local replica, life = ARGV[1], tonumber(ARGV[2])

-- prefetched returns what all replicas have had ahead since the last trip, and what the others have now.
local function prefetched(key, fields)
  local before, others = 0, 0
  for name, text in pairs(fields) do
    if name ~= 'bucket' then
      local tokens, till = numbers(string.match(text, '^[^ ]* [^ ]*') or '') -- a later version may add to that
      local good = tokens and till <= now + life * 1e6 -- later than that none is written, unless the clock was set back
      if good then before = before + tokens end
      if good and till > now and name ~= replica then
        others = others + tokens
      elseif name ~= replica then
        redis.call('HDEL', key, name)
      end
    end
  end
  return before, others
end

-- shares is the rule of bucket.go for a sharer that owes so much to a bucket with so many tokens.
local function shares(need, owed, has, burst)
  local left = has - need
  owed = math.min(owed, math.max(burst - has, 0)) + need
  return owed <= 2 * (left - math.floor(burst / 4)) + 1e-6
end

-- A bucket that filled up while tokens of it are elsewhere would hold those once more. So it does not: together they are
-- never more than burst.
local function look(key, w)
  local fields = read(key)
  local before, others = prefetched(key, fields)
  local has = w.burst
  if fields.bucket then
    local had, at = numbers(fields.bucket)
    has = math.min((had or 0) + math.max(now - (at or now), 0) / 1e6 * w.rate, w.burst - before)
  end
  w.has = math.max(math.min(has, w.burst - others - w.held), 0)
end

local wants, enough = {}, true
for i, key in ipairs(KEYS) do
  local a = 6 * i - 4
  local w = {
    rate = tonumber(ARGV[a + 1]), burst = tonumber(ARGV[a + 2]), need = tonumber(ARGV[a + 3]), owed = tonumber(ARGV[a + 4]),
    ahead = tonumber(ARGV[a + 5]), held = tonumber(ARGV[a + 6]),
  }
  look(key, w)
  local ok = not short(w.has, w.need, w.rate)
  if ok and w.owed >= 0 then ok = shares(w.need, w.owed, w.has, w.burst) end
  enough = enough and ok
  wants[i] = w
end

local answer = {enough and 1 or 0}
for i, key in ipairs(KEYS) do
  local w = wants[i]
  local need = enough and w.need or 0
  local got = math.max(math.min(w.ahead, math.floor(w.has - need - math.floor(w.burst / 4))), 0)
  local left = math.max(w.has - need - got, 0)
  redis.call('HSET', key, 'bucket', pair(left, now), replica, pair(w.held + got, now + life * 1e6))
  expire(key, life + (w.burst - left) / w.rate)
  answer[2 * i], answer[2 * i + 1] = got, exact(left)
end
return answer
