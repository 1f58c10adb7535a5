-- The clock of the server, in microseconds. All buckets of a call are judged at one time.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

-- expire says that nobody needs a key any more after that many seconds.
local function expire(key, seconds)
  redis.call('PEXPIRE', key, string.format('%.0f', math.max(math.min(math.ceil(seconds * 1000) + 1, 366 * 86400 * 1000), 1)))
end
