-- Takes the tokens of all buckets of a call, or of none. For each bucket there are four arguments: rate, burst, how many
-- tokens, and 1 if it has a sharer; and a key, followed by that of the sharer's part. The answer is 1, or 0 and for each
-- bucket how many tokens it has and how many the sharer owes. The rule of shares is told in part.go.

-- owe writes what a sharer owes, for as long as it takes to fade to less than matters.
local function owe(key, owed, rate, burst)
  write(key, owed, math.log(math.max(owed / 1e-6, 1)) * burst / rate)
end

-- owes returns what a sharer owes to a bucket that lacks so many tokens. Strange contents count as all that it lacks.
local function owes(key, rate, burst, lacks)
  if lacks <= 0 then return 0 end
  local owed, ago = read(key)
  if owed == nil then return 0 end
  if not owed or ago < 0 then
    owed, ago = math.min(owed or lacks, lacks), 0
    owe(key, owed, rate, burst)
  end
  return math.min(owed * math.exp(-ago * rate / burst), lacks)
end

local function shares(wanted, owed, lacks, burst)
  local left = burst - lacks - wanted
  owed = owed + wanted
  if left < -1e-6 then return false end
  if owed <= math.max(burst / 64, 1) + 1e-6 then return true end
  return owed <= 2 * (left - math.floor(burst / 4)) + 1e-6
end

local wants, answer, enough, k = {}, {0}, true, 0
for i = 1, #ARGV - 3, 4 do
  local w = {rate = tonumber(ARGV[i]), burst = tonumber(ARGV[i + 1]), n = tonumber(ARGV[i + 2]), owed = 0}
  k = k + 1
  w.key = KEYS[k]
  w.has = tokens(w.key, w.rate, w.burst)
  local ok = not short(w.has, w.n, w.rate)
  if ARGV[i + 3] == '1' then
    k = k + 1
    w.part = KEYS[k]
    local lacks = math.max(w.burst - w.has, 0)
    w.owed = owes(w.part, w.rate, w.burst, lacks)
    ok = ok and shares(w.n, w.owed, lacks, w.burst)
  end
  enough = enough and ok
  wants[#wants + 1] = w
  answer[#answer + 1] = exact(w.has)
  answer[#answer + 1] = exact(w.owed)
end
if not enough then return answer end

for _, w in ipairs(wants) do
  fill(w.key, w.has - w.n, w.rate, w.burst)
  if w.part then owe(w.part, w.owed + w.n, w.rate, w.burst) end
end
return {1}
