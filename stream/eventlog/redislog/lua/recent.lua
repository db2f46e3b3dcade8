-- Returns a user's newest actions, newest first: of each its record, and its
-- end in microseconds, or false where it ends as it starts.
--
-- KEYS  1 user, 2 acts
-- ARGV  1 retention in milliseconds   2 most actions

local call = redis.call
local clock = call('TIME')
local oldest = clock[1] * 1000000 + clock[2] - ARGV[1] * 1000 -- microseconds

local members = call('ZREVRANGEBYSCORE', KEYS[1], '+inf', string.format('%.0f', oldest), 'LIMIT', 0, ARGV[2])
local found = {}
for i = 1, #members, 400 do
  local fields = {}
  for j = i, math.min(i + 399, #members) do
    local key = string.sub(members[j], -16)
    fields[#fields + 1] = key
    fields[#fields + 1] = key .. 'e'
  end
  for _, value in ipairs(call('HMGET', KEYS[2], unpack(fields))) do found[#found + 1] = value end
end
return found
