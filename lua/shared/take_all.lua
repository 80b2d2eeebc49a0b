-- Part of a batch: `take_all` makes a run of calls of the script acquire. It makes no tables of KEYS and ARGV, which would take a
-- server longer than the commands of a call.
--
-- Needs acquire, a function of the names of the script's KEYS and ARGV, other than MARK and ADMITTED, and of the values that
-- read.lua sets; `key` and `argument`, the places of the run's first key and argument; and `replies` and `replied`, their number.
--
-- The KEYS of the run are LOCK of each call, and then RESERVED and FENCE of each. Its ARGV are TTL and FENCE_TTL for all calls,
-- and then OWNER, PROPOSAL and WAITER of each. The numbers of KEYS and ARGV of each call count no others. If the calls have
-- different lifetimes, those for all calls are empty, and each call has its own before its OWNER.

local function take_all(keys, arguments, calls)
  local TTL, FENCE_TTL = ARGV[argument], ARGV[argument + 1]
  local has_own_lifetimes = TTL == ''
  local has_fence, has_waiter, each = keys == 3, arguments > 2, keys - 1
  local lock, behind_locks = key, key + calls
  argument, key = argument + 2, key + keys * calls
  -- One command reads the reservations and the fences for all calls. No value at all, if the permission is missing.
  local read, at, changed = redis.pcall('MGET', unpack(KEYS, behind_locks, key - 1)), 1, has_waiter and {}
  local function make_others()
    while lock < behind_locks do
      local LOCK, RESERVED, FENCE = KEYS[lock], KEYS[behind_locks + at - 1], has_fence and KEYS[behind_locks + at] or nil
      if has_own_lifetimes then
        TTL, FENCE_TTL, argument = ARGV[argument], ARGV[argument + 1], argument + 2
      end
      local OWNER, PROPOSAL, WAITER = ARGV[argument], ARGV[argument + 1], has_waiter and ARGV[argument + arguments - 1] or ''
      local reserved, known = read[at], read[at + 1]
      lock, at, argument, replied = lock + 1, at + each, argument + arguments, replied + 1
      replies[replied] = 'alone'
      if has_waiter then
        if changed[RESERVED] then
          reserved = nil
        end
        if WAITER ~= '' then
          changed[RESERVED] = true -- by the call's grant, or by its refusal
        end
      end
      if reserved == nil then
        -- pcall: a value of another type under that key reserves nothing.
        reserved = redis.pcall('GET', RESERVED)
        if type(reserved) == 'table' then
          local is_of_another_type = string.find(reserved.err, 'WRONGTYPE', 1, true)
          reserved = nil -- a permission is missing
          if is_of_another_type then
            reserved = false
          end
        end
      end
      if reserved ~= nil then
        local reply = acquire(LOCK, RESERVED, FENCE, OWNER, TTL, PROPOSAL, FENCE_TTL, WAITER, reserved, known)
        if type(reply) ~= 'table' or not reply.err then
          replies[replied] = reply
        end
      end
    end
  end
  -- An error ends the call that is being made.
  while not pcall(make_others) do end
end
