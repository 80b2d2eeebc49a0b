-- Takes a lock away from its owners on one node, by an operator's order, and prevents them from getting it back.
--
-- KEYS[1]  the lock
-- KEYS[2]  the tombstone of an owner (one for each owner)
-- KEYS[3]  the string that lives for as long as that owner reads a read-write lock (one for each owner)
-- ARGV[1]  lifetime of the tombstones, in milliseconds
-- ARGV[2]  the channel on which releases of the lock are announced
-- ARGV[3]  the channel on which Redisson's clients are told about releases of a lock that is a hash
-- ARGV[4]  the same for a read-write lock
-- ARGV[5]  an owner (one for each owner)
--
-- Replies:
--   n   number of these owners that had the lock here
--
-- A tombstone is left whether or not its owner has the lock here: an extension that sets the key again may be under way. No
-- extension gets past the tombstone. Other owners' keys are left alone, and so is a key without expiry, which is not a lock.

local kind = redis.call('TYPE', KEYS[1]).ok
if redis.call('PTTL', KEYS[1]) < 0 then
  kind = 'none'
end
-- Returns the extra field of a read-write lock or a semaphore, the number of owners, and the end of a semaphore's last hold,
-- in milliseconds of this node's clock.
local function beside()
  local fields = kind == 'hash' and redis.call('HGETALL', KEYS[1]) or {}
  local kept, last = nil, 0
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' or fields[i] == 'permits' then
      kept = fields[i]
    else
      last = math.max(last, tonumber(string.match(fields[i + 1], '^%d+') or 0))
    end
  end
  return kept, #fields / 2 - 1, last
end
local kept_beside = beside()
local taken = 0
local owners = (#KEYS - 1) / 2
for i = 2, owners + 1 do
  local owner = ARGV[i + 3]
  -- A server that is out of memory sets nothing, unless the script has deleted something before.
  redis.call('DEL', KEYS[i], KEYS[i + owners])
  redis.call('SET', KEYS[i], '1', 'PX', ARGV[1])
  local deleted = 0
  if kind == 'string' and redis.call('GET', KEYS[1]) == owner then
    deleted = redis.call('DEL', KEYS[1])
    kind = 'none'
  elseif kind == 'hash' then
    deleted = redis.call('HDEL', KEYS[1], owner)
  end
  if deleted == 1 then
    taken = taken + 1
    -- pcall: the lock is free even if publishing is not permitted. Waiters poll now and then.
    redis.pcall('PUBLISH', ARGV[2], owner)
    if kept_beside == 'mode' then
      -- All waiters may go on: '1' wakes all of them.
      redis.pcall('PUBLISH', ARGV[4], '1')
    elseif kind == 'hash' and not kept_beside then
      redis.pcall('PUBLISH', ARGV[3], '0')
    end
  end
end
if kept_beside and taken > 0 then
  -- The lock ends with its last owner, so that locks of other kinds do not wait for longer.
  local _, left, last = beside()
  if kept_beside == 'permits' then
    local time = redis.call('TIME')
    local ms = last - time[1] * 1000 - math.floor(time[2] / 1000)
    if ms > 0 then
      redis.call('PEXPIRE', KEYS[1], ms)
    else
      redis.call('DEL', KEYS[1])
    end
  elseif left == 0 then
    redis.call('DEL', KEYS[1])
  end
end
return taken
