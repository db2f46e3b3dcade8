-- Removes a bounded part of a product. The newest ID and version stay, because the next ones must
-- be greater. The first call removes the whole log.
--
-- ARGV  4 channel to publish on   5 product   6, 7 newest ID known to the caller
--       8 the last generation to end, 0 for none
--
-- If that generation is over, the script only completes an interrupted removal: the next
-- generation may have begun.
--
-- Returns {1 if there is more, else 0, newest ID, which is also the floor}.

local known_ms, known_seq = tonumber(ARGV[6]), tonumber(ARGV[7])
local newest, through = state.newest, tonumber(ARGV[8])
if through > 0 and through <= number('over') and not state.removing then return {0, newest or ''} end
local over = digits(math.max(through, number('over')))
if newest then
  local ms, seq = parse_id(newest)
  if before(ms, seq, known_ms, known_seq) then newest = make_id(known_ms, known_seq) end
elseif known_ms > 0 then
  newest = make_id(known_ms, known_seq)
elseif call('EXISTS', meta) == 0 then
  if through > 0 then call('HSET', meta, 'over', over) end
  return {0, ''}
else -- there are documents or activity only
  newest = make_id(millis, 0)
end

call('UNLINK', log, seen, torn, erased)
if state.deleted then bury() end
call('HSET', meta, 'newest', newest, 'floor', newest, 'bytes', '0', 'over', over, 'removing', '1')
call('HDEL', meta, 'born', 'gaps', 'oldest', 'dropped', 'erased')

local some_documents, some_activity = call('ZRANGE', docs, 0, most - 1), call('ZRANGE', active, 0, most - 1)
remove_documents(some_documents)
remove_activity(some_activity)
local more = #some_documents == most or #some_activity == most
if not more then
  call('UNLINK', names, docs, active)
  call('HDEL', meta, 'docs', 'acts', 'removing')
end
redis.pcall('PUBLISH', ARGV[4], '-' .. newest .. ' ' .. ARGV[5])
return {more and 1 or 0, newest}
