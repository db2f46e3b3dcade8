-- Removes a bounded part of a product, but for the newest ID and version, from
-- which the next ones grow. The log goes at once.
--
-- ARGV  4 channel to publish on   5 product   6, 7 newest ID known to the caller
--
-- Returns {1 when there is more or else 0, newest ID, which is also the floor}.

local known_ms, known_seq = tonumber(ARGV[6]), tonumber(ARGV[7])
local newest = state.newest
if newest then
  local ms, seq = parse_id(newest)
  if before(ms, seq, known_ms, known_seq) then newest = make_id(known_ms, known_seq) end
elseif known_ms > 0 then
  newest = make_id(known_ms, known_seq)
elseif call('EXISTS', meta) == 0 then
  return {0, ''}
else -- there are documents or activity only
  newest = make_id(millis, 0)
end

call('UNLINK', log, seen)
call('HSET', meta, 'newest', newest, 'floor', newest, 'bytes', '0')
call('HDEL', meta, 'born', 'lost', 'regained', 'oldest', 'dropped', 'evicted')

local some_documents, some_activity = call('ZRANGE', docs, 0, most - 1), call('ZRANGE', active, 0, most - 1)
remove_documents(some_documents)
remove_activity(some_activity)
local more = #some_documents == most or #some_activity == most
if not more then
  call('UNLINK', names, docs, active)
  call('HDEL', meta, 'docs', 'acts')
end
redis.pcall('PUBLISH', ARGV[4], '-' .. newest .. ' ' .. ARGV[5])
return {more and 1 or 0, newest}
