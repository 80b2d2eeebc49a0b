-- Takes a hold of a read-write lock to read on one node, or says who is in the way.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  the string that lives for as long as this hold
-- KEYS[4]  who goes next: 'read' or 'write', while somebody waits; 'read MS', if a write goes behind that read, for so long
-- KEYS[5]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- KEYS[6]  'last', the fence behind the last read, and 'others', the largest number of a write (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  for how many milliseconds the node remembers that a read waits, if it is refused; 0: nobody waits
-- ARGV[5]  the channel on which those who read are told that a write waits
-- ARGV[6]  the number that is proposed for the grant (not given without fencing)
-- ARGV[7]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: somebody's key is there, or a write goes next, for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is no lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is no number
--
-- Running it again for the same owner grants again, whoever goes next, with a number that is not smaller: a retry after a
-- lost reply changes nothing for anybody.

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
  mode = fields[1]
  -- A hold whose string is gone is over, also if others keep the lock alive with its field in it.
  ours = fields[2] and redis.call('PTTL', KEYS[3]) ~= -2
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
-- pcall: what is something else under that key says nothing of who goes next.
local following = redis.pcall('GET', KEYS[4])
if type(following) == 'table' then
  if not string.find(following.err, 'WRONGTYPE', 1, true) then
    return following -- a permission is missing
  end
  following = false
elseif following and redis.call('PTTL', KEYS[4]) < 0 then
  -- A word of ours always ends. What does not would keep the others out for ever.
  following = false
end
if kind ~= 'none' and mode ~= 'read' then
  if mode == 'write' and ARGV[4] ~= '0' then
    -- pcall: a server that is out of memory refuses nevertheless.
    redis.pcall('SET', KEYS[4], 'read', 'PX', ARGV[4])
  end
  return {0, remaining}
elseif following == 'write' and not ours then
  local left = redis.call('PTTL', KEYS[4])
  if kind ~= 'none' then
    return {0, math.min(left, remaining)}
  end
  -- The lock is free, and whoever goes next has been told so. If nobody comes, it was not that one's turn here.
  if left > PATIENCE then
    left = PATIENCE
    redis.call('PEXPIRE', KEYS[4], left)
  end
  return {0, left}
end

local number, text, known = 0, ARGV[6], false
if KEYS[5] then
  -- pcall: something else under the fence's key is no fault of the node.
  known = redis.pcall('GET', KEYS[5])
  local last
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  else
    last = tonumber(known or 0)
  end
  -- Behind a grant of before, the fence may be this owner's own number.
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

local ttl = ARGV[2]
redis.call('SET', KEYS[3], '1', 'PX', math.max(tonumber(ttl), ours and redis.call('PTTL', KEYS[3]) or 0))
redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
-- Never shortened: others may read for longer, or this may be a late copy.
if remaining < tonumber(ttl) then
  -- pcall: a lock that cannot be given an end is not left behind.
  local set = redis.pcall('PEXPIRE', KEYS[1], ttl)
  if type(set) == 'table' then
    if not ours then
      redis.call('DEL', KEYS[3])
      redis.call('HDEL', KEYS[1], ARGV[1])
      if kind == 'none' then
        redis.call('HDEL', KEYS[1], 'mode')
      end
    end
    return set -- a permission is missing
  end
end
local write_waits = following and string.match(following, '^read (%d+)$')
if write_waits then
  redis.call('SET', KEYS[4], 'write', 'PX', write_waits)
  redis.pcall('PUBLISH', ARGV[5], ARGV[1])
elseif following == 'read' then
  redis.call('DEL', KEYS[4])
end
if not KEYS[5] then
  return {1, 0}
end
local fence_ttl = ARGV[7]
if remaining > tonumber(ttl) then
  fence_ttl = fence_ttl + remaining - ttl
end
-- What the fence was before says something of others, unless it was the last one of a read.
local others = known or 0
-- pcall: something else under that key says nothing of reads.
local reads = redis.pcall('HMGET', KEYS[6], 'last', 'others')
local can_note = not reads.err
if can_note and reads[1] and known and tonumber(reads[1]) == tonumber(known) then
  others = reads[2] or known
elseif reads.err and not string.find(reads.err, 'WRONGTYPE', 1, true) then
  return reads -- a permission is missing
end
-- Its end is never brought forward: the number may be ahead of the time.
local left = known and redis.call('PTTL', KEYS[5]) or -2
if left == -1 or left >= tonumber(fence_ttl) then
  redis.call('SET', KEYS[5], text, 'KEEPTTL')
  fence_ttl = left
else
  redis.call('SET', KEYS[5], text, 'PX', fence_ttl)
end
if can_note then
  redis.call('HSET', KEYS[6], 'last', text, 'others', others)
  if fence_ttl ~= -1 then
    redis.call('PEXPIRE', KEYS[6], fence_ttl)
  end
end
return {1, number}
