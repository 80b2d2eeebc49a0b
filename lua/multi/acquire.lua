-- Takes an exclusive lock under several names on one node, under all of them or none, or reports the obstacle.
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, under all names; 0 without fencing
--   {0, ms}       refused: the last of the keys in the way is there, or another caller goes first, for ms more milliseconds (-1:
--                 without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    one of the names belongs to something that is not a lock, of that type
--   {-3, 0}       one of the fences is the largest number that there is
--   {-3, 1}       one of the fences is not a number
--
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply
-- changes nothing.

-- Everything is read before anything is written. If a server lacks memory, or the user a permission, the first such command
-- of the script already fails: so all is set, or nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
-- KEYS: MARK, RESERVED.., LOCK.., FENCE..
local OWNER, TTL, ADMITTED, PROPOSAL, FENCE_TTL, WAITER = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''
local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
local ttl, fence_ttl = tonumber(TTL), tonumber(FENCE_TTL) or 0
local names = (#KEYS - 1) / (tonumber(PROPOSAL) and 3 or 2)
local last_reserved, last_lock = 1 + names, 1 + 2 * names
-- A key that is not a string reads as missing here, and is found by the count of existing keys.
local values = redis.call('MGET', KEYS[1], unpack(KEYS, 2))
-- Before anything else, and for late copies as well: a request that was sent before the node forgot its locks must not take
-- one of these.
if ADMITTED ~= '' and values[1] ~= ADMITTED then
  return {-1, 0}
end

local ours, expected, is_reserved = 0, 0, false
for i = 2, last_reserved do
  is_reserved = is_reserved or values[i]
end
for i = last_reserved + 1, last_lock do
  if values[i] == OWNER then
    ours = ours + 1
  end
end
for i = last_lock + 1, #KEYS do
  if values[i] then
    expected = expected + 1
  end
end
-- Reservations by the place of the name.
local blocked_ms, others_of, without_of
if is_reserved then
  others_of, without_of = {}, {}
  for i = 2, last_reserved do
    local reserved = values[i]
    -- include check.lua
    others_of[i], without_of[i] = others, without
    if blocked then
      blocked_ms = math.max(blocked_ms or 0, blocked)
    end
  end
end

local refused_ms
if redis.call('EXISTS', unpack(KEYS, last_reserved + 1)) > ours + expected then
  for i = last_reserved + 1, last_lock do
    local kind = values[i] ~= OWNER and redis.call('TYPE', KEYS[i]).ok or 'none'
    local remaining = redis.call('PTTL', KEYS[i])
    if kind ~= 'none' then
      -- Locks are strings, or hashes that expire (Redisson's and our reentrant and read-write ones).
      if kind ~= 'string' and (kind ~= 'hash' or remaining < 0) then
        return {-2, kind}
      end
      -- The lock can be had once all of them have ended.
      refused_ms = math.max(refused_ms or 0, remaining < 0 and math.huge or remaining)
    end
  end
  if not refused_ms then
    return {-3, 1} -- something else is under a fence's key, and is not overwritten
  end
elseif blocked_ms and ours < names then
  refused_ms = blocked_ms
end
if refused_ms then
  for i = 2, WAITER ~= '' and last_reserved or 1 do
    local RESERVED, reserved = KEYS[i], values[i]
    local others, without = is_reserved and others_of[i], is_reserved and without_of[i]
    local is_shared = false
    -- include reserve.lua
  end
  return {0, refused_ms == math.huge and -1 or refused_ms}
end

-- The least difference between this number and that of an earlier grant. If all keys are ours, nobody else was granted any
-- of the names since; if a fence has risen, it is this owner's own number.
local step = ours == names and 0 or 1
local number, text = tonumber(PROPOSAL) or 0, PROPOSAL
local left = {} -- what the locks and the fences have left, in milliseconds
local longest = ttl
for i = last_reserved + 1, #KEYS do
  left[i] = values[i] and redis.call('PTTL', KEYS[i]) or -2
  if i <= last_lock then
    longest = math.max(longest, left[i])
  else
    local known = tonumber(values[i] or 0)
    if not known or not (known < math.huge) then
      return {-3, 1}
    elseif known + step > number then
      number, text = known + step, known + step
    end
  end
end
if number > LARGEST then
  return {-3, 0}
end

-- Never shortened: this may be a late copy, and the lock may have been extended since.
for i = last_reserved + 1, last_lock do
  if left[i] ~= -2 and left[i] < ttl then
    redis.call('PEXPIRE', KEYS[i], ttl)
  end
end
for i = last_reserved + 1, last_lock do
  if left[i] == -2 then
    redis.call('SET', KEYS[i], OWNER, 'PX', ttl)
  end
end
-- Nor is the end of a fence ever brought forward: the number may be ahead of the time.
fence_ttl = fence_ttl + longest - ttl
for i = last_lock + 1, #KEYS do
  if left[i] == -1 or left[i] >= fence_ttl then
    redis.call('SET', KEYS[i], text, 'KEEPTTL')
  else
    redis.call('SET', KEYS[i], text, 'PX', fence_ttl)
  end
end
for i = 2, is_reserved and last_reserved or 1 do
  local RESERVED, without = KEYS[i], without_of[i]
  -- include granted.lua
end
return {1, number}
