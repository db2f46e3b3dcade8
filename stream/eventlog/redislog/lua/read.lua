-- Reads entries of a product's log, or its bounds.
--
-- KEYS  1 meta, 2 log
-- ARGV  1 retention in milliseconds   2 ID to read after
--       3 most entries, 0 for the bounds
--       4 bytes of data after which to stop
--       5 newest ID known to the caller
--       6 ID of the newest entry that the caller has in memory, 0-0 for none
--       7 newest "erase" entry that the caller knows   8 most of them to return
--
-- Returns {newest ID, floor, oldest ID, entries, lost ranges, first "erase" entries after the known
-- one}. An entry is its ID, session, data and keys, an "erase" entry its ID and data. For the
-- bounds, and if entries after the ID are no longer retained, there are no entries, and oldest
-- is the ID of the first entry after floor, "" for none. Otherwise oldest is false.

local call = redis.call
local meta, log = KEYS[1], KEYS[2]
local after, count, bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if call('HLEN', string.sub(meta, 1, -5) .. 'torn') > 1 then return {err = 'TORN'} end -- see shared.lua

local clock = call('TIME')
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000) -- milliseconds
local cutoff = now - ARGV[1] - 1 -- entries of that time are too old

local state = call('HMGET', meta, 'newest', 'floor', 'born', 'gaps', 'erased')
local newest, floor, born, lost = state[1], state[2], state[3], state[4]
local erasures = {}
if state[5] and state[5] ~= ARGV[7] then
  for _, entry in ipairs(call('XRANGE', string.sub(meta, 1, -5) .. 'erased', '(' .. ARGV[7], '+', 'COUNT', ARGV[8])) do
    erasures[#erasures + 1] = entry[1]
    erasures[#erasures + 1] = entry[2][2]
  end
end
local known, held = ARGV[5], ARGV[6]
if not newest then -- the product starts now, or is lost as a whole, if the caller knows an ID
  newest = string.format('%.0f-0', now)
  floor, born = newest, newest
  call('HSET', meta, 'newest', newest, 'floor', floor, 'born', born)
  if known ~= '0-0' then
    lost = '0-0 ' .. born
    call('HSET', meta, 'gaps', lost)
  end
end
if count > 0 and after == '0-0' and floor == born then after = born end -- nothing was ever dropped

-- An ID beyond the newest is from before a failover that lost the entries in between. IDs
-- continue after it, unless it is a cursor too far in the future. The caller's newest entry is
-- lost, too, if it is after the floor and not in the log.
if precedes(known, after) and parse_id(after) <= now + 60000 then known = after end
if precedes(newest, known) then
  lost = lose(lost, floor, newest, known)
  newest = known
  call('HSET', meta, 'newest', newest, 'gaps', lost)
elseif precedes(floor, held) and not call('XRANGE', log, held, held)[1] then
  local left = call('XREVRANGE', log, held, '-', 'COUNT', 1)[1]
  lost = lose(lost, floor, left and left[1] or floor, held)
  call('HSET', meta, 'gaps', lost)
end

-- Returns the reply for a reader whose entries up to an ID are gone.
local function gap(up_to)
  local first = call('XRANGE', log, '(' .. up_to, '+', 'COUNT', 1)[1]
  return {newest, up_to, first and first[1] or '', {}, lost or '', erasures}
end

-- XREVRANGE would walk the whole log where nothing is older than the cutoff.
local expired = string.format('%.0f-9007199254740991', cutoff)
if precedes(after, expired) and call('XRANGE', log, '(' .. after, expired, 'COUNT', 1)[1] then
  return gap(precedes(newest, expired) and newest or expired)
end
if precedes(after, floor) or count == 0 then return gap(floor) end

local last, regained = '+', newest
for first, up_to in string.gmatch(lost or '', range) do
  if precedes(after, up_to) then
    last, regained = first, up_to
    break
  end
end
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
if #found == 0 and count > 0 and precedes(after, newest) then return gap(regained) end
return {newest, floor, false, found, lost or '', erasures}
