-- Reads entries of a product's log.
--
-- KEYS  1 meta, 2 log
-- ARGV  1 retention in milliseconds   2 ID to read after
--       3 most entries                4 bytes of data after which to stop
--
-- Returns {newest ID, floor, oldest ID, entries}. Where entries after the ID are
-- no longer retained there are no entries, and oldest is the ID of the first
-- after floor, or "" without one; else oldest is false. Each entry is its ID,
-- session, data and keys.

local call = redis.call
local meta, log = KEYS[1], KEYS[2]
local after, count, bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local clock = call('TIME')
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000) -- milliseconds
local cutoff = now - ARGV[1] - 1 -- what was appended then is too old

local function parse_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(id, other)
  local ms, seq = parse_id(id)
  local other_ms, other_seq = parse_id(other)
  return ms < other_ms or ms == other_ms and seq < other_seq
end

local state = call('HMGET', meta, 'newest', 'floor')
local newest, floor = state[1], state[2]
if not newest then -- the product starts now
  newest = string.format('%.0f-0', now)
  floor = newest
  call('HSET', meta, 'newest', newest, 'floor', floor)
end

-- Reports that entries up to an ID are gone.
local function gap(up_to)
  local first = call('XRANGE', log, '(' .. up_to, '+', 'COUNT', 1)[1]
  return {newest, up_to, first and first[1] or '', {}}
end

local expired
if parse_id(after) <= cutoff then
  expired = call('XREVRANGE', log, string.format('%.0f', cutoff), '(' .. after, 'COUNT', 1)[1]
end
if expired then return gap(expired[1]) end
if before(after, floor) then return gap(floor) end

local found, position = {}, after
while count > 0 and bytes > 0 do
  local some = call('XRANGE', log, '(' .. position, '+', 'COUNT', math.min(count, 32))
  if #some == 0 then break end
  for _, entry in ipairs(some) do
    local fields = entry[2]
    found[#found + 1] = entry[1]
    found[#found + 1] = fields[2]
    found[#found + 1] = fields[4]
    found[#found + 1] = fields[6]
    bytes = bytes - #fields[2] - #fields[4] - #fields[6]
  end
  count = count - #some
  position = some[#some][1]
end
if #found == 0 and count > 0 and before(after, newest) then return gap(newest) end
return {newest, floor, false, found}
