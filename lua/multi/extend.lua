-- Extends a lock with several names on one node, if it is still ours there. Sets keys again that the node has lost, if
-- nobody else has taken any of these names since. All names are extended, or none.
--
-- Replies:
--   1         all our keys were there, and live for at least TTL
--   2         keys were gone, and nobody had them; now all are ours, for TTL
--   3         the same, and nobody can have had the lock here since the keys were gone: the node has forgotten its
--             locks, and grants nothing to newcomers
--   0         none of our keys is there, and under one of the names there is another owner's, or one of them was taken
--             from this owner by force
--   -1        no key was there, and it is too late to set any
--   {-2, n}   no key was there, and the largest fence is n: another owner was granted a name here since
--   {-3, n}   some of our keys are there, and live no longer than before. The others cannot be set: n is the
--             largest of their fences, if nothing else prevents it; 0: another owner's key is there, or
--             it is too late, or one of the names was taken from this owner by force
--
-- A key is never shortened: a late, short extension must not undo an earlier, longer one. The rest of our keys stays, since
-- the lease may rely on it; the release deletes it.

-- The end of a fence is never brought forward either. All is read before anything is written: see acquire.

-- KEYS: MARK, LOCK.., TOMBSTONE.., FENCE..
local OWNER, TTL, UNTIL, QUARANTINE, NUMBER, UP_TO, FENCE_TTL = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local MARK, ttl, fence_ttl = KEYS[1], tonumber(TTL), tonumber(FENCE_TTL or 0)
local names = (#KEYS - 1) / (NUMBER and 3 or 2)
local last_lock = names + 1
-- The locks and the tombstones.
local values = redis.call('MGET', unpack(KEYS, 2, 2 * names + 1))
local left = {} -- what our keys have left, in milliseconds
local gone, gone_keys = {}, {}
for i = 2, last_lock do
  if values[i - 1] == OWNER then
    left[i] = redis.call('PTTL', KEYS[i])
    fence_ttl = math.max(fence_ttl, FENCE_TTL and FENCE_TTL + left[i] - ttl or 0)
  else
    gone[#gone + 1] = i
    gone_keys[#gone] = KEYS[i]
  end
end

-- Returns the fence of the key at that place.
local function fence_of(i)
  return KEYS[i + 2 * names]
end

-- Sets a fence to that number, unless it has a larger one.
local function set_fence(fence, number)
  local known = tonumber(redis.call('GET', fence) or 0) or 0
  local left_of_fence = redis.call('PTTL', fence)
  number = math.max(number, known)
  if left_of_fence == -1 or left_of_fence >= fence_ttl then
    redis.call('SET', fence, number, 'KEEPTTL')
  else
    redis.call('SET', fence, number, 'PX', fence_ttl)
  end
end

local none_is_left = #gone == names
for i = names + 1, 2 * names do
  if values[i] then
    return none_is_left and 0 or {-3, 0}
  end
end
if #gone > 0 then
  if redis.call('EXISTS', unpack(gone_keys)) > 0 then
    return none_is_left and 0 or {-3, 0}
  end
  -- A delayed request must not take a lock that nobody holds any more.
  local now = redis.call('TIME')
  if now[1] * 1000 + now[2] / 1000 >= tonumber(UNTIL) then
    return none_is_left and -1 or {-3, 0}
  end
  local largest = 0
  for _, i in ipairs(NUMBER and gone or {}) do
    largest = math.max(largest, tonumber(redis.call('GET', fence_of(i)) or 0) or 0)
  end
  if NUMBER and largest > tonumber(UP_TO) then
    -- All these names get this fence. A later grant of any of them is then above the limit of a repair that knows this
    -- number.
    for _, i in ipairs(gone) do
      set_fence(fence_of(i), largest)
    end
    return {none_is_left and -2 or -3, largest}
  end
end

for i = 2, last_lock do
  if left[i] and left[i] < ttl then
    redis.call('PEXPIRE', KEYS[i], ttl)
  end
  -- If our key is there, no fence prevents the extension, however large it is. But the fence must outlive the lock, however
  -- long the lock is held.
  if left[i] and NUMBER then
    local fence = fence_of(i)
    local left_of_fence = redis.call('PTTL', fence)
    if left_of_fence == -2 then
      redis.call('SET', fence, NUMBER, 'PX', fence_ttl)
    elseif left_of_fence ~= -1 and left_of_fence < fence_ttl then
      -- A value that is not a number may be another client's lock, and keeps its end.
      local known = redis.pcall('GET', fence)
      if type(known) == 'string' and tonumber(known) then
        redis.call('PEXPIRE', fence, fence_ttl)
      end
    end
  end
end
if #gone == 0 then
  return 1
end
for _, i in ipairs(gone) do
  if NUMBER then
    set_fence(fence_of(i), tonumber(NUMBER))
  end
end
for _, i in ipairs(gone) do
  redis.call('SET', KEYS[i], OWNER, 'PX', ttl)
end
-- include repaired.lua
