-- Says whether a node is still as a probe has seen it, and what its clock says then. A server has less than half of the
-- work of a probe with it.
--
-- KEYS[1]  the mark
-- ARGV[1]  the mark that was seen; empty if there was none
-- ARGV[2]  the replication id that was seen, of a master
--
-- Replies:
--   {seconds, microseconds}   it is; what TIME says
--   {}                        it is not: what has changed is for a probe to say
--
-- The run id is not compared: a connection ends with the run of its server.

local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE', 1, true) then
    return mark -- a permission is missing
  end
  return {}
end
if mark ~= (ARGV[1] ~= '' and ARGV[1]) then
  return {}
end
local replication = redis.call('INFO', 'replication')
if string.match(replication, '\nrole:(%a+)') ~= 'master' then
  return {}
end
if string.match(replication, '\nmaster_replid:(%w+)') ~= ARGV[2] then
  return {}
end
return redis.call('TIME')
