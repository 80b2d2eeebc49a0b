-- Gives a lock with several names back on one node, as far as it is still ours there, and tells the waiters for any of the
-- names. The names are then free, or the node keeps them for a while, although nobody holds them.
--
-- Replies:
--   1        all our keys were there, and are deleted, or replaced by those of a kept lock
--   {1, n}   the same, and n connections were told about it, on the channel with the most listeners
--   0        not all our keys were there; those that were are deleted or replaced
--
-- It announces the release on the channels of the keys that were ours.

-- The fences are raised if an extension of the lock may still be under way: it then finds a fence above its upper limit, and
-- sets no key again.

-- KEYS: LOCK.., TOMBSTONE.., FENCE..
local OWNER, KEEP_UNTIL, KEEP_BY, KEPT, RAISE_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] -- and CHANNEL..

local TOMBSTONE -- each name has its own
-- include keeps.lua

local names = #ARGV - 6
-- Reads the tombstones as well, if they are given.
local owners = redis.call('MGET', unpack(KEYS, 1, math.min(2 * names, #KEYS)))
local ours, channels = {}, {}
for i = 1, names do
  if owners[i] == OWNER then
    ours[#ours + 1] = KEYS[i]
    channels[#ours] = ARGV[6 + i]
  end
end
local most_told = 0
if #ours > 0 then
  -- Before the node sets the kept keys: a server that is out of memory sets nothing, unless the script has deleted something
  -- before.
  redis.call('DEL', unpack(ours))
  for _, channel in ipairs(channels) do
    -- pcall: the lock is given back even if publishing is not permitted. Waiters poll now and then.
    local told = redis.pcall('PUBLISH', channel, OWNER)
    most_told = math.max(most_told, type(told) == 'number' and told or 0)
  end
end
for i = 1, keeps_for > 0 and names or 0 do
  if not owners[names + i] then
    redis.call('SET', KEYS[i], KEPT, 'NX', 'PX', keeps_for) -- where nobody else has the name
  end
end
for i = 2 * names + 1, #KEYS do
  local FENCE = KEYS[i]
  -- include raise.lua
end
if #ours < names then
  return 0
elseif most_told > 0 then
  return {1, most_told}
end
return 1
