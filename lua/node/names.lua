-- Scans a part of a node's keys for possible locks, whatever their kind.
--
-- ARGV[1]  the cursor at which the scan continues, from the last reply; 0 at first
-- ARGV[2]  the pattern that keys have to match, in Redis's glob syntax
--
-- Replies:
--   {cursor, {key, ..}, seconds}
--     cursor      the cursor at which the scan continues; 0 at its end
--     key         the keys that may be locks, in hexadecimal digits: strings and hashes with an expiry that are short
--                 enough. Some may be returned twice in one scan.
--     seconds     at the end of the scan, the time in seconds for which the server has run without being emptied, by its clock;
--                 0 if it was emptied in this run, or has evicted keys, as far as it counts these, and before the end; also if
--                 it refuses INFO in scripts
--
-- It changes nothing. It visits about 1,000 keys, or fewer if it has found many: the server runs nothing else meanwhile, and
-- clients read short replies only.

local LONGEST = 5120 -- bytes of a key: of the longest prefix, and of the longest name
local CALLS = 100 -- calls of SCAN
local COUNT = 10 -- keys that each of them looks at, about
local ENOUGH = 65536 -- digits of a reply, behind which no further call is made

local function hex(character)
  return string.format('%02x', string.byte(character))
end

local function may_be_lock(key)
  local kind = redis.call('TYPE', key).ok
  return (kind == 'string' or kind == 'hash') and redis.call('PTTL', key) >= 0
end

local cursor = ARGV[1]
local found = {}
local digits = 0
for _ = 1, CALLS do
  local reply = redis.pcall('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', COUNT)
  if reply.err then
    -- Servers do not name the command that the user may not run in a script.
    return redis.error_reply(table.concat({reply.err, '(SCAN)'}, ' '))
  end
  cursor = reply[1]
  for _, key in ipairs(reply[2]) do
    if #key <= LONGEST and may_be_lock(key) then
      found[#found + 1] = string.gsub(key, '.', hex)
      digits = digits + 2 * #key
    end
  end
  if cursor == '0' or digits >= ENOUGH then
    break
  end
end
table.sort(found) -- keys have no order

local seconds = 0
if cursor == '0' then
  local function info(section)
    local text = redis.pcall('INFO', section)
    return type(text) == 'string' and text or ''
  end
  local commands = info('commandstats')
  local evicted = string.match(info('stats'), '\nevicted_keys:(%d+)')
  local was_emptied = evicted ~= '0' or string.find(commands, '\ncmdstat_flush', 1, true)
    or string.find(commands, '\ncmdstat_swapdb', 1, true)
  local run = string.match(info('server'), '\nuptime_in_seconds:(%d+)')
  seconds = not was_emptied and tonumber(run) or 0
end
return {cursor, found, seconds}
