-- Returns this node's requests to the owner of a lock to give it up.
--
-- KEYS[1]  the request to the owner (one for each name of the lock)
--
-- Replies:
--   {'ID REASON', ..}   the requests; empty if there is none
--
-- A request longer than any of ours is left out: anybody may have written it.

local LONGEST = 512 -- bytes

local requests = {}
for i = 1, #KEYS do
  -- pcall: something else under that key is not a request.
  local request = redis.pcall('GET', KEYS[i])
  if type(request) == 'string' and #request <= LONGEST then
    requests[#requests + 1] = request
  end
end
return requests
