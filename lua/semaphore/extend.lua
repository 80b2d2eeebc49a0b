-- Extends permits of a semaphore on one node, if they are still ours there. Takes them again if the node has lost them, and
-- nobody else has taken one of them since.
--
-- Replies:
--   1    our hold was there, and lives for at least TTL
--   2    it was not there, and none of its slots was taken; now it is, for TTL
--   3    the same, and nobody can have had them here since our hold was gone: the node has forgotten its locks, and
--        grants nothing to newcomers
--   0    one of the slots is another owner's, the semaphore has another number of permits, another owner's lock of another
--        kind is there, or the permits were taken from this owner by force
--   -1   our hold was not there, nobody has its slots, and it is too late to set it
--
-- A hold is never shortened: a late, short extension must not undo an earlier, longer one.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, TOMBSTONE = KEYS[1], KEYS[2], KEYS[3]
local OWNER, TTL, UNTIL, QUARANTINE, PERMITS = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] -- and SLOT..

-- include forced.lua
if forced then
  return 0
end
local kind = redis.call('TYPE', LOCK).ok
local remaining = redis.call('PTTL', LOCK)
if kind ~= 'none' and (kind ~= 'hash' or remaining < 0) then
  return 0
end
local time = redis.call('TIME')
local exact = time[1] * 1000 + time[2] / 1000
local now = math.floor(exact)
-- Most holds are there. The owners of the slots are read only if our hold is not there, since there may be a thousand holds.
local mine = kind == 'hash' and redis.call('HMGET', LOCK, 'permits', OWNER) or {}
local permits, before = mine[1], mine[2]
if kind == 'hash' and not permits then
  return 0 -- a reentrant lock, or a read-write lock
end
local ours = before and tonumber(string.match(before, '^%d+') or 0) -- when our hold ends
local others = false -- whether there are any
if not ours or ours < now then
  ours, before = nil, nil
  local over, taken = {}, {}
  local fields = kind == 'hash' and redis.call('HGETALL', LOCK) or {}
  for i = 1, #fields, 2 do
    local owner, hold = fields[i], fields[i + 1]
    if owner ~= 'permits' then
      local ends, slots = string.match(hold, '^(%d+)( [%d ]+)$')
      ends = tonumber(ends)
      if not ends then
        return 0 -- other data
      elseif ends < now then
        over[#over + 1] = owner
      else
        others = true
        for slot in string.gmatch(slots, '%d+') do
          taken[slot] = owner
        end
      end
    end
  end
  if others and permits ~= PERMITS then
    return 0
  end
  for i = 6, #ARGV do
    if taken[ARGV[i]] then
      return 0
    end
  end
  -- A delayed request must not take permits that nobody holds any more.
  if exact >= tonumber(UNTIL) then
    return -1
  end
  for _, owner in ipairs(over) do
    redis.call('HDEL', LOCK, owner)
  end
end
local ends = math.max(ours or 0, now + TTL)
if ours then
  -- A server that is out of memory sets nothing, unless the script has deleted something before. Our hold goes on there, as a
  -- mutex does.
  redis.call('HDEL', LOCK, OWNER)
end
local hold = string.format('%.0f %s', ends, table.concat(ARGV, ' ', 6))
redis.call('HSET', LOCK, 'permits', PERMITS, OWNER, hold)
if kind == 'none' or remaining < ends - now then
  -- pcall: a semaphore without an end must not be left behind. Others' holds, and an earlier one of ours, stay.
  local set = redis.pcall('PEXPIRE', LOCK, ends - now)
  if type(set) == 'table' then
    if before then
      redis.call('HSET', LOCK, OWNER, before)
    elseif others then
      redis.call('HDEL', LOCK, OWNER)
    else
      redis.call('HDEL', LOCK, OWNER, 'permits')
    end
    return set -- a permission is missing
  end
end
if ours then
  return 1
end
-- include repaired.lua
