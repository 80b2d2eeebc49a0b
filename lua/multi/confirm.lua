-- Tells a node the number of a lock with several names that was won, if the lock is still ours there.
--
-- Replies:
--   1   all our keys are there, and each fence is that number or a larger one
--   0   not all our keys are there, and the fences are what they were
--
-- A node that is not ours under all names must not reply 1: it may already have answered the present owner of one of them, with
-- a smaller number.

-- KEYS: LOCK.., FENCE..
local OWNER, NUMBER, OUTLIVES = ARGV[1], ARGV[2], ARGV[3]

local names = #KEYS / 2
local owners = redis.call('MGET', unpack(KEYS, 1, names))
for i = 1, names do
  if owners[i] ~= OWNER then
    return 0
  end
end
for i = 1, names do
  local LOCK, FENCE = KEYS[i], KEYS[names + i]
  -- include confirmed.lua
end
return 1
