-- Takes permits of a semaphore on one node, or says which are free. Each permit is a slot with a number, and each slot has one
-- owner at a time: whoever gets the same slots from a majority of the nodes has them alone.
--
-- KEYS[1]  the semaphore: a hash with the field 'permits', and a field for each owner, 'END SLOT ..': when its hold ends, in
--          milliseconds of this node's clock, and which slots it has
-- KEYS[2]  the node's mark
-- KEYS[3]  who has reserved the name: the priorities of waiters, the oldest first
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the caller's priority; empty: it has none yet. Behind it, if it reserves the name when it is refused: for how many ms
-- ARGV[5]  how many permits the semaphore has
-- ARGV[6]  a slot that is wanted, from 0 on (one for each slot); all of them or none
--
-- Replies (the shape that every acquire script has):
--   {1, 0}              granted; slots have no numbers of grants
--   {0, ms, free}       refused: one of the slots is somebody else's; the first hold ends in ms milliseconds. free: which
--                       slots are free, a hexadecimal digit for four of them, the lowest slot in the lowest bit of the first
--   {0, ms}             the same, and somebody's lock of another kind is there, or somebody else goes first, for ms more
--                       milliseconds (-1: without expiry)
--   {-1, 0}             not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}          the name belongs to something that is no lock, of that type
--   {-4, permits, ms}   the semaphore has another number of permits here, while the first of its holds lives for ms more
--                       milliseconds
--
-- Running it again for the same owner grants again: a retry after a lost reply changes nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local RESERVED, FENCE, WAITER, CLASS = KEYS[3], nil, ARGV[4], 'x'
-- include read.lua
-- include check.lua

local is_shared = false
local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = kind ~= 'none' and redis.call('PTTL', KEYS[1])
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
local fields = kind == 'hash' and redis.call('HGETALL', KEYS[1]) or {}
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
      if owner == ARGV[1] then
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
  permits = ARGV[5] -- the number ends with the last hold
elseif permits ~= ARGV[5] then
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
  if owner and owner ~= ARGV[1] then
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
local ends = math.max(ours or 0, now + ARGV[2])
for _, owner in ipairs(over) do
  redis.call('HDEL', KEYS[1], owner)
end
local hold = string.format('%.0f %s', ends, table.concat(ARGV, ' ', 6))
redis.call('HSET', KEYS[1], 'permits', permits, ARGV[1], hold)
if kind == 'none' or remaining < ends - now then
  -- pcall: a semaphore that cannot be given an end is not left behind. Others' holds, and an earlier one of ours, stay.
  local set = redis.pcall('PEXPIRE', KEYS[1], ends - now)
  if type(set) == 'table' then
    if before then
      redis.call('HSET', KEYS[1], ARGV[1], before)
    elseif first then
      redis.call('HDEL', KEYS[1], ARGV[1])
    else
      redis.call('HDEL', KEYS[1], ARGV[1], 'permits')
    end
    return set -- a permission is missing
  end
end
-- include granted.lua
return {1, 0}
