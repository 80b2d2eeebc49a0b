-- Part of a batch: `make` makes some calls of extend or release.
--
-- Needs extend and release; `reads_lock`, true if the lock is a string, which is read together with the other
-- values of the calls; `key` and `argument`, the places of the first call's keys and arguments; and `replies` and `replied`,
-- their number.

local function make(script, keys, arguments, calls)
  -- One command reads the tombstones and the fences for all extensions, and the locks if `reads_lock` is true. A call gets the
  -- values as fields of its ARGV.
  local extends, has_fence = script == extend, keys == 4
  local each = extends and keys - (reads_lock and 1 or 2) or 0
  local read = {}
  for i = 0, extends and calls - 1 or -1 do
    local first = key + keys * i
    if reads_lock then
      read[each * i + 1], read[each * i + 2] = KEYS[first], KEYS[first + 2]
    else
      read[each * i + 1] = KEYS[first + 2]
    end
    read[each * i + each] = KEYS[first + keys - 1]
  end
  read = extends and redis.pcall('MGET', unpack(read))
  for i = 1, calls do
    local given = { unpack(ARGV, argument, argument + arguments - 1) }
    if extends then
      -- No value at all, if the permission is missing.
      local first = each * (i - 1) + 1
      if has_fence then
        given.fence = read[each * i]
      end
      if reads_lock then
        given.owner, given.forced = read[first], read[first + 1]
      else
        given.forced = read[first]
      end
    end
    local ok, reply = pcall(script, { unpack(KEYS, key, key + keys - 1) }, given)
    if not ok or type(reply) == 'table' and reply.err then
      reply = 'alone'
    end
    replied = replied + 1
    replies[replied] = reply
    key, argument = key + keys, argument + arguments
  end
end
