-- Makes several calls of the other scripts in one step, one after the other: the calls that wait for a node while the one
-- before them is answered. Starting a script costs a server as much as two commands in it.
--
-- The scripts acquire, extend and release are put before this one as functions of those names. No error ends a batch: an
-- error shows the caller that nothing was done.
--
-- KEYS[1]  the node's mark
-- ARGV[1]  the mark under which the node grants; empty: under any, or no call takes a lock
--
-- Then the KEYS of the calls, one call after the other. And for each run of calls of one script: its name, the number of
-- KEYS and the number of ARGV of each call, and the number of calls; then the ARGV of each, with an empty mark.
--
-- Replies:
--   0        nothing was done: the mark is another one, or cannot be read
--   {r, ..}  the reply of each call, or 'alone' if it failed, perhaps half-way: it has to be made again, as a
--            call of its own

if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local replies = {}
local key, argument = 2, 2 -- the next ones

local reads_lock = true
-- include make.lua

-- Like release, but all keys are read at once, and deleted at once.
local function release_all(keys, arguments, calls)
  local owners = redis.pcall('MGET', unpack(KEYS, key, key + calls - 1))
  if owners.err then
    return make(release, keys, arguments, calls) -- a permission is missing
  end
  local ours, deleted_by = {}, {}
  for i = 1, calls do
    local name = KEYS[key + i - 1]
    if owners[i] == ARGV[argument + 2 * i - 2] and not deleted_by[name] then
      deleted_by[name] = i
      ours[#ours + 1] = name
    end
  end
  local deleted = #ours == 0 or redis.pcall('DEL', unpack(ours))
  for i = 1, calls do
    local reply = 0
    if deleted_by[KEYS[key]] == i then
      reply = 'alone'
      if type(deleted) == 'number' then
        local told = redis.pcall('PUBLISH', ARGV[argument + 1], ARGV[argument])
        reply = type(told) == 'number' and told > 0 and { 1, told } or 1
      end
    end
    replies[#replies + 1] = reply
    key, argument = key + 1, argument + 2
  end
end

while argument <= #ARGV do
  local script, keys = ARGV[argument], tonumber(ARGV[argument + 1])
  local arguments, calls = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 4
  if script == 'release' and arguments == 2 then
    release_all(keys, arguments, calls)
  elseif script == 'release' then
    make(release, keys, arguments, calls) -- it keeps the lock, or raises the fence
  else
    make(script == 'acquire' and acquire or extend, keys, arguments, calls)
  end
end
return replies
