-- What is kept of a bucket are texts of a number and a time, see pair. No key is a full bucket.

local function exact(number) return string.format('%.17g', number) end

local function pair(amount, at) return string.format('%.17g %.0f', amount, at) end

-- numbers returns the numbers of a pair, and nothing for a text that is none.
local function numbers(text)
  local amount, at = string.match(text, '^(%d[%d.e+-]*) (%d+)$')
  amount, at = tonumber(amount or ''), tonumber(at or '')
  if amount and at and amount < math.huge then return amount, at end
end

-- read returns the fields of a bucket. Whatever somebody else has written there counts as an empty bucket, which takes its
-- place.
local function read(key)
  local found = redis.pcall('HGETALL', key)
  if found.err then
    redis.call('DEL', key)
    return {bucket = ''}
  end
  local fields = {}
  for i = 1, #found, 2 do fields[found[i]] = found[i + 1] end
  return fields
end

-- short tells whether a bucket that has so many tokens lacks some of those that are wanted. It regains less than a
-- billionth of a second gives before anybody could ask again.
local function short(has, wanted, rate)
  return (wanted - has) / rate * 1e9 >= 1
end
