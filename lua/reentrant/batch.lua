-- Makes several calls of the other scripts in one step, one after the other: what waits for a node while
-- the one before it is answered. To start a script costs a server as much as two commands in it.
--
-- acquire, extend and release, the scripts of those names as functions, are put before this. No error ends
-- it: who gets one knows that nothing was done.
--
-- KEYS[1]  the node's mark
-- ARGV[1]  the mark under which the node grants; empty: under any, or no call takes a lock
--
-- Then the KEYS of the calls, one call's behind the other's. And for each run of calls of one script: its
-- name, how many KEYS and how many ARGV each of them has, and how many calls there are; then the ARGV of
-- each, with an empty mark.
--
-- Replies:
--   0        nothing was done: the mark is another one, or cannot be read
--   {r, ..}  the reply of each call, or 'alone' if it failed, which it may have done half-way: it is to be
--            made again, as a call of its own

if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local replies = {}
local key, argument = 2, 2 -- the next ones

local function make(script, keys, arguments, calls)
  -- One command reads the keys of all calls from the third one on: the reservations, or before an extension the
  -- tombstone; and the fence. A call gets it beside its ARGV. Copies of one acquire read the fence again, and a call
  -- behind one that may have changed the reservations of the same name reads these again.
  local extends = script == extend
  local each = script == release and 0 or keys - 2
  local read, changed = {}, {}
  for i = 0, each > 0 and calls - 1 or -1 do
    read[each * i + 1] = KEYS[key + keys * i + 2]
    read[each * i + each] = KEYS[key + keys * i + keys - 1]
  end
  read = read[1] and redis.pcall('MGET', unpack(read)) or read
  for i = 1, calls do
    local given = { unpack(ARGV, argument, argument + arguments - 1) }
    -- None of them, if the permission is missing.
    if each == 2 then
      given.fence = read[each * i]
    end
    if extends then
      given.forced = read[each * (i - 1) + 1]
    elseif script == acquire then
      local reservations = KEYS[key + 2]
      given.reserved = read[each * (i - 1) + 1]
      if changed[reservations] then
        given.reserved = nil
      elseif given.reserved or arguments > (each == 2 and 5 or 3) then
        changed[reservations] = true -- by its grant, or its refusal
      end
    end
    local ok, reply = pcall(script, { unpack(KEYS, key, key + keys - 1) }, given)
    if not ok or type(reply) == 'table' and reply.err then
      reply = 'alone'
    end
    replies[#replies + 1] = reply
    key, argument = key + keys, argument + arguments
  end
end

while argument <= #ARGV do
  local script, keys = ARGV[argument], tonumber(ARGV[argument + 1])
  local arguments, calls = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 4
  local made = script == 'acquire' and acquire or script == 'extend' and extend or release
  make(made, keys, arguments, calls)
end
return replies
