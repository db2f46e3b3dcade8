-- Lists documents by name, and removes names whose documents have expired.
--
-- KEYS  1 meta, 2 names, 3 docs
-- ARGV  1 least name, 2 greatest name, as ZRANGEBYLEX takes them
--       3 most documents   4 bytes of values after which to stop
--
-- Returns {name after which to continue, or false at the end, documents}. Each document is
-- its name and its stored value.

local call = redis.call
local base = string.sub(KEYS[1], 1, -5)
if call('HLEN', base .. 'torn') > 1 then return {err = 'TORN'} end -- see shared.lua
local count, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])

local some = call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, count)
local found, last = {}, false
for _, name in ipairs(some) do
  if bytes <= 0 then return {last, found} end
  local stored = call('GET', base .. 'doc:' .. name)
  if stored then
    found[#found + 1] = name
    found[#found + 1] = stored
    bytes = bytes - #stored
  else
    call('ZREM', KEYS[2], name)
    call('ZREM', KEYS[3], name)
  end
  last = name
end
return {#some == count and last, found}
