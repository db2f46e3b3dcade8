-- Returns the bounds of a product's log.
--
-- KEYS  1 meta, 2 log
-- ARGV  1 retention in milliseconds
--
-- Returns {floor, oldest ID or false, newest ID}.

local call = redis.call
local meta, log = KEYS[1], KEYS[2]

local clock = call('TIME')
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000) -- milliseconds
local cutoff = now - ARGV[1] - 1 -- what was appended then is too old

local state = call('HMGET', meta, 'newest', 'floor')
local newest, floor = state[1], state[2]
if not newest then -- the product starts now
  newest = string.format('%.0f-0', now)
  floor = newest
  call('HSET', meta, 'newest', newest, 'floor', floor, 'born', floor)
end

-- XREVRANGE would walk the whole log where nothing is older than the cutoff.
local expired = string.format('%.0f-9007199254740991', cutoff)
if call('XRANGE', log, '-', expired, 'COUNT', 1)[1] then floor = expired end
local first = call('XRANGE', log, '(' .. floor, '+', 'COUNT', 1)[1]
if not first then return {newest, false, newest} end
return {floor, first[1], newest}
