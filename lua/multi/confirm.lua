-- Tells a node the number of a lock with several names that was won, if the lock is still ours there.
--
-- KEYS[1]  the lock's keys (one for each name)
-- KEYS[2]  their fences, which keep the largest number of a grant (one for each name)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the lock's number
-- ARGV[3]  how much longer than the lock the fences live, in milliseconds
--
-- Replies:
--   1   all our keys are there, and each fence is that number or a larger one
--   0   not all our keys are there, and the fences are what they were
--
-- A node that is not ours under all names must not say 1: under one of them it may have given a smaller
-- number to its owner before.

local names = #KEYS / 2
local owners = redis.call('MGET', unpack(KEYS, 1, names))
for i = 1, names do
  if owners[i] ~= ARGV[1] then
    return 0
  end
end
for i = 1, names do
  local fence = KEYS[names + i]
  local known = tonumber(redis.call('GET', fence) or 0) or 0
  local number = math.max(tonumber(ARGV[2]), known)
  -- Its end is never brought forward.
  local ttl, left = ARGV[3] + redis.call('PTTL', KEYS[i]), redis.call('PTTL', fence)
  if left == -1 or left >= ttl then
    redis.call('SET', fence, number, 'KEEPTTL')
  else
    redis.call('SET', fence, number, 'PX', ttl)
  end
end
return 1
