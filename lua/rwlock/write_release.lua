-- Gives a read-write lock that was held to write back on one node, if it is still ours there, and tells those who wait for it.
-- It is free then, or the node keeps it for a while, although nobody holds it.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the owner's tombstone, which is there if the lock was taken from it by force (given only to keep or raise)
-- KEYS[3]  the lock's fence, which keeps the largest number of a grant (given only to raise it)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the channel on which its releases are told to our clients
-- ARGV[3]  the channel on which they are told to Redisson's clients
-- ARGV[4]  until when, in milliseconds of this node's clock, it is kept; 0: it is not (given only to keep or raise)
-- ARGV[5]  by when, in milliseconds of this node's clock, it has to begin to keep it (given only to keep or raise)
-- ARGV[6]  the field in the hash while it is kept (given only to keep or raise)
-- ARGV[7]  the number that the fence has at least from now on (given only to raise it)
-- ARGV[8]  the fence's TTL in milliseconds, if it is raised (given only to raise it)
--
-- Replies:
--   1        our key was there, and is deleted, or somebody else's for as long as it is kept
--   {1, n}   the same, and so many connections were told of it
--   0        our key was not there

-- The fence is raised where an extension of the lock may still be under way: it finds the fence above
-- what it may go up to then, and does not set the key again.

-- A lock that is kept is kept on all nodes, so also where its key is gone, and nobody else's is there. Until when is told
-- by the node's own clock, for a release may come late, or again. A lock that was forced open is not kept, nor one that
-- only reads by now.
local keeps_for = 0
if ARGV[4] and ARGV[4] ~= '0' and not redis.pcall('GET', KEYS[2]) then
  local now = redis.call('TIME')
  local now_ms = now[1] * 1000 + now[2] / 1000
  if now_ms < tonumber(ARGV[5]) then
    keeps_for = math.ceil(ARGV[4] - now_ms)
  end
end

-- pcall: another kind's key under that name is not ours either, and no fault
-- of the node.
local ours = redis.pcall('HDEL', KEYS[1], ARGV[1])
local reply = 0
if ours == 1 then
  reply = 1
  if redis.call('HLEN', KEYS[1]) == 1 then
    redis.call('DEL', KEYS[1])
  else
    -- A thread of Redisson's that writes may read as well.
    redis.call('HSET', KEYS[1], 'mode', 'read')
  end
  -- pcall: the lock is given back, whether or not we may say so, and waiters look now and then. Our clients hear
  -- of the owner first, and know by that whose release Redisson's message is, which comes right behind.
  local told = redis.pcall('PUBLISH', ARGV[2], ARGV[1])
  local theirs = redis.pcall('PUBLISH', ARGV[3], '1')
  told = math.max(type(told) == 'number' and told or 0, type(theirs) == 'number' and theirs or 0)
  if told > 0 then
    reply = {1, told}
  end
elseif type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
end
if keeps_for > 0 and redis.call('TYPE', KEYS[1]).ok == 'none' then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[6], 1)
  -- pcall: what cannot be given an end is not kept.
  local set = redis.pcall('PEXPIRE', KEYS[1], keeps_for)
  if type(set) == 'table' then
    redis.call('HDEL', KEYS[1], 'mode', ARGV[6])
    return set -- a permission is missing
  end
end
if KEYS[3] then
  -- pcall: something else under the fence's key is no fault of the node, and no extension gets past it.
  local known = redis.pcall('GET', KEYS[3])
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  elseif (tonumber(known or 0) or 0) < tonumber(ARGV[7]) then
    -- Its end is never brought forward.
    local left = redis.call('PTTL', KEYS[3])
    if left == -1 or left >= tonumber(ARGV[8]) then
      redis.call('SET', KEYS[3], ARGV[7], 'KEEPTTL')
    else
      redis.call('SET', KEYS[3], ARGV[7], 'PX', ARGV[8])
    end
  end
end
return reply
