-- Takes a reentrant lock on one node, or reports the obstacle.
--
-- Replies (the shape that every acquire script has):
--   'number'      granted, as text: number is the proposal, or 0 without fencing
--   {1, number}   granted; number is this node's number of the grant
--   {0, ms}       refused: another owner's key is there, or another caller goes first, for ms more milliseconds (-1: without
--                 expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is not a lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is not a number
--
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply changes nothing. The
-- count of a thread's holds is known to its client alone; on the node it is 1.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, TTL, ADMITTED, PROPOSAL, FENCE_TTL, WAITER = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''

-- include read.lua
-- include take_field.lua
