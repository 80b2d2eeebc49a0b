-- Gives a hold of a read-write lock to read back on one node, if it is still there. The last hold to end tells the waiters.
--
-- Replies:
--   1        our hold was there, and is deleted
--   {1, n}   the same, nobody holds the lock any more, and n connections were told about it
--   0        our hold was not there

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, READ_END, TOMBSTONE, WRITE_TOMBSTONE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, WRITE_OWNER, CHANNEL, REDISSONS_CHANNEL, READS_PREFIX, TOMBSTONE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

-- Tombstones are left if an extension of the hold may still be under way: it then does not set the hold again. A raised
-- fence would keep other readers from setting lost holds again.

local MOST = 100 -- counts of a thread of Redisson's that are looked at

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local written = redis.pcall('HDEL', LOCK, WRITE_OWNER)
if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
  return written -- a permission is missing
end
local ours = written == 1
if type(written) ~= 'table' then
  ours = redis.call('HDEL', LOCK, OWNER) == 1 or ours
end
redis.call('DEL', READ_END)
local reply = 0
if ours then
  reply = 1
  local fields = redis.call('HGETALL', LOCK)
  local mode, holds, longest = false, 0, 0
  local over = {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field == 'mode' then
      mode = fields[i + 1]
    else
      holds = holds + 1
      local lives = 0
      for n = 1, math.min(tonumber(fields[i + 1]) or 0, MOST) do
        -- The only key name that a script puts together, as Redisson does it: only the node knows the owners of the holds.
        local key = table.concat({READS_PREFIX, field, 'rwlock_timeout', n}, ':')
        lives = math.max(lives, redis.call('PTTL', key))
      end
      longest = math.max(longest, lives)
      if lives <= 0 then
        over[#over + 1] = field
      end
    end
  end
  if mode == 'read' or written == 1 then
    -- A hold whose time is over does not count, and keeps nobody from the lock.
    for _, field in ipairs(over) do
      redis.call('HDEL', LOCK, field)
      holds = holds - 1
    end
    if holds > 0 then
      redis.call('HSET', LOCK, 'mode', 'read')
      redis.call('PEXPIRE', LOCK, longest)
    end
  end
  if holds == 0 then
    redis.call('DEL', LOCK)
    local WORD = written == 1 and '1' or '0'
    -- include tell.lua
  end
end
if TOMBSTONE then
  redis.call('SET', TOMBSTONE, '1', 'PX', TOMBSTONE_TTL)
  redis.call('SET', WRITE_TOMBSTONE, '1', 'PX', TOMBSTONE_TTL)
end
return reply
