-- Returns the request to the owner of a lock to give it up, if this node has one.
--
-- KEYS[1]  the request to the owner (one for each name of the lock)
--
-- Replies:
--   {'ID REASON'}   the request
--   {}              there is none

for i = 1, #KEYS do
  -- pcall: something else under that key is no request.
  local request = redis.pcall('GET', KEYS[i])
  if type(request) == 'string' then
    return {request}
  end
end
return {}
