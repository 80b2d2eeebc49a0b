-- Gives a lock with several names back on one node, as far as it is still ours there, and tells those who wait for
-- any of the names. They are free then, or the node keeps them for a while, although nobody holds them.
--
-- Replies:
--   1        all our keys were there, and are deleted, or somebody else's for as long as they are kept
--   {1, n}   the same, and so many connections were told of it, on the channel that most of them listen to
--   0        not all our keys were there; with those that were, the same is done
--
-- It tells the release on the channels of the keys that were ours.

-- The fences are raised where an extension of the lock may still be under way: it finds a fence above
-- what it may go up to then, and sets no key again.

-- KEYS: LOCK.., TOMBSTONE.., FENCE..
local OWNER, KEEP_UNTIL, KEEP_BY, KEPT, RAISE_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] -- and CHANNEL..

local TOMBSTONE -- each name has its own
-- include keeps.lua

local names = #ARGV - 6
-- And the tombstones, where they are given.
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
  -- Before the node is asked to keep them: a server that is out of memory refuses what a script sets first.
  redis.call('DEL', unpack(ours))
  for _, channel in ipairs(channels) do
    -- pcall: the lock is given back, whether or not we may say so. Who waits looks now and then.
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
