-- Commits one call's changes to a product: documents, entries of the log and
-- actions of users, all of them or none.
--
-- ARGV  4 most actions of a user        5 channel to publish on
--       6 product                       7, 8 newest ID known to the caller
--       9 newest version known to the caller
--       10, 11, 12 how many there are of each in
--       13 an array of MessagePack, which is empty without any of them:
--       documents: operation, name, version ("0" for none), time to live in
--         milliseconds (0 for ever), value
--       entries: session, data, keys of 16 bytes each
--       runs of actions: user, timeline, number of actions, and for each a
--         7-digit number that grows and its key, start in microseconds, record
--
-- Returns {0, newest ID before, lost ones included (2 numbers), ID of the first entry (2 numbers),
-- version of the documents put, floor}, or {1, name} when a document is not at its
-- version, or {2, positions of keys...} when the log has keys already. The entries'
-- IDs are consecutive.

local max_events = tonumber(ARGV[4])
local documents, entries, runs = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local args = cmsgpack.unpack(ARGV[13])
local first_document = 1
local first_entry = first_document + 5 * documents
local first_run = first_entry + 3 * entries

-- 1. Documents must be at the versions named.

for i = first_document, first_entry - 1, 5 do
  local stored = call('GETRANGE', document_key(args[i + 1]), '0', '20')
  if (string.match(stored, '^%d+') or '0') ~= args[i + 2] then return {1, args[i + 1]} end
end

-- Versions keep their distance from the time, even when that comes from a clock
-- that was ahead: a replica that is promoted without the last writes does not
-- give their versions again.
local ahead = number('ahead')
local version = math.max(number('version') + 1, tonumber(ARGV[9]) + 1, micros + ahead)
local version_text = digits(version)
change('version', version_text)
if version > micros + ahead then change('ahead', digits(version - micros)) end

-- 2. Entries, unless the log has one of their keys. The keys of expired entries
-- are free.

local previous_ms, previous_seq, ms, seq = 0, 0, 0, 0

-- Finds the newest ID, those included that are lost but known to the caller.
local function find_newest()
  local known_ms, known_seq = tonumber(ARGV[7]), tonumber(ARGV[8])
  local is_new = not state.newest
  if is_new then previous_ms = millis else previous_ms, previous_seq = parse_id(state.newest) end
  local lost = before(previous_ms, previous_seq, known_ms, known_seq)
  if lost then previous_ms, previous_seq = known_ms, known_seq end
  if is_new then -- or was lost: its past is unknown
    local born = make_id(previous_ms, previous_seq)
    change('born', born)
    change('floor', born)
  elseif lost then -- the entries between
    change('lost', state.newest)
    change('regained', make_id(known_ms, known_seq))
  end
end

local function find_duplicates(keys)
  local duplicates = {2}
  for i = 1, #keys, chunk do
    local known = call('SMISMEMBER', seen, unpack(keys, i, math.min(i + chunk - 1, #keys)))
    for j, is in ipairs(known) do
      if is == 1 then duplicates[#duplicates + 1] = i + j - 1 end
    end
  end
  return duplicates
end

local function append_entries(keys)
  ms, seq = previous_ms, previous_seq + 1
  if millis > ms then
    ms, seq = millis, 0
  elseif seq + entries > 2 ^ 53 then
    ms, seq = ms + 1, 0
  end
  local prefix, bytes = digits(ms) .. '-', 0
  for i = 0, entries - 1 do
    local at = first_entry + 3 * i
    local session, data, packed = args[at], args[at + 1], args[at + 2]
    local id = prefix .. digits(seq + i)
    if ms > millis + 1000 then -- the ID does not say when it was appended
      call('XADD', log, id, 's', session, 'd', data, 'k', packed, 't', millis)
    else
      call('XADD', log, id, 's', session, 'd', data, 'k', packed)
    end
    bytes = bytes + entry_size(session, data, packed)
    state.newest = id
  end
  call_chunked('SADD', seen, keys)
  keep(log)
  keep(seen)
  if number('bytes') == 0 then change('oldest', digits(millis)) end
  change('newest', state.newest)
  add('bytes', bytes)
  trim_log(bytes)
end

if entries > 0 then
  trim_log(0)
  local keys = {}
  for i = first_entry, first_run - 1, 3 do append_keys(keys, args[i + 2]) end
  local duplicates = find_duplicates(keys)
  if #duplicates > 1 then
    save()
    return duplicates
  end
  find_newest()
  append_entries(keys)
end

-- 3. Documents.

-- Makes a change, and returns by how many bytes the documents grow.
local function write_document(operation, name, existed, lives, value)
  local key = document_key(name)
  local size = existed and document_size(name) or 0
  if operation == '1' then
    remove_documents({name})
    return -size
  elseif operation == '0' then
    local stored = version_text .. ' ' .. value
    if lives > 0 then call('SET', key, stored, 'PX', lives) else call('SET', key, stored) end
  elseif operation == '3' then
    if lives > 0 then call('PEXPIRE', key, lives) else call('PERSIST', key) end
  else
    return 0
  end
  local is_new = call('ZADD', docs, lives > 0 and version_text or '+inf', name) == 1
  if is_new then call('ZADD', names, '0', name) end
  -- One that has expired is still counted.
  return (existed or is_new) and document_size(name) - size or 0
end

if documents > 0 then
  local left, longest, bytes = call('PTTL', docs), 0, 0
  for i = first_document, first_entry - 1, 5 do
    local lives = tonumber(args[i + 3])
    bytes = bytes + write_document(args[i], args[i + 1], args[i + 2] ~= '0', lives, args[i + 4])
    if args[i] == '0' or args[i] == '3' then longest = math.max(longest, lives > 0 and lives or math.huge) end
  end
  add('docs', bytes)
  evict(docs, 'docs', document_size, remove_documents, bytes)
  -- Names live as long as the documents do.
  if longest == math.huge then
    call('PERSIST', names)
    call('PERSIST', docs)
  elseif left ~= -1 and (left < longest or call('PTTL', docs) == -1) then
    local period = digits(math.max(left, longest) + lifetime - ttl)
    call('PEXPIRE', names, period)
    call('PEXPIRE', docs, period)
  end
end

-- 4. Actions. A user has a sorted set of them by start, whose members begin
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

local forgotten = 0 -- actions of the run's user

-- Forgets a user's oldest actions.
local function forget(users, acts, excess)
  forgotten = forgotten + excess
  local fields = {}
  local popped = call('ZPOPMIN', users, excess)
  for i = 1, #popped, 2 do
    local key = string.sub(popped[i], -16)
    fields[#fields + 1] = key
    fields[#fields + 1] = key .. 'e'
  end
  call_chunked('HDEL', acts, fields)
end

-- How many actions of one instant are looked at: no user does more, and no
-- sender can keep Redis busy by claiming so.
local most_tied = 64

-- Ends all that came right before, at one instant.
local function finish_all(line, start, at)
  for _, member in ipairs(call('ZRANGEBYSCORE', line, start, start, 'LIMIT', 0, most_tied)) do finish(member, start, at) end
end

-- Ends the last action of the same user at the same instant of the timeline, so
-- that it does not end at a later one. Earlier ones were ended by it.
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
  if excess > 0 then forget(users, acts, excess) end
  local next_start = link(line, user, key, start)
  if next_start then call('HSET', acts, key .. 'e', next_start) end
end

-- Files the actions of a run one by one.
local function file_each(user, line, first, last)
  for i = first, last, 3 do file(user, line, args[i], args[i + 1], args[i + 2]) end
end

-- Files a run at once, with the same outcome. It returns false, and has done
-- nothing, unless the run is new, in order, and later than all of its timeline.
local function file_run(user, line, first, last)
  local start = tonumber(args[first + 1])
  if user == '' or start < oldest then return false end
  local fields, once, latest, count = {}, {}, start, 0
  for i = first, last, 3 do
    local this, key = tonumber(args[i + 1]), key_of(args[i])
    if this < latest or once[key] then return false end
    once[key], latest, count = true, this, count + 1
    fields[count] = key
  end
  local users, acts = sets_of(user)
  local known = call('HMGET', acts, unpack(fields))
  for i = 1, count do
    if known[i] then return false end
  end
  local ends = call('ZREVRANGE', line, '0', '1', 'WITHSCORES')
  local previous = tonumber(ends[2])
  if previous and previous >= start then return false end
  local excess = call('ZCARD', users) + count - max_events
  if excess > 0 then
    local least = call('ZRANGE', users, 0, 0, 'WITHSCORES')[2]
    if least and start < tonumber(least) then return false end
  end

  if previous and ends[2] == ends[4] then
    finish_all(line, ends[2], args[first + 1])
  elseif previous then
    finish(ends[1], ends[2], args[first + 1])
  end
  local records, starts, marks, r, n = {}, {}, {}, 0, 0
  for i = first, last, 3 do
    local key, at = fields[n / 2 + 1], args[i + 1]
    starts[n + 1], starts[n + 2] = at, version_text .. args[i]
    marks[n + 1], marks[n + 2] = at, key .. user
    records[r + 1], records[r + 2] = key, args[i + 2]
    n, r = n + 2, r + 2
    if i < last then
      records[r + 1], records[r + 2] = key .. 'e', args[i + 4]
      r = r + 2
    end
  end
  call('ZADD', users, unpack(starts))
  call('ZADD', line, unpack(marks))
  call('HSET', acts, unpack(records))
  if excess > 0 then forget(users, acts, excess) end
  return true
end

-- Counts the bytes written under a name of activity.
local function count(name, bytes)
  local is_new = call('ZADD', active, version_text, name) == 1
  return bytes + (is_new and key_cost + 2 * #name or 0)
end

local at, bytes = first_run, 0
for _ = 1, runs do
  local user, timeline, first = args[at], args[at + 1], at + 3
  local line = base .. 'line:' .. timeline
  local n = tonumber(args[at + 2])
  local last = first + 3 * (n - 1)
  forgotten = 0
  if not file_run(user, line, first, last) then file_each(user, line, first, last) end
  keep(line)
  -- Now and then: a timeline is longer than what users keep, for actions that
  -- come late.
  local removed = 0
  if version % 8 < 1 then removed = call('ZREMRANGEBYRANK', line, 0, -math.max(100, 4 * max_events) - 1) end
  bytes = bytes + count('l' .. timeline, (n - removed) * line_cost)
  local users, acts = sets_of(user)
  if user ~= '' and call('EXISTS', acts) == 1 then
    local size = n * action_cost
    for i = first, last, 3 do size = size + #args[i + 2] end
    local all = call('HINCRBY', acts, 'size', size)
    local less = math.floor(all * forgotten / (max_events + forgotten))
    if less > 0 then call('HINCRBY', acts, 'size', -less) end
    bytes = bytes + count('u' .. user, size - less)
    keep(users)
    keep(acts)
  end
  at = last + 3
end
if runs > 0 then
  add('acts', bytes)
  evict(active, 'acts', activity_size, remove_activity, bytes)
  keep(active)
end

save()
if entries > 0 then
  -- Readers look by themselves now and then, so a refusal is no failure.
  redis.pcall('PUBLISH', ARGV[5], state.newest .. ' ' .. ARGV[6])
end
return {0, previous_ms, previous_seq, ms, seq, version, state.floor or ''}
