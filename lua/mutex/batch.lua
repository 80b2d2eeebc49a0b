-- Makes several calls of the other scripts in one step, one after the other: what waits for a node while
-- the one before it is answered. To start a script costs a server as much as two or three commands in it.
--
-- acquire and extend, the scripts of those names as functions, are put before this.
--
-- KEYS[1]  the node's mark
-- ARGV[1]  the mark under which the node grants; empty: under any, or no call takes a lock
--
-- Then the KEYS of the calls, one call's behind the other's. And for each run of calls of one script: its
-- name, how many KEYS and how many ARGV each of them has, and how many calls there are; then the ARGV of
-- each, with an empty mark.
--
-- Replies:
--   0        nothing was done: the mark is another one
--   {r, ..}  the reply of each call, or 'alone' if it failed, which it may have done half-way: it is to be
--            made again, as a call of its own

if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local replies = {}
local key, argument = 2, 2 -- the next ones

local function make(script, keys, arguments, calls)
  for _ = 1, calls do
    local ok, reply = pcall(
      script,
      { unpack(KEYS, key, key + keys - 1) },
      { unpack(ARGV, argument, argument + arguments - 1) }
    )
    if not ok or type(reply) == 'table' and reply.err then
      reply = 'alone'
    end
    replies[#replies + 1] = reply
    key, argument = key + keys, argument + arguments
  end
end

-- As release.lua does it, but all keys are read at once, and deleted at once.
local function release(calls)
  local owners = redis.pcall('MGET', unpack(KEYS, key, key + calls - 1))
  local ours, gone = {}, {}
  for i = 1, calls do
    local name, owner, channel = KEYS[key], ARGV[argument], ARGV[argument + 1]
    local reply = 0
    if owners.err then
      reply = 'alone'
    elseif owners[i] == owner and not gone[name] then
      gone[name] = true
      ours[#ours + 1] = name
      local told = redis.pcall('PUBLISH', channel, owner)
      reply = type(told) == 'number' and told > 0 and { 1, told } or 1
    end
    replies[#replies + 1] = reply
    key, argument = key + 1, argument + 2
  end
  if #ours > 0 then
    redis.call('DEL', unpack(ours))
  end
end

while argument <= #ARGV do
  local script, keys = ARGV[argument], tonumber(ARGV[argument + 1])
  local arguments, calls = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 4
  if script == 'release' then
    release(calls)
  else
    make(script == 'acquire' and acquire or extend, keys, arguments, calls)
  end
end
return replies
