-- Reads entries of a product's log, or its bounds.
--
-- KEYS  1 meta, 2 log
-- ARGV  1 retention in milliseconds   2 ID to read after
--       3 most entries, 0 for the bounds
--       4 bytes of data after which to stop
--
-- Returns {newest ID, floor, oldest ID, entries}. For the bounds, and where entries
-- after the ID are no longer retained, there are no entries, and oldest is the ID
-- of the first after floor, or "" without one; else oldest is false. Each entry is
-- its ID, session, data and keys.

local call = redis.call
local meta, log = KEYS[1], KEYS[2]
local after, count, bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if call('HLEN', string.sub(meta, 1, -5) .. 'torn') > 1 then return {err = 'TORN'} end -- see shared.lua

local clock = call('TIME')
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000) -- milliseconds
local cutoff = now - ARGV[1] - 1 -- entries of that time are too old

local function parse_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(id, other)
  local ms, seq = parse_id(id)
  local other_ms, other_seq = parse_id(other)
  return ms < other_ms or ms == other_ms and seq < other_seq
end

local state = call('HMGET', meta, 'newest', 'floor', 'born', 'lost', 'regained')
local newest, floor, born, lost, regained = state[1], state[2], state[3], state[4], state[5]
if not newest then -- the product starts now
  newest = string.format('%.0f-0', now)
  floor, born = newest, newest
  call('HSET', meta, 'newest', newest, 'floor', floor, 'born', born)
end
if count > 0 and after == '0-0' and floor == born then after = born end -- nothing was ever dropped

-- A cursor beyond the newest ID comes from before a failover that lost the
-- entries between. IDs go on from there, unless the cursor is no ID of any time.
if before(newest, after) and parse_id(after) <= now + 60000 then
  call('HSET', meta, 'newest', after, 'lost', newest, 'regained', after)
  newest, lost, regained = after, newest, after
end

-- Returns that entries up to an ID are gone.
local function gap(up_to)
  local first = call('XRANGE', log, '(' .. up_to, '+', 'COUNT', 1)[1]
  return {newest, up_to, first and first[1] or '', {}}
end

-- XREVRANGE would walk the whole log where nothing is older than the cutoff.
local expired = string.format('%.0f-9007199254740991', cutoff)
if before(after, expired) and call('XRANGE', log, '(' .. after, expired, 'COUNT', 1)[1] then
  return gap(before(newest, expired) and newest or expired)
end
if before(after, floor) or count == 0 then return gap(floor) end

local last = '+'
if lost and before(after, regained) then last = lost end
local found, position, some_count = {}, after, 4
while count > 0 and bytes > 0 do
  local some = call('XRANGE', log, '(' .. position, last, 'COUNT', math.min(count, some_count))
  if #some == 0 then break end
  some_count = 32
  for _, entry in ipairs(some) do
    local fields = entry[2]
    found[#found + 1] = entry[1]
    found[#found + 1] = fields[2]
    found[#found + 1] = fields[4]
    found[#found + 1] = fields[6]
    bytes = bytes - #fields[4]
    if bytes <= 0 then break end
  end
  count = count - #some
  position = some[#some][1]
end
if #found == 0 and count > 0 and before(after, newest) then return gap(last == '+' and newest or regained) end
return {newest, floor, false, found}
