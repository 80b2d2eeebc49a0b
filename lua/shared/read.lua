-- Part of an acquire script: reads the values that every call needs, and ends the call if the mark is another one.
--
-- Needs RESERVED and FENCE, the keys of the reservations and of the fence (nil without fencing); MARK, the key of the mark,
-- and ADMITTED, the mark that has to be there. Sets `reserved` and `known`, the values under those keys; false: no string.

local reserved, known
do
  -- Before anything else, and for late copies as well: a request that was sent before the node forgot its locks must not
  -- take one of these. One command reads all values, if that is permitted.
  local read
  if FENCE then
    read = redis.pcall('MGET', MARK, RESERVED, FENCE)
  else
    read = redis.pcall('MGET', MARK, RESERVED)
  end
  local mark = read[1]
  reserved, known = read[2], read[3]
  if reserved == nil then
    -- pcall: a value of another type under that key reserves nothing.
    reserved = redis.pcall('GET', RESERVED)
    if type(reserved) == 'table' then
      if not string.find(reserved.err, 'WRONGTYPE', 1, true) then
        return reserved -- a permission is missing
      end
      reserved = false
    end
  end
  if mark ~= ADMITTED and ADMITTED ~= '' then
    -- pcall: something else under the mark's key is another mark, and no fault of the node.
    mark = redis.pcall('GET', MARK)
    if mark ~= ADMITTED then
      if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then
        return mark -- a permission is missing
      end
      return {-1, 0}
    end
  end
end
