-- Returns the version of the product's newest commit and, for each session of a user or for
-- one session, its name and its values. The session with the newest action comes first.
-- Sessions after the one with which the values exceed 1 MiB are left out.
--
-- KEYS  1 the user's sessions, or a session
-- ARGV  1 retention in milliseconds     2 most sessions of the user
--       3 prefix of keys of sessions    4 the session, empty for the user's
--       5 how many of the user's first sessions to leave out

local call = redis.call
local base = string.sub(ARGV[3], 1, -6)
if call('HLEN', base .. 'torn') > 1 then return {err = 'TORN'} end -- see shared.lua
local sessions = {ARGV[4]}
if ARGV[4] == '' then
  local clock = call('TIME')
  local oldest = clock[1] * 1000000 + clock[2] - ARGV[1] * 1000 -- microseconds
  sessions = call('ZREVRANGEBYSCORE', KEYS[1], '+inf', string.format('%.0f', oldest), 'LIMIT', ARGV[5], ARGV[2])
end
local found, bytes = {call('HGET', base .. 'meta', 'version') or '0'}, 0
for i, name in ipairs(sessions) do
  local values = call('HVALS', ARGV[3] .. name)
  for _, value in ipairs(values) do bytes = bytes + #value end
  found[2 * i], found[2 * i + 1] = name, values
  if bytes > 1048576 then break end
end
return found
