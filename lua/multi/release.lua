-- Gives a lock with several names back on one node, as far as it is still ours there, and tells those who wait
-- for any of the names.
--
-- KEYS[1]  the lock's keys (one for each name)
-- KEYS[2]  their fences, which keep the largest number of a grant (one for each name; given only to raise it)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the number that the fences have at least from now on; empty: they are not raised
-- ARGV[3]  the fences' TTL in milliseconds, if they are raised; empty: they are not
-- ARGV[4]  the channels on which releases are told (one for each name)
--
-- Replies:
--   1        all our keys were there and are deleted
--   {1, n}   the same, and so many connections were told of it, on the channel that most of them listen to
--   0        not all our keys were there; those that were are deleted
--
-- It tells the release on the channels of the keys that it has deleted.

-- The fences are raised where an extension of the lock may still be under way: it finds a fence above
-- what it may go up to then, and sets no key again.

local names = #ARGV - 3
local owners = redis.call('MGET', unpack(KEYS, 1, names))
local ours, channels = {}, {}
for i = 1, names do
  if owners[i] == ARGV[1] then
    ours[#ours + 1] = KEYS[i]
    channels[#ours] = ARGV[3 + i]
  end
end
local most_told = 0
if #ours > 0 then
  redis.call('DEL', unpack(ours))
  for _, channel in ipairs(channels) do
    -- pcall: the lock is given back, whether or not we may say so. Who waits looks now and then.
    local told = redis.pcall('PUBLISH', channel, ARGV[1])
    most_told = math.max(most_told, type(told) == 'number' and told or 0)
  end
end
for i = names + 1, #KEYS do
  -- pcall: something else under the fence's key is no fault of the node, and no extension gets past it.
  local known = redis.pcall('GET', KEYS[i])
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  elseif (tonumber(known or 0) or 0) < tonumber(ARGV[2]) then
    -- Its end is never brought forward.
    local left = redis.call('PTTL', KEYS[i])
    if left == -1 or left >= tonumber(ARGV[3]) then
      redis.call('SET', KEYS[i], ARGV[2], 'KEEPTTL')
    else
      redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[3])
    end
  end
end
if #ours < names then
  return 0
elseif most_told > 0 then
  return {1, most_told}
end
return 1
