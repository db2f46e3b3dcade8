-- Commits one call's changes to a product: documents, entries of the log and
-- actions of users, all of them or none. An "erase" entry removes actions.
--
-- ARGV  4 most actions of a user        5 channel to publish on
--       6 product                       7, 8 newest ID known to the caller
--       9 newest version known to the caller
--       10, 11, 12 how many there are of each in
--       13 generation of the product that the call belongs to, 0 for any
--       14 and so on:
--       documents: operation, name, version ("0" for none), time to live in
--         milliseconds (0 for ever), value, the distance of its score from the version
--       entries: session, data, keys of 16 bytes each
--       runs of actions: user, session, number of actions, and for each a
--         7-digit number that grows and its key, start in microseconds, and the
--         record: length of the user and user, and then JSON that begins with {
--         or, of an identity, i and the anonymous id
--
-- Returns {0, newest ID before, lost ones included (2 numbers), ID of the first entry (2 numbers),
-- version of the documents put, floor, ranges lost}, or {1, name} when a document is not at its
-- version, or {2, positions of keys...} when the log has keys already, or {3, ''} when
-- the generation is over. The entries' IDs are consecutive.

local generation = tonumber(ARGV[13])
if generation > 0 and generation <= number('over') then return {3, ''} end

local max_events = tonumber(ARGV[4])
local documents, entries, runs = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local args, first_document = ARGV, 14
local first_entry = first_document + 6 * documents
local first_run = first_entry + 3 * entries

-- 1. Documents must be at the versions named.

local former, deleted = {}, {} -- those to be put or deleted as they were, and names of the latter
for i = first_document, first_entry - 1, 6 do
  local name, stored = args[i + 1], nil
  if args[i] == '0' or args[i] == '1' then
    stored = call('GET', document_key(name)) or ''
    append_former(former, name, stored)
    if args[i] == '1' then deleted[#deleted + 1] = name end
  else
    stored = call('GETRANGE', document_key(name), '0', '20')
  end
  if (string.match(stored, '^(%d+) ') or '0') ~= args[i + 2] then return {1, name} end
end

-- Versions keep their distance from the time, even when that comes from a clock
-- that was ahead: a replica that is promoted without the last writes does not
-- give their versions again.
local ahead = number('ahead')
local version = math.max(number('version') + 1, tonumber(ARGV[9]) + 1, micros + ahead)
local version_text = digits(version)
change('version', version_text)
if version > micros + ahead then change('ahead', digits(version - micros)) end

-- Records how to take the commit back, before anything of it is written, and returns
-- the version before, whose record is no longer needed.
local function begin(ids)
  local previous = state.done
  change('done', version_text)
  local filed, at = {}, first_run
  for _ = 1, runs do
    local last, keys = at + 3 * tonumber(args[at + 2]), {}
    for i = at + 3, last, 3 do keys[#keys + 1] = string.sub(args[i], 8) end
    filed[#filed + 1], filed[#filed + 2] = args[at + 1], table.concat(keys)
    at = last + 3
  end
  call('HSET', torn, version_text, cmsgpack.pack({ids, former, filed}))
  keep(torn)
  return previous
end

local previous

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
    change('gaps', lose(state.gaps, state.floor, state.newest, make_id(known_ms, known_seq)))
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

local erasures = {} -- the data of "erase" entries

local function append_entries(keys)
  ms, seq = previous_ms, previous_seq + 1
  if millis > ms then
    ms, seq = millis, 0
  elseif seq + entries > 2 ^ 53 then
    ms, seq = ms + 1, 0
  end
  local prefix, bytes = digits(ms) .. '-', 0
  previous = begin({prefix .. digits(seq), prefix .. digits(seq + entries - 1)})
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
    if string.sub(data, 1, 15) == '{"type":"erase"' then
      call('XADD', erased, id, 'd', data)
      keep(erased)
      change('erased', id)
      erasures[#erasures + 1] = data
    end
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
else
  previous = begin({})
end

-- 3. Documents.

-- Makes a change, and returns by how many bytes the documents grow.
local function write_document(operation, name, existed, lives, value, order)
  local key = document_key(name)
  local size = existed and document_size(name) or 0
  if operation == '1' then
    call('SET', key, version_text, 'PX', digits(lifetime)) -- until the next commit, so that it can be taken back
    call('ZREM', docs, name)
    call('ZREM', names, name)
    return -size
  elseif operation == '0' then
    local stored = version_text .. ' ' .. value
    if lives > 0 then call('SET', key, stored, 'PX', lives) else call('SET', key, stored) end
  elseif operation == '3' then
    if lives > 0 then call('PEXPIRE', key, lives) else call('PERSIST', key) end
  else
    return 0
  end
  local is_new = call('ZADD', docs, lives > 0 and digits(version + tonumber(order)) or '+inf', name) == 1
  if is_new then call('ZADD', names, '0', name) end
  -- One that has expired is still counted.
  return (existed or is_new) and document_size(name) - size or 0
end

if documents > 0 then
  local left, longest, bytes = call('PTTL', docs), 0, 0
  for i = first_document, first_entry - 1, 6 do
    local lives = tonumber(args[i + 3])
    bytes = bytes + write_document(args[i], args[i + 1], args[i + 2] ~= '0', lives, args[i + 4], args[i + 5])
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

-- 4. Actions. A session has a hash of them, whose values begin with the order of
-- arrival and the start, and a user a sorted set of sessions by the newest start.

local oldest = micros - ttl * 1000
local max_held, max_identities = math.max(200, 8 * max_events), 8

-- Counts the bytes written under a name of activity.
local function count(name, bytes)
  local is_new = call('ZADD', active, version_text, name) == 1
  keep(activity_key(name))
  return bytes + (is_new and key_cost + 2 * #name or 0)
end

-- Adds to an identity its record, and what that says.
local function read_identity(said, record)
  said.record, said.standing, said.visitor = record, 0, string.sub(record, 2)
  if #record > 2 and string.byte(record, 2) == 0 then
    said.standing, said.visitor = string.byte(record, 3), string.sub(record, 4)
  end
end

-- Returns how much is lost with an identity, see below.
local function tells(said)
  local before, after = said.before, said.after
  if not after then return 3 end
  if after.user ~= said.user then return 2 end
  return before and before.user == said.user and 0 or 1
end

-- Drops of a session's identities those that tell least, until there are not too many, as
-- Held.dropIdentity of the package recent does. It returns how many bytes that frees.
local function drop_identities(held, all)
  table.sort(all, function(a, b)
    if a.standing ~= b.standing then return a.standing < b.standing end
    if a.start ~= b.start then return a.start < b.start end
    return a.number < b.number
  end)
  local last = {}
  for _, said in ipairs(all) do
    local of = said.standing .. ' ' .. said.visitor
    said.before, last[of] = last[of], said
    if said.before then said.before.after = said end
  end
  local over, gone, freed = #all - max_identities, {}, 0
  for least = 0, 3 do
    for _, said in ipairs(all) do
      local before, after = said.before, said.after
      if over > 0 and not said.gone and tells(said) == least then
        if least == 2 then after.user, after.changed = after.visitor, true end
        if before then before.after = after end
        if after then after.before = before end
        said.gone, over = true, over - 1
        gone[#gone + 1], freed = said.key, freed + said.bytes
      end
    end
  end
  call_chunked('HDEL', held, gone)
  for _, said in ipairs(all) do
    if said.changed and not said.gone then
      local value = said.number .. ' ' .. digits(said.start) .. ' ' .. #said.user .. ' ' .. said.user .. said.record
      call('HSET', held, said.key, value)
      freed = freed + said.bytes - action_cost - #value
    end
  end
  return freed
end

-- Removes the oldest of a session's actions but so many of each user and of all, and
-- identities beyond their number, and returns how many bytes they have. It is done again
-- when as many have come as a user keeps.
local function compact(held)
  local all, found, identities = call('HGETALL', held), {}, {}
  for i = 1, #all, 2 do
    local value = all[i + 1]
    local number, start, length, at = string.match(value, '^(%d+) (%d+) (%d+) ()')
    if start then
      local record = at + tonumber(length)
      local one = {number = number, start = tonumber(start), user = string.sub(value, at, record - 1),
        key = all[i], bytes = action_cost + #value}
      if string.sub(value, record, record) == 'i' then
        read_identity(one, string.sub(value, record))
        identities[#identities + 1] = one
      else
        found[#found + 1] = one
      end
    end
  end
  table.sort(found, function(a, b) return a.start > b.start end)
  local of_each, kept, gone, freed = {}, 0, {}, drop_identities(held, identities)
  for _, action in ipairs(found) do
    local n = (of_each[action.user] or 0) + 1
    of_each[action.user] = n
    if n > max_events or kept >= max_held then
      gone[#gone + 1], freed = action.key, freed + action.bytes
    else
      kept = kept + 1
    end
  end
  call_chunked('HDEL', held, gone)
  call('HSET', held, 'most', digits(kept + max_events))
  if freed ~= 0 then call('HINCRBY', held, 'size', digits(-freed)) end
  return freed
end

-- Files the actions of a run which the session does not have, and returns by how
-- many bytes activity grows.
local function file_run(user, session, first, last)
  local held, keys, newest = base .. 'held:' .. session, {}, 0
  for i = first, last, 3 do keys[#keys + 1] = string.sub(args[i], 8) end
  local known, values, bytes = call('HMGET', held, 'most', unpack(keys)), {}, 0
  for n, key in ipairs(keys) do
    local i = first + 3 * (n - 1)
    local start = tonumber(args[i + 1])
    if not known[n + 1] and start >= oldest then
      local value = version_text .. string.sub(args[i], 1, 7) .. ' ' .. args[i + 1] .. ' ' .. args[i + 2]
      values[#values + 1], values[#values + 2] = key, value
      bytes, newest = bytes + action_cost + #value, math.max(newest, start)
    end
  end
  if #values == 0 then return 0 end
  call('HSET', held, unpack(values))
  call('HINCRBY', held, 'size', bytes)
  local most_held = tonumber(known[1] or 2 * max_events) + max_identities
  if call('HLEN', held) > most_held then bytes = bytes - compact(held) end
  bytes = count('s' .. session, bytes)
  if user == '' then return bytes end
  local sessions = base .. 'user:' .. user
  local added = call('ZADD', sessions, 'GT', digits(newest), session)
  if added == 1 then added = added - call('ZREMRANGEBYRANK', sessions, 0, -max_events - 1) end
  return bytes + count('u' .. user, added * session_cost)
end

local at, bytes = first_run, 0
for _ = 1, runs do
  local last = at + 3 * tonumber(args[at + 2])
  bytes = bytes + file_run(args[at], args[at + 1], at + 3, last)
  at = last + 3
end
if runs > 0 then
  add('acts', bytes)
  evict(active, 'acts', activity_size, remove_activity, bytes)
  keep(active)
end

-- 5. Erasures.

-- Removes from a session what is the user's and, where the session is the person's, all,
-- but for what is kept for others. It returns how many bytes that frees.
local function erase_in(held, user, kept, whole)
  local all, gone, freed, left = call('HGETALL', base .. 'held:' .. held), {}, 0, false
  for i = 1, #all, 2 do
    local length, from = string.match(all[i + 1], '^%d+ %d+ (%d+) ()')
    local of = length and string.sub(all[i + 1], from, from + length - 1)
    if of and not kept[of] and (whole or of ~= '' and of == user) then
      gone[#gone + 1], freed = all[i], freed + action_cost + #all[i + 1]
    elseif of then
      left = true
    end
  end
  if not left then
    freed = activity_size('s' .. held)
    remove_activity({'s' .. held})
  elseif #gone > 0 then
    call_chunked('HDEL', base .. 'held:' .. held, gone)
    call('HINCRBY', base .. 'held:' .. held, 'size', '-' .. digits(freed))
  end
  return freed
end

for _, data in ipairs(erasures) do
  local e, freed = cjson.decode(data), 0
  local function kept_in(held)
    local kept = {}
    for _, id in ipairs(e.kept and e.kept[string.sub(held, 3)] or {}) do kept[id] = true end
    return kept
  end
  for _, session in ipairs(e.session_ids) do
    local held = 's:' .. session
    freed = freed + erase_in(held, e.user_id, kept_in(held), true)
  end
  if e.user_id ~= '' then
    freed = freed + erase_in('u:' .. e.user_id, e.user_id, {}, true)
    local sessions, gone = base .. 'user:' .. e.user_id, {}
    freed = freed + activity_size('u' .. e.user_id)
    for _, held in ipairs(call('ZRANGE', sessions, 0, -1)) do
      local kept = string.sub(held, 1, 2) == 's:' and kept_in(held) or {}
      freed = freed + erase_in(held, e.user_id, kept)
      if not kept[e.user_id] then gone[#gone + 1] = held end
    end
    call_chunked('ZREM', sessions, gone)
    local left = activity_size('u' .. e.user_id)
    freed = freed - left
    if left == 0 then remove_activity({'u' .. e.user_id}) end
  end
  add('acts', -freed)
end

if state.deleted then bury() end
if #deleted > 0 then change('deleted', cmsgpack.pack(deleted)) end
save()
if previous then call('HDEL', torn, previous) end
if entries > 0 then
  -- Readers look by themselves now and then, so a refusal is no failure.
  redis.pcall('PUBLISH', ARGV[5], state.newest .. ' ' .. ARGV[6])
end
return {0, previous_ms, previous_seq, ms, seq, version, state.floor or '', state.gaps or ''}
