-- Takes a read-write lock to write on one node, or says who is in the way.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  who goes next: 'read' or 'write', while somebody waits; 'read MS', if a write goes behind that read, for so long
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  for how many milliseconds the node remembers that a write waits, if it is refused; 0: nobody waits
-- ARGV[5]  the channel on which those who read are told that a write waits
-- ARGV[6]  the number that is proposed for the grant (not given without fencing)
-- ARGV[7]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: somebody's key is there, or a read goes next, for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is no lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is no number
--
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply
-- changes nothing.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why
local PATIENCE = 200 -- milliseconds for which a free lock is left to those who go next

-- Before anything else, and for late copies as well: one that was sent before the node forgot its
-- locks must not take one that it has forgotten.
if ARGV[3] ~= '' then
  -- pcall: something else under the mark's key is another mark, and no fault of the node.
  local mark = redis.pcall('GET', KEYS[2])
  if mark ~= ARGV[3] then
    if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then
      return mark -- a permission is missing
    end
    return {-1, 0}
  end
end

local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = kind ~= 'none' and redis.call('PTTL', KEYS[1]) or 0
local mode, ours = false, false
if kind == 'hash' and remaining >= 0 then
  local fields = redis.call('HMGET', KEYS[1], 'mode', ARGV[1])
  mode, ours = fields[1], fields[2]
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
-- pcall: what is something else under that key says nothing of who goes next.
local following = redis.pcall('GET', KEYS[3])
if type(following) == 'table' then
  if not string.find(following.err, 'WRONGTYPE', 1, true) then
    return following -- a permission is missing
  end
  following = false
elseif following and redis.call('PTTL', KEYS[3]) < 0 then
  -- A word of ours always ends. What does not would keep the others out for ever.
  following = false
end
local behind_read = following and string.find(following, 'read ', 1, true) == 1
if kind ~= 'none' and not ours then
  if mode == 'read' and ARGV[4] ~= '0' then
    -- pcall: a server that is out of memory refuses nevertheless.
    redis.pcall('SET', KEYS[3], 'write', 'PX', ARGV[4])
    if following ~= 'write' then
      redis.pcall('PUBLISH', ARGV[5], ARGV[1])
    end
  end
  return {0, remaining}
elseif (following == 'read' or behind_read) and not ours then
  -- The lock is free, and whoever goes next has been told so. If nobody comes, it was not that one's turn here.
  local left = redis.call('PTTL', KEYS[3])
  if left > PATIENCE then
    left = PATIENCE
    redis.call('PEXPIRE', KEYS[3], left)
  end
  if not behind_read and ARGV[4] ~= '0' then
    -- Then it is a write's turn. This one may not come again before others read all the time.
    -- pcall: a server that is out of memory refuses nevertheless.
    redis.pcall('SET', KEYS[3], table.concat({'read', ARGV[4]}, ' '), 'KEEPTTL')
  end
  return {0, left}
end

local number, text, known = 0, ARGV[6], false
if KEYS[4] then
  -- pcall: something else under the fence's key is no fault of the node.
  known = redis.pcall('GET', KEYS[4])
  local last
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  else
    last = tonumber(known or 0)
  end
  -- Nobody else was granted the lock since a grant of before; if the fence has risen, it is this owner's own number.
  local step = ours and 0 or 1
  number = tonumber(ARGV[6])
  if last and not (last + step <= number) then
    number = last + step
    text = number
  end
  if not (last and number <= LARGEST) then
    return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
  end
end

redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], 1)
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(ARGV[2]) then
  -- pcall: a lock that cannot be given an end is not left behind.
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(set) == 'table' then
    if not ours then
      redis.call('HDEL', KEYS[1], ARGV[1], 'mode')
    end
    return set -- a permission is missing
  end
end
if following == 'write' then
  redis.call('DEL', KEYS[3])
end
if not KEYS[4] then
  return {1, 0}
end
local fence_ttl = ARGV[7]
if remaining > tonumber(ARGV[2]) then
  fence_ttl = fence_ttl + remaining - ARGV[2]
end
-- Its end is never brought forward: the number may be ahead of the time.
local left = known and redis.call('PTTL', KEYS[4]) or -2
if left == -1 or left >= tonumber(fence_ttl) then
  redis.call('SET', KEYS[4], text, 'KEEPTTL')
else
  redis.call('SET', KEYS[4], text, 'PX', fence_ttl)
end
return {1, number}
