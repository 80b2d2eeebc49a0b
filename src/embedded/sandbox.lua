-- The environment of a script, as in Redis: the tables of Lua that do no harm, `redis`, and no way
-- to leave anything behind for the next script. A node runs this once; it answers the environment of
-- scripts, the table where they find KEYS and ARGV, and the function that runs a script.

local raw_call, sha1hex, is_out_of_time = ...

local error, pcall, select, setmetatable, type = error, pcall, select, setmetatable, type
local find, match, sub = string.find, string.match, string.sub

local function read_only()
  error('Attempt to modify a readonly table', 2)
end

local function frozen(contents)
  return setmetatable({}, { __index = contents, __newindex = read_only, __metatable = false })
end

-- Errors are tables with the error reply in `err`. The errors of the interpreter are text.
local function failed(message)
  return { err = 'ERR ' .. message }
end

local function or_raise(is_error, reply)
  if is_error then
    error(reply, 0)
  end
  return reply
end

local function is_one_text(...)
  return select('#', ...) == 1 and type((...)) == 'string'
end

local wrong_arguments = 'wrong number or type of arguments'

local redis = {
  call = function(...)
    return or_raise(raw_call(...))
  end,
  pcall = function(...)
    local _, reply = raw_call(...)
    return reply
  end,
  status_reply = function(...)
    return is_one_text(...) and { ok = (...) } or failed(wrong_arguments)
  end,
  error_reply = function(...)
    if not is_one_text(...) then
      return failed(wrong_arguments)
    end
    -- Redis reads it as a text of C, which ends with the first zero.
    local text = match((...), '^%Z*')
    if sub(text, 1, 1) == '-' then
      text = sub(text, 2)
    end
    -- The first word is the class, if there are several.
    return find(text, ' ', 1, true) and { err = text } or failed(text)
  end,
  sha1hex = function(...)
    if select('#', ...) ~= 1 then
      error(failed('wrong number of arguments'), 0)
    end
    -- Any other value counts as an empty text.
    local kind = type((...))
    return sha1hex((kind == 'string' or kind == 'number') and (...) or '')
  end,
}

-- A script that has run for too long must not catch that, and go on.
-- Passes on as many results as there are: none is not the same as nil.
local function caught(ok, ...)
  if not ok then
    local problem = ...
    if is_out_of_time() then
      error(problem, 0)
    elseif type(problem) == 'table' and type(problem.err) == 'string' then
      return false, problem.err
    end
  end
  return ok, ...
end

string.dump = nil
getmetatable('').__metatable = false
-- Not what Redis has, which are always the same ones.
math.random = nil
math.randomseed = nil

local known = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, rawequal = rawequal, rawget = rawget, select = select,
  setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type,
  unpack = unpack,
  pcall = function(...)
    return caught(pcall(...))
  end,
  math = frozen(math), redis = frozen(redis), string = frozen(string), table = frozen(table),
}
setmetatable(known, {
  __index = function(_, name)
    local message = 'Script attempted to access nonexistent global variable \'%s\''
    error(message:format(tostring(name)), 2)
  end,
})

return frozen(known), known, function(script)
  return pcall(script)
end
