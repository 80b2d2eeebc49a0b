-- Makes several calls of the other scripts in one step, one after the other: the calls that wait for a node while the one
-- before them is answered. Starting a script costs a server as much as two commands in it.
--
-- The scripts extend and release are put before this one as functions of those names. No error ends a batch: an error shows the
-- caller that nothing was done.
--
-- KEYS[1]  the node's mark
-- ARGV[1]  the mark under which the node grants; empty: under any, or no call takes a lock
--
-- Then the KEYS of the calls, one call after the other. And for each run of calls of one script: its name, the number of
-- KEYS and the number of ARGV of each call, and the number of calls; then the ARGV of each. A run of acquire has less of
-- both: see shared/take_all.lua.
--
-- Replies:
--   0        nothing was done: the mark is another one, or cannot be read
--   {r, ..}  the reply of each call, or 'alone' if it failed, perhaps half-way: it has to be made again, as a
--            call of its own

-- A local is found faster than a global.
local redis, KEYS, ARGV, type, tonumber, unpack, pcall = redis, KEYS, ARGV, type, tonumber, unpack, pcall

if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local replies, replied = {}, 0
local key, argument = 2, 2 -- the next ones

local function acquire(LOCK, RESERVED, FENCE, OWNER, TTL, PROPOSAL, FENCE_TTL, WAITER, reserved, known)
  -- include take_string.lua
end
-- include take_all.lua

local reads_lock = true
-- include make.lua

-- Like release, but all keys are read at once, and deleted at once.
local function release_all(keys, arguments, calls)
  local owners = redis.pcall('MGET', unpack(KEYS, key, key + calls - 1))
  if owners.err then
    return make(release, keys, arguments, calls) -- a permission is missing
  end
  local ours, places, n = {}, {}, 0
  for i = 1, calls do
    replies[replied + i] = 0
    if owners[i] == ARGV[argument + 2 * i - 2] then
      n = n + 1
      ours[n], places[n] = KEYS[key + i - 1], i
    end
  end
  local deleted = n == 0 or redis.pcall('DEL', unpack(ours))
  local done = deleted ~= n and {} -- two copies of one release may be among the calls
  for i = 1, n do
    if not done or not done[ours[i]] then
      local at, reply = argument + 2 * places[i] - 2, 'alone'
      if type(deleted) == 'number' then
        local told = redis.pcall('PUBLISH', ARGV[at + 1], ARGV[at])
        reply = told ~= 0 and type(told) == 'number' and {1, told} or 1
      end
      replies[replied + places[i]] = reply
    end
    if done then
      done[ours[i]] = true
    end
  end
  replied, key, argument = replied + calls, key + calls, argument + 2 * calls
end

while argument <= #ARGV do
  local script, keys = ARGV[argument], tonumber(ARGV[argument + 1])
  local arguments, calls = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 4
  if script == 'acquire' then
    take_all(keys, arguments, calls)
  elseif script == 'release' and arguments == 2 then
    release_all(keys, arguments, calls) -- it neither keeps the lock nor raises the fence
  else
    make(script == 'extend' and extend or release, keys, arguments, calls)
  end
end
return replies
