-- Takes tokens of a bucket ahead. The arguments are rate, burst, how many tokens are needed, how many more are wanted, and
-- how many must be left by those that are only wanted. The answer is how many were taken, and how many are left.
local rate, burst, need, ahead, reserve = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local has = tokens(KEYS[1], rate, burst)
if short(has, need, rate) then return {0, exact(has)} end
local take = need + math.max(math.min(ahead, math.floor(has - need - reserve)), 0)
if take > 0 then fill(KEYS[1], has - take, rate, burst) end
return {take, exact(has - take)}
