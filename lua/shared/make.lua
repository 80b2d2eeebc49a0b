-- Part of a batch: `make` makes some calls of one script.
--
-- Needs acquire, extend and release; `reads_lock`, true if the lock is a string, which is read together with the other
-- values of the calls; `key` and `argument`, the places of the first call's keys and arguments; and `replies`.

local function make(script, keys, arguments, calls)
  -- One command reads for all calls. Before an acquire it reads the reservations and the fence; before an extension the
  -- tombstone and the fence, and the lock if `reads_lock` is true. A call gets the values as fields of its ARGV. Copies of
  -- one acquire read the fence again. A call after one that may have changed the reservations of the same name reads these
  -- again.
  local extends, has_fence = script == extend, keys == 4
  local each = script == release and 0 or extends and reads_lock and keys - 1 or keys - 2
  local read, changed = {}, {}
  for i = 0, each > 0 and calls - 1 or -1 do
    local first = key + keys * i
    if extends and reads_lock then
      read[each * i + 1], read[each * i + 2] = KEYS[first], KEYS[first + 2]
    else
      read[each * i + 1] = KEYS[first + 2]
    end
    read[each * i + each] = KEYS[first + keys - 1]
  end
  read = read[1] and redis.pcall('MGET', unpack(read)) or read
  for i = 1, calls do
    local given = { unpack(ARGV, argument, argument + arguments - 1) }
    -- No value at all, if the permission is missing.
    local first = each * (i - 1) + 1
    if has_fence then
      given.fence = read[each * i]
    end
    if extends and reads_lock then
      given.owner, given.forced = read[first], read[first + 1]
    elseif extends then
      given.forced = read[first]
    elseif script == acquire then
      local reservations = KEYS[key + 2]
      given.reserved = read[first]
      if changed[reservations] then
        given.reserved = nil
      elseif given.reserved or arguments > (has_fence and 5 or 3) then
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
