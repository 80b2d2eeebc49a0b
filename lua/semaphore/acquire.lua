-- Takes permits of a semaphore on one node, or reports the free ones. Each permit is a slot with a number, and each slot has
-- one owner at a time: an owner that gets the same slots from a majority of the nodes is their only one.
--
-- Replies (the shape that every acquire script has):
--   {1, 0}              granted; slots have no numbers of grants
--   {0, ms, free}       refused: one of the slots is another owner's; the first hold ends in ms milliseconds. free: the free
--                       slots, a hexadecimal digit for each four, the lowest slot in the lowest bit of the first
--   {0, ms}             refused: another owner's lock of another kind is there, or another caller goes first, for ms more
--                       milliseconds (-1: without expiry)
--   {-1, 0}             not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}          the name belongs to something that is not a lock, of that type
--   {-4, permits, ms}   the semaphore has another number of permits here, while the first of its holds lives for ms more
--                       milliseconds
--
-- Running it again for the same owner grants again: a retry after a lost reply changes nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED = KEYS[1], KEYS[2], KEYS[3]
local OWNER, TTL, ADMITTED, WAITER, PERMITS = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] -- and SLOT..

local CLASS, FENCE = 'x', nil
-- include read.lua
-- include check.lua

local is_shared = false
local kind = redis.call('TYPE', LOCK).ok
local remaining = kind ~= 'none' and redis.call('PTTL', LOCK)
if kind == 'string' then
  -- include reserve.lua
  return {0, remaining} -- a mutex
elseif kind ~= 'none' and (kind ~= 'hash' or remaining < 0) then
  return {-2, kind}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permits, over, taken = false, {}, {}
local others_data = false -- whether a field is no hold
local first, ours, before -- when the first hold ends, and when ours does; our field
local fields = kind == 'hash' and redis.call('HGETALL', LOCK) or {}
for i = 1, #fields, 2 do
  local owner, hold = fields[i], fields[i + 1]
  if owner == 'permits' then
    permits = hold
  else
    local ends, slots = string.match(hold, '^(%d+)( [%d ]+)$')
    ends = tonumber(ends)
    if not ends then
      others_data = true
    elseif ends < now then
      over[#over + 1] = owner
    else
      for slot in string.gmatch(slots, '%d+') do
        taken[tonumber(slot)] = owner
      end
      first = math.min(first or ends, ends)
      if owner == OWNER then
        ours, before = ends, hold
      end
    end
  end
end
if kind == 'hash' and not permits then
  is_shared = true
  -- include reserve.lua
  return {0, remaining} -- a reentrant lock, or a read-write lock
elseif others_data or permits and not string.find(permits, '^%d+$') then
  return {-2, kind}
end
if not first then
  permits = PERMITS -- the number ends with the last hold
elseif permits ~= PERMITS then
  is_shared = true -- callers with that number may come for as long as one of its holds is there
  -- include reserve.lua
  return {-4, tonumber(permits), first - now}
end
if blocked and not ours then
  -- include reserve.lua
  return {0, blocked}
end
for i = 6, #ARGV do
  local owner = taken[tonumber(ARGV[i])]
  if owner and owner ~= OWNER then
    local digits = {}
    for slot = 0, permits - 1, 4 do
      local digit = 0
      for bit = 0, math.min(3, permits - 1 - slot) do
        digit = digit + (taken[slot + bit] and 0 or 2 ^ bit)
      end
      digits[#digits + 1] = string.format('%x', digit)
    end
    -- include reserve.lua
    return {0, first - now, table.concat(digits)}
  end
end

-- Never shortened: this may be a late copy, and the hold may have been extended since.
local ends = math.max(ours or 0, now + TTL)
for _, owner in ipairs(over) do
  redis.call('HDEL', LOCK, owner)
end
local hold = string.format('%.0f %s', ends, table.concat(ARGV, ' ', 6))
redis.call('HSET', LOCK, 'permits', permits, OWNER, hold)
if kind == 'none' or remaining < ends - now then
  -- pcall: a semaphore without an end must not be left behind. Others' holds, and an earlier one of ours, stay.
  local set = redis.pcall('PEXPIRE', LOCK, ends - now)
  if type(set) == 'table' then
    if before then
      redis.call('HSET', LOCK, OWNER, before)
    elseif first then
      redis.call('HDEL', LOCK, OWNER)
    else
      redis.call('HDEL', LOCK, OWNER, 'permits')
    end
    return set -- a permission is missing
  end
end
-- include granted.lua
return {1, 0}
