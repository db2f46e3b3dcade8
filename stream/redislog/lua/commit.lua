-- Commits one call's changes to a product: documents, entries of the log and
-- actions of users, all of them or none.
--
-- KEYS  1 meta, 2 log, 3 seen, 4 names: see the package comment
--       5 a key that never exists: a cluster refuses the script before it
--         starts while the product's slot is on its way to another node
-- ARGV  1 retention in milliseconds     2 most bytes of the log
--       3 most actions of a user        4 channel to publish on
--       5 product                       6, 7 newest ID known to the caller
--       8, 9, 10 how many of each follow:
--       documents: operation, name, version ("0" for none), time to live in
--         milliseconds (0 for ever), value
--       entries: session, data, keys of 16 bytes each
--       runs of actions: user, timeline, number of actions, and for each a
--         7-digit number that grows and its key, start in microseconds, record
--
-- Returns {0, newest ID before (2 numbers), ID of the first entry (2 numbers),
-- version of the documents put, floor}, or {1, name} when a document is not at
-- its version, or {2, positions of keys...} when the log has keys already. The
-- entries' IDs are consecutive.

local call = redis.call
local meta, log, seen, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base = string.sub(meta, 1, -5)
local ttl, max_bytes, max_events = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local documents, entries, runs = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local first_document = 11
local first_entry = first_document + 5 * documents
local first_run = first_entry + 3 * entries

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local millis = math.floor(micros / 1000)

-- How many values are given to one call at most.
local chunk = 1000

-- Keys are told to expire once in each period of time and not in every call,
-- and therefore live two periods longer than they must.
local period_length = math.max(1, math.floor(ttl / 16))
local period = math.floor(millis / period_length)
local lifetime = ttl + 2 * period_length + 1000

-- Numbers up to 2^53 are exact in Lua, and IDs and versions stay below that.
local function digits(n) return string.format('%.0f', n) end

local function make_id(ms, seq) return digits(ms) .. '-' .. digits(seq) end

local function parse_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or ms == other_ms and seq < other_seq
end

-- Calls a command that takes a key and any number of values.
local function call_chunked(command, key, values)
  for i = 1, #values, chunk do
    call(command, key, unpack(values, i, math.min(i + chunk - 1, #values)))
  end
end

-- Appends the keys of 16 bytes that are concatenated in packed.
local function append_keys(keys, packed)
  local n = #keys
  for i = 1, #packed, 16 do
    n = n + 1
    keys[n] = string.sub(packed, i, i + 15)
  end
end

-- What an entry costs, in bytes.
local function cost(session, data, packed) return #session + #data + 5 * #packed + 64 end

-- 1. Documents must be at the versions named.

local function document_key(name) return base .. 'doc:' .. name end

for i = first_document, first_entry - 1, 5 do
  local stored = call('GETRANGE', document_key(ARGV[i + 1]), 0, 20)
  if (string.match(stored, '^%d+') or '0') ~= ARGV[i + 2] then return {1, ARGV[i + 1]} end
end

local state = call('HMGET', meta, 'newest', 'floor', 'bytes', 'version', 'oldest', 'period')
local floor = state[2] or ''
local version = math.max(tonumber(state[4] or 0) + 1, micros)
local version_text = digits(version)
local changes = {'version', version_text}

local function change(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

-- 2. and 3. Entries, unless the log has one of their keys.

local previous_ms, previous_seq, ms, seq = 0, 0, 0, 0
local newest

if entries > 0 then
  local known_ms, known_seq = tonumber(ARGV[6]), tonumber(ARGV[7])
  local bytes = tonumber(state[3] or 0)
  if state[1] then
    previous_ms, previous_seq = parse_id(state[1])
    ms, seq = previous_ms, previous_seq
    if before(ms, seq, known_ms, known_seq) then ms, seq = known_ms, known_seq end
  else
    -- A product that is new, or was lost, starts now: nobody can know what
    -- came before.
    previous_ms = millis
    if before(previous_ms, previous_seq, known_ms, known_seq) then
      previous_ms, previous_seq = known_ms, known_seq
    end
    ms, seq = previous_ms, previous_seq
    floor = make_id(ms, seq)
  end

  -- Drops entries from the head of the log.
  local dropped = false
  local function drop(oldest)
    local keys = {}
    for _, entry in ipairs(oldest) do
      local fields = entry[2]
      bytes = bytes - cost(fields[2], fields[4], fields[6])
      append_keys(keys, fields[6])
    end
    call_chunked('SREM', seen, keys)
    floor = oldest[#oldest][1]
    local floor_ms, floor_seq = parse_id(floor)
    call('XTRIM', log, 'MINID', make_id(floor_ms, floor_seq + 1))
    dropped = true
  end

  -- A bounded part of what is too old goes first: its keys are free again.
  -- Nothing is as long as the oldest entry, as it was last seen, is not.
  local droppable = 2 * entries + 16
  local cutoff = millis - ttl - 1
  if tonumber(state[5] or 0) <= cutoff then
    local expired = call('XRANGE', log, '-', digits(cutoff), 'COUNT', droppable)
    if #expired > 0 then drop(expired) end
    droppable = droppable - #expired
    local first = call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
    if not first then -- it may have expired as a whole
      bytes, floor = 0, make_id(previous_ms, previous_seq)
    end
    change('oldest', first and digits(parse_id(first[1])) or digits(millis))
  end

  local keys = {}
  for i = first_entry, first_run - 1, 3 do append_keys(keys, ARGV[i + 2]) end
  local duplicates = {2}
  for i = 1, #keys, chunk do
    local known = call('SMISMEMBER', seen, unpack(keys, i, math.min(i + chunk - 1, #keys)))
    for j, is in ipairs(known) do
      if is == 1 then duplicates[#duplicates + 1] = i + j - 1 end
    end
  end
  if #duplicates > 1 then
    if dropped then call('HSET', meta, 'floor', floor, 'bytes', digits(bytes), 'period', '') end
    return duplicates
  end

  if millis > ms then
    ms, seq = millis, 0
  elseif seq + entries >= 2 ^ 53 then
    ms, seq = ms + 1, 0
  else
    seq = seq + 1
  end
  local prefix = digits(ms) .. '-'
  for i = 0, entries - 1 do
    local at = first_entry + 3 * i
    local session, data, packed = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    newest = prefix .. digits(seq + i)
    call('XADD', log, newest, 's', session, 'd', data, 'k', packed)
    bytes = bytes + cost(session, data, packed)
  end
  call_chunked('SADD', seen, keys)

  -- A bounded part of what is too much goes, but never the newest entry.
  while bytes > max_bytes and droppable > 0 do
    local head = call('XRANGE', log, '-', '+', 'COUNT', math.min(droppable, entries + 1))
    local excess, oldest = bytes - max_bytes, {}
    for _, entry in ipairs(head) do
      if excess <= 0 or entry[1] == newest then break end
      local fields = entry[2]
      excess = excess - cost(fields[2], fields[4], fields[6])
      oldest[#oldest + 1] = entry
    end
    if #oldest == 0 then break end
    drop(oldest)
    droppable = droppable - #oldest
    call('HINCRBY', meta, 'dropped', #oldest)
  end

  -- The set of keys may have become empty, and be another one next time.
  if dropped or state[6] ~= digits(period) then
    call('PEXPIRE', log, lifetime)
    call('PEXPIRE', seen, lifetime)
    change('period', dropped and '' or digits(period))
  end
  change('newest', newest)
  change('floor', floor)
  change('bytes', digits(bytes))
end

-- 4. Documents.

-- Forgets names of documents that are gone, some at a time.
local function sweep(count)
  local cursor = call('HGET', meta, 'swept')
  local from = '-'
  if cursor and cursor ~= '' then from = '(' .. cursor end
  local some = call('ZRANGEBYLEX', names, from, '+', 'LIMIT', 0, count)
  for _, name in ipairs(some) do
    if call('EXISTS', document_key(name)) == 0 then call('ZREM', names, name) end
  end
  change('swept', #some == count and some[count] or '')
end

if documents > 0 then
  local had_names = call('EXISTS', names) == 1
  local mortals, longest, for_ever = 0, 0, false
  for i = first_document, first_entry - 1, 5 do
    local operation, name, existed = ARGV[i], ARGV[i + 1], ARGV[i + 2] ~= '0'
    local key, lives = document_key(name), tonumber(ARGV[i + 3])
    if operation == '0' then
      local stored = version_text .. ' ' .. ARGV[i + 4]
      if lives > 0 then call('SET', key, stored, 'PX', lives) else call('SET', key, stored) end
      if not existed then
        call('ZADD', names, 0, name)
        if lives > 0 then mortals = mortals + 1 end
      end
    elseif operation == '1' then
      call('DEL', key)
      call('ZREM', names, name)
    elseif operation == '3' then
      if lives > 0 then call('PEXPIRE', key, lives) else call('PERSIST', key) end
    end
    if operation == '0' or operation == '3' then
      longest = math.max(longest, lives)
      for_ever = for_ever or lives == 0
    end
  end
  if mortals > 0 then sweep(math.min(2 * mortals, chunk)) end
  -- The names live as long as the documents do.
  if for_ever then
    call('PERSIST', names)
  elseif longest > 0 then
    local left = call('PTTL', names)
    if not had_names or left >= 0 and left < longest + 1000 then call('PEXPIRE', names, longest + 1000) end
  end
end

-- 5. Actions. A user has a sorted set of them by start, whose members begin
-- with the order of arrival, and a hash of their records.

local oldest = micros - ttl * 1000

local function sets_of(user) return base .. 'user:' .. user, base .. 'acts:' .. user end

local function key_of(numbered) return string.sub(numbered, 8) end

-- Sets the end of the action behind a member of a timeline, if its user still
-- has it and it does not end where it starts.
local function finish(member, start, at)
  local key, user = string.sub(member, 1, 16), string.sub(member, 17)
  if user == '' then return end
  local acts = base .. 'acts:' .. user
  local known = call('HMGET', acts, key, key .. 'e')
  if not known[1] or known[2] and tonumber(known[2]) == tonumber(start) then return end
  call('HSET', acts, key .. 'e', at)
end

-- Forgets a user's oldest actions.
local function trim(users, acts, excess)
  local fields = {}
  local popped = call('ZPOPMIN', users, excess)
  for i = 1, #popped, 2 do
    local key = string.sub(popped[i], -16)
    fields[#fields + 1] = key
    fields[#fields + 1] = key .. 'e'
  end
  call_chunked('HDEL', acts, fields)
end

-- How many actions of one instant are looked at: nobody does more, and nobody
-- shall keep Redis busy by claiming to.
local most_tied = 64

-- Ends all that came right before, at one instant.
local function finish_all(line, start, at)
  for _, member in ipairs(call('ZRANGEBYSCORE', line, start, start, 'LIMIT', 0, most_tied)) do finish(member, start, at) end
end

-- Ends what the action's user did last at the same instant of the timeline, so
-- that it does not end at a later one. What came before that was ended by it.
local function finish_tied(line, user, key, start)
  local users = sets_of(user)
  for offset = 0, most_tied do
    local numbered = call('ZREVRANGEBYSCORE', users, start, start, 'LIMIT', offset, 1)[1]
    if not numbered then return end
    local member = string.sub(numbered, -16) .. user
    if member ~= key .. user and call('ZSCORE', line, member) then
      finish(member, start, start)
      return
    end
  end
end

-- Puts an action on its timeline and returns where the next one starts.
local function link(line, user, key, start)
  local previous = call('ZREVRANGEBYSCORE', line, start, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local is_new = call('ZADD', line, 'NX', start, key .. user) == 1
  if previous and tonumber(previous) == tonumber(start) then
    if user ~= '' then finish_tied(line, user, key, start) end
  elseif previous and is_new then
    finish_all(line, previous, start)
  end
  return call('ZRANGEBYSCORE', line, '(' .. start, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end

-- Files one action.
local function file(user, line, numbered, start, record)
  if tonumber(start) < oldest then return end
  local key = key_of(numbered)
  if user == '' then
    link(line, '', key, start)
    return
  end
  local users, acts = sets_of(user)
  if call('HEXISTS', acts, key) == 1 then return end
  local excess = call('ZCARD', users) + 1 - max_events
  if excess > 0 and tonumber(start) < tonumber(call('ZRANGE', users, 0, 0, 'WITHSCORES')[2]) then return end
  call('ZADD', users, start, version_text .. numbered)
  call('HSET', acts, key, record)
  if excess > 0 then trim(users, acts, excess) end
  local next_start = link(line, user, key, start)
  if next_start then call('HSET', acts, key .. 'e', next_start) end
end

-- Files the actions of a run one by one.
local function file_each(user, line, first, last)
  for i = first, last, 3 do file(user, line, ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
  call('PEXPIRE', line, lifetime)
  if user == '' then return end
  local users, acts = sets_of(user)
  call('PEXPIRE', users, lifetime)
  call('PEXPIRE', acts, lifetime)
end

-- Files a run at once, with the same outcome. It returns false, and has done
-- nothing, unless the run is new, in order, and later than all of its timeline.
local function file_run(user, line, first, last)
  local start = tonumber(ARGV[first + 1])
  if user == '' or start < oldest then return false end
  local fields, once, latest, count = {}, {}, start, 0
  for i = first, last, 3 do
    local this, key = tonumber(ARGV[i + 1]), key_of(ARGV[i])
    if this < latest or once[key] then return false end
    once[key], latest, count = true, this, count + 1
    fields[count] = key
  end
  local users, acts = sets_of(user)
  fields[count + 1] = 'period'
  local known = call('HMGET', acts, unpack(fields))
  for i = 1, count do
    if known[i] then return false end
  end
  local ends = call('ZREVRANGE', line, 0, 1, 'WITHSCORES')
  local previous = tonumber(ends[2])
  if previous and previous >= start then return false end
  local excess = call('ZCARD', users) + count - max_events
  if excess > 0 then
    local least = call('ZRANGE', users, 0, 0, 'WITHSCORES')[2]
    if least and start < tonumber(least) then return false end
  end

  if previous and ends[2] == ends[4] then
    finish_all(line, ends[2], ARGV[first + 1])
  elseif previous then
    finish(ends[1], ends[2], ARGV[first + 1])
  end
  local records, starts, marks, r, n = {}, {}, {}, 0, 0
  for i = first, last, 3 do
    local key, at = fields[n / 2 + 1], ARGV[i + 1]
    starts[n + 1], starts[n + 2] = at, version_text .. ARGV[i]
    marks[n + 1], marks[n + 2] = at, key .. user
    records[r + 1], records[r + 2] = key, ARGV[i + 2]
    n, r = n + 2, r + 2
    if i < last then
      records[r + 1], records[r + 2] = key .. 'e', ARGV[i + 4]
      r = r + 2
    end
  end
  local renew = known[count + 1] ~= digits(period)
  if renew then
    records[r + 1], records[r + 2] = 'period', digits(period)
  end
  call('ZADD', users, unpack(starts))
  call('ZADD', line, unpack(marks))
  call('HSET', acts, unpack(records))
  if excess > 0 then trim(users, acts, excess) end
  if renew then
    call('PEXPIRE', users, lifetime)
    call('PEXPIRE', acts, lifetime)
  end
  if not previous or math.floor(previous / 1000 / period_length) ~= period then call('PEXPIRE', line, lifetime) end
  return true
end

local at = first_run
for _ = 1, runs do
  local user, line, first = ARGV[at], base .. 'line:' .. ARGV[at + 1], at + 3
  local last = first + 3 * (tonumber(ARGV[at + 2]) - 1)
  if not file_run(user, line, first, last) then file_each(user, line, first, last) end
  -- Now and then: a timeline is longer than what users keep, for actions that
  -- come late.
  if version % 8 < 1 then call('ZREMRANGEBYRANK', line, 0, -math.max(100, 4 * max_events) - 1) end
  at = last + 3
end

call('HSET', meta, unpack(changes))
if newest then
  -- Readers look by themselves now and then, so a refusal is no failure.
  redis.pcall('PUBLISH', ARGV[4], newest .. ' ' .. ARGV[5])
end
return {0, previous_ms, previous_seq, ms, seq, version, floor}
