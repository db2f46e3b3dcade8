-- Removes a bounded part of everything that is kept of a product, but for what
-- its next IDs and versions grow from. The log goes at once.
--
-- KEYS  1 meta, 2 log, 3 seen, 4 names, 5 docs, 6 acts: see the package comment
-- ARGV  1 channel to publish on   2 product   3, 4 newest ID known to the caller
--
-- Returns {1 when there is more or else 0, newest ID, which is also the floor}.

local meta = KEYS[1]
local base = string.sub(meta, 1, -5)
local most = 256

local newest = call('HGET', meta, 'newest')
local known = make_id(ARGV[3], ARGV[4])
if newest then
  local ms, seq = parse_id(newest)
  local known_ms, known_seq = parse_id(known)
  if ms < known_ms or ms == known_ms and seq < known_seq then newest = known end
elseif call('EXISTS', meta) == 0 and known == '0-0' then
  return {0, ''}
elseif known ~= '0-0' then
  newest = known
else -- there are documents or activity only
  newest = call('TIME')[1] .. '000-0'
end

call('UNLINK', KEYS[2], KEYS[3])
call('HSET', meta, 'newest', newest, 'floor', newest, 'bytes', '0', 'period', '', 'until', '0')
call('HDEL', meta, 'born', 'lost', 'regained', 'immortal', 'oldest', 'dropped', 'evicted')

local more = 0
local some = call('ZRANGE', KEYS[4], 0, most - 1)
for _, name in ipairs(some) do call('UNLINK', base .. 'doc:' .. name) end
call_chunked('ZREM', KEYS[4], some)
call_chunked('ZREM', KEYS[5], some)
if #some == most then more = 1 end

some = call('ZRANGE', KEYS[6], 0, most - 1)
for _, name in ipairs(some) do
  local of = string.sub(name, 2)
  if string.sub(name, 1, 1) == 'u' then
    call('UNLINK', base .. 'user:' .. of, base .. 'acts:' .. of)
  else
    call('UNLINK', base .. 'line:' .. of)
  end
end
call_chunked('ZREM', KEYS[6], some)
if #some == most then more = 1 end

if more == 0 then
  call('UNLINK', KEYS[5], KEYS[6]) -- of what had expired
  call('HSET', meta, 'docs', '0', 'acts', '0')
end
redis.pcall('PUBLISH', ARGV[1], '-' .. newest .. ' ' .. ARGV[2])
return {more, newest}
