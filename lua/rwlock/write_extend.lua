-- Lets a read-write lock that is held to write live longer on one node, if it is still ours there; and takes it again if
-- the node has lost it, and nobody else has taken it since.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  the owner's tombstone, which is there if the lock was taken from it by force, or if it reads by now
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  how long it shall live from now on at least, in milliseconds
-- ARGV[3]  until when, in milliseconds of this node's clock, a key that is gone may be set again
-- ARGV[4]  1 if newcomers are granted nothing but under an admitted mark, else 0
-- ARGV[5]  the lock's number (not given without fencing)
-- ARGV[6]  the largest fence under which a key that is gone may be set (not given without fencing)
-- ARGV[7]  the fence's TTL in milliseconds, which outlives that (not given without fencing)
--
-- Replies:
--   1         our key was there, and lives for at least that long
--   2         no key was there; now ours is, for that long
--   3         the same, and nobody can have had the lock here since our key was gone: the node has
--             forgotten what it knew, and grants nothing to newcomers
--   0         somebody else's key is there, or the lock was taken from this owner by force, or it only reads by now
--   -1        no key was there, and it is too late to set it
--   {-2, n}   no key was there, and the fence is n: somebody else was granted the lock here since
--
-- A key is never shortened: a late, short extension must not undo an earlier, longer one.

-- Nor is the end of a fence ever brought forward.

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local ours = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
end
local forced = redis.pcall('GET', KEYS[3])
if type(forced) == 'table' and not string.find(forced.err, 'WRONGTYPE', 1, true) then
  return forced -- a permission is missing
end
if forced then
  -- A late copy of the acquire may have set the key again behind the force. Nobody would give that back.
  if ours == 1 then
    redis.call('HDEL', KEYS[1], ARGV[1])
    if redis.call('HLEN', KEYS[1]) == 1 then
      redis.call('DEL', KEYS[1])
    end
  end
  return 0
elseif ours == 1 then
  local fence_ttl = ARGV[7]
  local remaining = redis.call('PTTL', KEYS[1])
  if remaining < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  elseif fence_ttl then
    fence_ttl = fence_ttl + remaining - ARGV[2]
  end
  -- Where our key is, no fence is in the way, however large it is. But it must outlive the lock, however
  -- long that is held.
  if KEYS[4] then
    local left = redis.call('PTTL', KEYS[4])
    if left == -2 then
      redis.call('SET', KEYS[4], ARGV[5], 'PX', fence_ttl)
    elseif left ~= -1 and left < tonumber(fence_ttl) then
      -- What is no number may be somebody else's lock, and keeps its end.
      local fence = redis.pcall('GET', KEYS[4])
      if type(fence) == 'string' and tonumber(fence) then
        redis.call('PEXPIRE', KEYS[4], fence_ttl)
      end
    end
  end
  return 1
elseif redis.call('TYPE', KEYS[1]).ok ~= 'none' then
  return 0
end
-- A request that was held up on its way must not take a lock that nobody holds any more.
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 >= tonumber(ARGV[3]) then
  return -1
end
if KEYS[4] then
  local known = tonumber(redis.call('GET', KEYS[4]) or 0) or 0
  if known > tonumber(ARGV[6]) then
    return {-2, known}
  end
  local number = math.max(tonumber(ARGV[5]), known)
  local left = redis.call('PTTL', KEYS[4])
  if left == -1 or left >= tonumber(ARGV[7]) then
    redis.call('SET', KEYS[4], number, 'KEEPTTL')
  else
    redis.call('SET', KEYS[4], number, 'PX', ARGV[7])
  end
end
redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[4] == '1' then
  -- pcall: something else under the mark's key says nothing.
  local mark = redis.pcall('GET', KEYS[2])
  -- None: it was forgotten a moment ago, or nobody has looked at the node since.
  if not mark or type(mark) == 'string' and string.find(mark, ' quarantined until_ms=', 1, true) then
    return 3
  end
end
return 2
