-- Takes an exclusive lock on one node, or says who is in the way.
--
-- KEYS[1]  the lock
-- KEYS[2]  the node's mark
-- KEYS[3]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the number that is proposed for the grant (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: somebody's key is there for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is no lock, of that type
--   {-3, 0}       the fence is the largest number that there is, or no number at all
--
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply
-- changes nothing.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why
local DAY = 86400000

-- Grants for that long, with the number that is proposed; or, where a grant had that or a larger one
-- before, with the one that is larger by `step`.
local function granted(step, ms)
  if not KEYS[3] then
    return {1, 0}
  end
  -- pcall: something else under the fence's key is no fault of the node.
  local known = redis.pcall('GET', KEYS[3])
  if type(known) == 'table' and not string.find(known.err, 'WRONGTYPE', 1, true) then
    return known -- a permission is missing
  end
  known = tonumber(known or 0)
  local number = known and math.max(known + step, tonumber(ARGV[4]))
  if not number or not (number <= LARGEST) then
    redis.call('DEL', KEYS[1])
    return {-3, 0}
  end
  redis.call('SET', KEYS[3], number, 'PX', DAY + ms)
  return {1, number}
end

-- Before anything else, and for late copies as well: one that was sent before the node forgot its
-- locks must not take one that it has forgotten.
if ARGV[3] ~= '' then
  -- pcall: something else under the mark's key is another mark, and no fault of the node.
  local mark = redis.pcall('GET', KEYS[2])
  if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then
    return mark -- a permission is missing
  elseif mark ~= ARGV[3] then
    return {-1, 0}
  end
end

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return granted(1, tonumber(ARGV[2]))
end
local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = redis.call('PTTL', KEYS[1])
if kind == 'string' then
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    -- Never shortened: this may be a late copy, and the lock may have been extended since.
    if remaining < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
      remaining = tonumber(ARGV[2])
    end
    -- Nobody else was granted the lock since; if the fence has risen, it is this owner's own number.
    return granted(0, remaining)
  end
elseif kind ~= 'hash' or remaining < 0 then
  -- Locks are strings, or hashes that expire (Redisson's and our reentrant and read-write ones).
  return {-2, kind}
end
return {0, remaining}
