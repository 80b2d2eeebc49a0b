-- Lets a hold of a read-write lock to read live longer on one node, if it is still there; takes it again if the node has lost
-- it, and nobody has written since; and makes a read of our write, where the node does not know yet that its holder only
-- reads.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  the owner's tombstone, which is there if the hold was taken from it by force
-- KEYS[4]  the same of the owner as which the holder wrote, which is there also once it only reads
-- KEYS[5]  the string that lives for as long as this hold
-- KEYS[6]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- KEYS[7]  'last', the fence behind the last read, and 'others', the largest number of a write (not given without fencing)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the owner as which the holder wrote, if it did
-- ARGV[3]  how long it shall live from now on at least, in milliseconds
-- ARGV[4]  until when, in milliseconds of this node's clock, a hold that is gone may be set again
-- ARGV[5]  1 if newcomers are granted nothing but under an admitted mark, else 0
-- ARGV[6]  how much longer than the lock the tombstone lives that a downgrade leaves, in milliseconds
-- ARGV[7]  the channel on which its releases are told to our clients
-- ARGV[8]  the channel on which they are told to Redisson's clients
-- ARGV[9]  the lock's number (not given without fencing)
-- ARGV[10]  the largest number of a write under which a hold that is gone may be set (not given without fencing)
-- ARGV[11]  the fence's TTL in milliseconds, which outlives that (not given without fencing)
--
-- Replies:
--   1         our hold was there, and lives for at least that long
--   2         it was not there, and nobody wrote; now it is, for that long
--   3         the same, and nobody can have written here since it was gone: the node has forgotten what it knew, and
--             grants nothing to newcomers
--   0         somebody else's key is there, or the lock was taken from this owner by force
--   -1        our hold was not there, and it is too late to set it
--   {-2, n}   our hold was not there, and n is a number of a write: somebody was granted the lock here since
--
-- Nothing is ever shortened: a late, short extension must not undo an earlier, longer one.

-- Keeps an end that is later.
local function set(key, value, ttl)
  local left = redis.call('PTTL', key)
  if left == -1 or left >= tonumber(ttl) then
    redis.call('SET', key, value, 'KEEPTTL')
  else
    redis.call('SET', key, value, 'PX', ttl)
  end
end

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local fields = redis.pcall('HMGET', KEYS[1], 'mode', ARGV[1], ARGV[2])
if fields.err then
  if not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields -- a permission is missing
  end
  return 0
end
local mode, writes = fields[1], fields[3]
-- A hold whose string is gone is over, also if others keep the lock alive with its field in it.
local reads = fields[2] and redis.call('PTTL', KEYS[5]) ~= -2
local TOMBSTONE = KEYS[3]
local forced = redis.pcall('GET', TOMBSTONE)
if type(forced) == 'table' and not string.find(forced.err, 'WRONGTYPE', 1, true) then
  return forced -- a permission is missing
elseif forced then
  -- A late copy of the acquire may have set the hold again behind the force. Nobody would give that back.
  if reads or writes then
    redis.call('HDEL', KEYS[1], ARGV[1], ARGV[2])
    redis.call('DEL', KEYS[5])
    if redis.call('HLEN', KEYS[1]) == 1 then
      redis.call('DEL', KEYS[1])
    end
  end
  return 0
end

if reads or writes then
  local remaining = redis.call('PTTL', KEYS[1])
  local lives = math.max(remaining, tonumber(ARGV[3]))
  -- First, and in any case: a server that is out of memory allows this, and all that follows in the same script.
  redis.call('PEXPIRE', KEYS[1], lives)
  if writes then
    -- In one step, so that nobody writes between the two. And no extension of the write is made from here on.
    set(KEYS[4], '1', lives + ARGV[6])
    set(KEYS[5], '1', lives)
    redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
    redis.call('HDEL', KEYS[1], ARGV[2])
    -- pcall: who waits looks now and then.
    redis.pcall('PUBLISH', ARGV[7], ARGV[2])
    redis.pcall('PUBLISH', ARGV[8], '1')
  else
    set(KEYS[5], '1', ARGV[3])
  end
  local fence_ttl = ARGV[11]
  if fence_ttl then
    fence_ttl = fence_ttl + lives - ARGV[3]
  end
  -- Where our hold is, no fence is in the way, however large it is. But it must outlive the lock, however
  -- long that is held; so must what tells the numbers of reads.
  if KEYS[6] then
    local left = redis.call('PTTL', KEYS[6])
    if left == -2 then
      redis.call('SET', KEYS[6], ARGV[9], 'PX', fence_ttl)
    elseif left ~= -1 and left < tonumber(fence_ttl) then
      -- A value that is no number may be somebody else's lock, and keeps its end.
      local fence = redis.pcall('GET', KEYS[6])
      if type(fence) == 'string' and tonumber(fence) then
        redis.call('PEXPIRE', KEYS[6], fence_ttl)
        -- pcall: something else under that key is given no end.
        if redis.pcall('HEXISTS', KEYS[7], 'last') == 1 then
          redis.call('PEXPIRE', KEYS[7], fence_ttl)
        end
      end
    end
  end
  return 1
end
-- Only a key with an end is a lock.
local is_read = mode == 'read' and redis.call('PTTL', KEYS[1]) >= 0
if not is_read and redis.call('TYPE', KEYS[1]).ok ~= 'none' then
  return 0
end

-- A request that was held up on its way must not read what somebody may write by now.
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 >= tonumber(ARGV[4]) then
  return -1
end
if KEYS[6] then
  local known = tonumber(redis.call('GET', KEYS[6]) or 0) or 0
  -- The fence is a number of a write, unless it is the last one of a read: then that of a write is told beside it.
  local others = known
  -- pcall: something else under that key says nothing of reads.
  local told = redis.pcall('HMGET', KEYS[7], 'last', 'others')
  if told.err and not string.find(told.err, 'WRONGTYPE', 1, true) then
    return told -- a permission is missing
  elseif told[1] and tonumber(told[1]) == known then
    others = tonumber(told[2] or known) or known
  end
  if others > tonumber(ARGV[10]) then
    return {-2, others}
  end
  local number = math.max(tonumber(ARGV[9]), known)
  set(KEYS[6], number, ARGV[11])
  if not told.err then
    redis.call('HSET', KEYS[7], 'last', number, 'others', others)
    local left = redis.call('PTTL', KEYS[6])
    if left ~= -1 then
      redis.call('PEXPIRE', KEYS[7], left)
    end
  end
end
set(KEYS[5], '1', ARGV[3])
redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
local MARK, QUARANTINE = KEYS[2], ARGV[5]
-- include repaired.lua
