-- Removes a bounded part of what a product has too much of, or for too long.
--
-- KEYS  1 meta, 2 log, 3 seen, 4 names, 5 docs, 6 acts: see the package comment
-- ARGV  1 retention in milliseconds     2 most bytes of the log
--       3 most bytes of documents, and as many of activity
--       4, 5 rank in docs and in acts from which to look for what has expired,
--         -1 for nowhere
--       6 1 to look no further than to the first that has not, else 0
--
-- Returns {1 when there is more to remove or else 0, floor, ranks from which to
-- look next, -1 at the end}.

local meta, log, seen, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base = string.sub(meta, 1, -5)
local ttl, max_bytes, max_state = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local clock = call('TIME')
local cutoff = math.floor((clock[1] * 1000000 + clock[2]) / 1000) - ttl - 1 -- what was appended then is too old

-- What one call does at most.
local most, most_bytes, page = 256, 1048576, 16
local look = ARGV[6] == '1' and 64 or most

-- Where there is too much a little more goes, so that it is not done each time.
local function target(limit) return limit - math.min(math.floor(limit / 64), 262144) end

local state = call('HMGET', meta, 'newest', 'floor', 'bytes', 'docs', 'acts')
local newest, floor, more = state[1], state[2] or '', 0
local changes = {}

local function change(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

-- The log: first what is too old, then what is too much, but never the newest
-- entry for that.

local bytes, goal = tonumber(state[3] or 0), max_bytes
if bytes > max_bytes then goal = target(max_bytes) end
local oldest, work, trimmed, removed, keys = false, 0, 0, 0, {}

local function appended_at(entry) return tonumber(entry[2][8]) or (parse_id(entry[1])) end

local from = '-'
while not oldest and bytes > 0 do
  local some = call('XRANGE', log, from, '+', 'COUNT', page)
  for _, entry in ipairs(some) do
    local fields = entry[2]
    local expired = appended_at(entry) <= cutoff
    if not expired and (bytes <= goal or entry[1] == newest) then
      oldest = entry
      break
    end
    if removed >= most or work >= most_bytes then
      oldest, more = entry, 1
      break
    end
    local size = cost(fields[2], fields[4], fields[6])
    bytes, work, removed = bytes - size, work + size, removed + 1
    if not expired then trimmed = trimmed + 1 end
    append_keys(keys, fields[6])
    floor = entry[1]
  end
  if #some < page and not oldest then break end
  from = '(' .. floor
end
if removed > 0 then
  local floor_ms, floor_seq = parse_id(floor)
  call('XTRIM', log, 'MINID', make_id(floor_ms, floor_seq + 1))
  call_chunked('SREM', seen, keys)
  change('period', '') -- the keys may have become empty, and be others next time
end
if bytes > 0 and not oldest then bytes, floor = 0, newest end -- it has expired as a whole
if bytes ~= tonumber(state[3] or 0) or removed > 0 then
  change('bytes', digits(bytes))
  change('floor', floor)
end
if oldest then change('oldest', digits(appended_at(oldest))) end
if trimmed > 0 then call('HINCRBY', meta, 'dropped', trimmed) end

-- Documents and activity.

local function keys_of(name)
  local of = string.sub(name, 2)
  if string.sub(name, 1, 1) == 'u' then return base .. 'user:' .. of, base .. 'acts:' .. of end
  return base .. 'line:' .. of
end

local function document_key(name) return base .. 'doc:' .. name end

-- Removes what was written first while there is too much, and of some others
-- what has expired.
local function clean(order, field, held, rank, key_of, forgotten)
  local gone, n = {}, 0
  local limit = held > max_state and target(max_state) or max_state
  local head = held > limit and call('ZRANGE', order, 0, most - 1, 'WITHSCORES') or {}
  for i = 1, #head, 2 do
    local score = tonumber(head[i + 1])
    if held <= limit or score >= for_ever_number * 8192 then break end
    n = n + 1
    gone[n] = head[i]
    held = held - size_of(score)
    call('UNLINK', key_of(head[i]))
  end
  if n == most and held > limit then more = 1 end
  local evicted = n
  if rank >= 0 then
    local some = call('ZRANGE', order, rank + n, rank + n + look - 1, 'WITHSCORES')
    local kept = 0
    for i = 1, #some, 2 do
      if call('EXISTS', key_of(some[i])) == 0 then
        n = n + 1
        gone[n] = some[i]
        held = held - size_of(tonumber(some[i + 1]))
      elseif ARGV[6] == '1' then
        break
      else
        kept = kept + 1
      end
    end
    rank = #some == 2 * look and rank + kept or -1
  end
  if n > 0 then
    call_chunked('ZREM', order, gone)
    forgotten(gone)
    change(field, digits(held))
    change('until', '0')
    change('period', '')
    if evicted > 0 then call('HINCRBY', meta, 'evicted', evicted) end
  end
  return rank
end

local docs_rank = clean(KEYS[5], 'docs', tonumber(state[4] or 0), tonumber(ARGV[4]), document_key,
  function(gone) call_chunked('ZREM', names, gone) end)
local acts_rank = clean(KEYS[6], 'acts', tonumber(state[5] or 0), tonumber(ARGV[5]), keys_of, function() end)

if #changes > 0 then call('HSET', meta, unpack(changes)) end
return {more, floor, docs_rank, acts_rank}
