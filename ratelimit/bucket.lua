-- What is kept of a bucket: its tokens, and when it had so many. It is kept until it is full again: no key is a full
-- bucket. A part is kept likewise: what a sharer owes, and when it owed that.

local function exact(number) return string.format('%.17g', number) end

local function pair(amount, at) return string.format('%.17g %.0f', amount, at) end

-- numbers returns the numbers of a pair, and nothing for a text that is none.
local function numbers(text)
  local amount, at = string.match(text, '^(%d[%d.e+-]*) (%d+)$')
  amount, at = tonumber(amount or ''), tonumber(at or '')
  if amount and at and amount < math.huge then return amount, at end
end

local function write(key, amount, seconds) keep(key, pair(amount, now), seconds) end

-- read returns an amount, and how many seconds ago it was written; nil if nothing is there, and false if that is nothing
-- which this script has written. After the clock was set back the seconds are negative: whoever reads that writes it
-- again, or the amount would stay the same until the clock is where it was.
local function read(key)
  local text = redis.pcall('GET', key)
  if not text then return nil end
  if type(text) == 'string' then
    local amount, at = numbers(text)
    if amount then return amount, (now - at) / 1e6 end
  end
  return false
end

-- fill writes how many tokens a bucket has left.
local function fill(key, left, rate, burst)
  write(key, math.max(left, 0), (burst - left) / rate)
end

-- tokens returns how many a bucket has. One with strange contents is emptied: that neither allows more than the limit
-- nor refuses for ever.
local function tokens(key, rate, burst)
  local had, ago = read(key)
  if had == nil then return burst end
  if not had or ago < 0 then
    had, ago = math.min(had or 0, burst), 0
    fill(key, had, rate, burst)
  end
  return math.min(burst, had + ago * rate)
end

-- short tells whether a bucket that has so many tokens lacks some of those that are wanted. It regains less than a
-- billionth of a second gives before anybody could ask again.
local function short(has, wanted, rate)
  return (wanted - has) / rate * 1e9 >= 1
end
