package eventlog

import "github.com/drawbridge-mcp/drawbridge/internal/redis"

// What the scripts answer first.
const (
	saidOK     = "ok"
	saidFenced = "fenced" // another replica leads the session
	saidFailed = "failed" // somebody else has written there
	saidBegun  = "begun"  // the stream has, and has no event yet
	saidGone   = "gone"   // there is no such stream
	saidTaken  = "taken"  // there is an event with that sequence, or the stream has ended
)

// All scripts have the same keys, in this order: the entry of a session (see package
// primary), a stream, and the replicas that read the stream.

// appendScript appends events, and returns for each who reads its stream. The keys of
// each come one after the other, and so do its ARGV: id and value of the event,
// milliseconds, and the id that it would have if it were not the last. That one is tried
// first: the id of the last event is higher than all others, so the server would take it
// even if another replica had appended what this one does not know. Then comes the epoch
// of who leads the session, of a notice, or 0, and how many entries the stream has at
// most. A key of another type, which somebody else must have written, fails its own event
// alone.
var appendScript = redis.NewScript(`
local function append(record, stream, readers, id, value, life, tried, mine, most)
  if mine ~= '0' and redis.call('TYPE', record).ok == 'hash' then
    local epoch = tonumber(redis.call('HGET', record, 'epoch') or '')
    if epoch and epoch > tonumber(mine) then return {'fenced'} end
  end
  local done
  if tried ~= id then
    done = redis.pcall('XADD', stream, 'NOMKSTREAM', tried, 'd', '')
    if type(done) == 'string' then redis.call('XDEL', stream, tried) end
  end
  if tried == id or type(done) == 'string' then
    done = redis.pcall('XADD', stream, 'NOMKSTREAM', 'MAXLEN', most, id, 'd', value)
  end
  if not done then return {'gone'} end
  if type(done) == 'table' and done.err then
    if string.find(done.err, 'equal or smaller', 1, true) then return {'taken'} end
    return nil, done.err
  end
  redis.call('PEXPIRE', stream, life)
  redis.call('PEXPIRE', readers, life)
  local others = redis.pcall('SMEMBERS', readers)
  if others.err then return nil, others.err end
  return {'ok', unpack(others)}
end
local all = {}
for i = 1, #KEYS / 3 do
  local k, a = 3 * i - 3, 6 * i - 6
  local said, err = append(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3],
    ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5], ARGV[a + 6])
  if err and string.sub(err, 1, 9) ~= 'WRONGTYPE' then return redis.error_reply(err) end
  all[i] = said or {'failed'}
end
return all`)

// readScript returns entries of a stream, or if there are none, the id of the newest that
// there ever was. It returns "more" behind entries that are not all, because they have
// too many bytes: other answers would wait behind theirs. ARGV: id from which on, how
// many at most, milliseconds, the replica or "" if it does not go on reading, and how
// many bytes at most. If the first event alone has more, it returns how many there have
// to be.
var readScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 0 then return {'gone'} end
if ARGV[4] ~= '' then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  redis.call('SADD', KEYS[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
local found, from, left, room = {}, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local least = from == '-' and 1 or 0
while left > 0 do
  local count = math.min(left, 8)
  local part = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', count)
  for _, entry in ipairs(part) do
    room = room - #entry[2][2]
    if room < 0 then
      if #found > least then return {'ok', found, 'more'} end
      return tonumber(ARGV[5]) - room
    end
    found[#found + 1] = entry
    from = '(' .. entry[1]
  end
  if #part < count then break end
  left = left - count
end
if #found > 0 then return {'ok', found} end
local info = redis.call('XINFO', 'STREAM', KEYS[2])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then return {'ok', found, info[i + 1]} end
end
return {'gone'}`)

// topScript returns the id of the newest event that a stream ever had. It begins the
// stream if it is not there. ARGV: id and value of the head, or "" if it is not to begin,
// milliseconds that it is kept, and the replica that appends to it and is told of what
// others append, or "".
var topScript = redis.NewScript(`
local begins = redis.call('EXISTS', KEYS[2]) == 0
if begins and ARGV[2] == '' then return {'gone'} end
if begins then
  redis.call('XADD', KEYS[2], ARGV[1], 'd', ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
if ARGV[4] ~= '' then
  redis.call('SADD', KEYS[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
if begins then return {'begun', ARGV[1]} end
local info = redis.call('XINFO', 'STREAM', KEYS[2])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then return {'ok', info[i + 1]} end
end
return {'gone'}`)
