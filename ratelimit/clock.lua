-- The clock of the server, in microseconds. All buckets of a call are judged at one time.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

-- keep writes a text that nobody needs any more after that many seconds.
local function keep(key, text, seconds)
  local millis = math.max(math.min(math.ceil(seconds * 1000) + 1, 366 * 86400 * 1000), 1)
  redis.call('SET', key, text, 'PX', string.format('%.0f', millis))
end
