-- Extends a hold of a read-write lock to read on one node, if it is still there. Takes it again if the node has lost it, and
-- nobody has written since. Turns our write into a read, if the node does not know yet that its holder only reads.
--
-- Replies:
--   1         our hold was there, and lives for at least TTL
--   2         it was not there, and nobody wrote; now it is, for TTL
--   3         the same, and nobody can have written here since it was gone: the node has forgotten its locks, and
--             grants nothing to newcomers
--   0         another owner's key is there, or the lock was taken from this owner by force
--   -1        our hold was not there, and it is too late to set it
--   {-2, n}   our hold was not there, and n is a number of a write: another owner was granted the lock here since
--
-- Nothing is ever shortened: a late, short extension must not undo an earlier, longer one.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, TOMBSTONE, WRITE_TOMBSTONE, READ_END, FENCE, READS
  = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local OWNER, WRITE_OWNER, TTL, UNTIL, QUARANTINE, OUTLIVES, CHANNEL, REDISSONS_CHANNEL, NUMBER, UP_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]

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
local fields = redis.pcall('HMGET', LOCK, 'mode', OWNER, WRITE_OWNER)
if fields.err then
  if not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields -- a permission is missing
  end
  return 0
end
local mode, writes = fields[1], fields[3]
-- A hold whose string is gone is over, even if others keep the lock alive with its field in it.
local reads = fields[2] and redis.call('PTTL', READ_END) ~= -2
-- include forced.lua
if forced then
  -- A late copy of the acquire may have set the hold again after the force. No release would follow.
  if reads or writes then
    redis.call('HDEL', LOCK, OWNER, WRITE_OWNER)
    redis.call('DEL', READ_END)
    if redis.call('HLEN', LOCK) == 1 then
      redis.call('DEL', LOCK)
    end
  end
  return 0
end

if reads or writes then
  local remaining = redis.call('PTTL', LOCK)
  local lives = math.max(remaining, tonumber(TTL))
  -- First, and in any case: a server that is out of memory allows this, and then all later commands of the same script.
  redis.call('PEXPIRE', LOCK, lives)
  if writes then
    -- In one step, so that nobody writes between the two. From here on the write cannot be extended.
    set(WRITE_TOMBSTONE, '1', lives + OUTLIVES)
    set(READ_END, '1', lives)
    redis.call('HSET', LOCK, 'mode', 'read', OWNER, 1)
    redis.call('HDEL', LOCK, WRITE_OWNER)
    -- pcall: waiters poll now and then.
    redis.pcall('PUBLISH', CHANNEL, WRITE_OWNER)
    redis.pcall('PUBLISH', REDISSONS_CHANNEL, '1')
  else
    set(READ_END, '1', TTL)
  end
  local fence_ttl = FENCE_TTL
  if fence_ttl then
    fence_ttl = fence_ttl + lives - TTL
  end
  -- If our hold is there, no fence prevents the extension, however large it is. But the fence must outlive the lock, however
  -- long the lock is held, and so must READS.
  if FENCE then
    local left = redis.call('PTTL', FENCE)
    if left == -2 then
      redis.call('SET', FENCE, NUMBER, 'PX', fence_ttl)
    elseif left ~= -1 and left < tonumber(fence_ttl) then
      -- A value that is not a number may be another client's lock, and keeps its end.
      local fence = redis.pcall('GET', FENCE)
      if type(fence) == 'string' and tonumber(fence) then
        redis.call('PEXPIRE', FENCE, fence_ttl)
        -- pcall: another type of value under that key gets no end.
        if redis.pcall('HEXISTS', READS, 'last') == 1 then
          redis.call('PEXPIRE', READS, fence_ttl)
        end
      end
    end
  end
  return 1
end
-- Only a key with an end is a lock.
local is_read = mode == 'read' and redis.call('PTTL', LOCK) >= 0
if not is_read and redis.call('TYPE', LOCK).ok ~= 'none' then
  return 0
end

-- A delayed request must not set a read while another owner may be writing.
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 >= tonumber(UNTIL) then
  return -1
end
if FENCE then
  local known = tonumber(redis.call('GET', FENCE) or 0) or 0
  -- The fence is a number of a write, unless it is the last number of a read. In that case READS has the number of the
  -- write.
  local others = known
  -- pcall: another type of value under that key shows nothing about reads.
  local told = redis.pcall('HMGET', READS, 'last', 'others')
  if told.err and not string.find(told.err, 'WRONGTYPE', 1, true) then
    return told -- a permission is missing
  elseif told[1] and tonumber(told[1]) == known then
    others = tonumber(told[2] or known) or known
  end
  if others > tonumber(UP_TO) then
    return {-2, others}
  end
  local number = math.max(tonumber(NUMBER), known)
  set(FENCE, number, FENCE_TTL)
  if not told.err then
    redis.call('HSET', READS, 'last', number, 'others', others)
    local left = redis.call('PTTL', FENCE)
    if left ~= -1 then
      redis.call('PEXPIRE', READS, left)
    end
  end
end
set(READ_END, '1', TTL)
redis.call('HSET', LOCK, 'mode', 'read', OWNER, 1)
if redis.call('PTTL', LOCK) < tonumber(TTL) then
  redis.call('PEXPIRE', LOCK, TTL)
end
-- include repaired.lua
