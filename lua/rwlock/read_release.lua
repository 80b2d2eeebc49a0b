-- Gives a hold of a read-write lock to read back on one node, if it is still there. The last one tells those who wait.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the string that lives for as long as this hold
-- KEYS[3]  the owner's tombstone (given only to raise it)
-- KEYS[4]  the same of the owner as which the holder wrote (given only to raise it)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the owner as which the holder wrote, if it did
-- ARGV[3]  the channel on which its releases are told to our clients
-- ARGV[4]  the channel on which they are told to Redisson's clients
-- ARGV[5]  with what the keys begin of the strings that live for as long as a hold: 'PREFIX:OWNER:rwlock_timeout:N'
-- ARGV[6]  how long the tombstones live, in milliseconds (given only to raise it)
--
-- Replies:
--   1        our hold was there, and is deleted
--   {1, n}   the same, nobody holds the lock any more, and so many connections were told of it
--   0        our hold was not there

-- Tombstones are left where an extension of the hold may still be under way, which does not set it again then. A raised
-- fence would be in the way of the others who read.

local MOST = 100 -- counts of a thread of Redisson's that are looked at

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local written = redis.pcall('HDEL', KEYS[1], ARGV[2])
if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
  return written -- a permission is missing
end
local ours = written == 1
if type(written) ~= 'table' then
  ours = redis.call('HDEL', KEYS[1], ARGV[1]) == 1 or ours
end
redis.call('DEL', KEYS[2])
local reply = 0
if ours then
  reply = 1
  local fields = redis.call('HGETALL', KEYS[1])
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
        -- The one key name that is put together in a script, as Redisson does it: nobody else knows whose holds there are.
        local key = table.concat({ARGV[5], field, 'rwlock_timeout', n}, ':')
        lives = math.max(lives, redis.call('PTTL', key))
      end
      longest = math.max(longest, lives)
      if lives <= 0 then
        over[#over + 1] = field
      end
    end
  end
  if mode == 'read' or written == 1 then
    -- A hold whose time is over is none, and keeps nobody from the lock.
    for _, field in ipairs(over) do
      redis.call('HDEL', KEYS[1], field)
      holds = holds - 1
    end
    if holds > 0 then
      redis.call('HSET', KEYS[1], 'mode', 'read')
      redis.call('PEXPIRE', KEYS[1], longest)
    end
  end
  if holds == 0 then
    redis.call('DEL', KEYS[1])
    local CHANNEL, THEIRS, WORD = ARGV[3], ARGV[4], written == 1 and '1' or '0'
    -- include tell.lua
  end
end
if KEYS[3] then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[6])
  redis.call('SET', KEYS[4], '1', 'PX', ARGV[6])
end
return reply
