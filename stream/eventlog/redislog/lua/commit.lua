-- Commits one call's changes to a product, all or none: documents, entries of the log and
-- actions of users. An "erase" entry removes actions. The script continues activity.lua.
--
-- ARGV  5 channel to publish on
--       6 product                       7, 8 newest ID known to the caller
--       9 newest version known to the caller
--       10, 11, 12 number of documents, of entries, and of runs of actions in
--       13 generation of the product that the call belongs to, 0 for any
--       14 and so on:
--       documents: operation, name, version ("0" for none), time to live in
--         milliseconds (0 for no expiry), value, number to add to the version for its score
--       entries: session, data, keys of 16 bytes each
--       runs of actions: user, session, number of actions, and for each action its
--         7-digit number, which grows, with its key, its start in microseconds, and its
--         record: the length of the user, the user, and JSON that begins with "{" or, for
--         an identity, "i", a zero byte, a byte of the standing and the anonymous ID
--
-- Returns {0, newest ID before the call, lost ones included (2 numbers), ID of the first entry (2
-- numbers), version of the documents put, floor, lost ranges}; {1, name} if a document is not at
-- its version; {2, positions of keys...} if the log has keys already; or {3, ''} if the
-- generation is over. The entries' IDs are consecutive.

local generation = tonumber(ARGV[13])
if generation > 0 and generation <= number('over') then return {3, ''} end

local documents, entries, runs = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local args, first_document = ARGV, 14
local first_entry = first_document + 6 * documents
local first_run = first_entry + 3 * entries

-- 1. Documents must be at the versions named.

local former, deleted = {}, {} -- states of the documents to put or delete; names of those to delete
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

-- Versions keep their distance from the time, even if that distance comes from a clock that was
-- ahead. So a replica that is promoted without the last writes does not assign their versions again.
local ahead = number('ahead')
local version = math.max(number('version') + 1, tonumber(ARGV[9]) + 1, micros + ahead)
local version_text = digits(version)
change('version', version_text)
if version > micros + ahead then change('ahead', digits(version - micros)) end

-- Records how to roll the commit back, before anything of it is written, and returns the
-- previous version, whose record is no longer needed.
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

-- 2. Entries, unless the log has one of their keys. Keys of expired entries do not count.

local previous_ms, previous_seq, ms, seq = 0, 0, 0, 0

-- Finds the newest ID, including lost ones that the caller knows.
local function find_newest()
  local known_ms, known_seq = tonumber(ARGV[7]), tonumber(ARGV[8])
  local is_new = not state.newest
  if is_new then previous_ms = millis else previous_ms, previous_seq = parse_id(state.newest) end
  local lost = before(previous_ms, previous_seq, known_ms, known_seq)
  if lost then previous_ms, previous_seq = known_ms, known_seq end
  if is_new then -- or lost as a whole, if the caller knows an ID
    local born = make_id(previous_ms, previous_seq)
    change('born', born)
    change('floor', born)
    if known_ms > 0 then change('gaps', '0-0 ' .. born) end
  elseif lost then -- the entries in between are lost
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

-- Makes a change, and returns the number of bytes by which the documents grow.
local function write_document(operation, name, existed, lives, value, order)
  local key = document_key(name)
  local size = existed and document_size(name) or 0
  if operation == '1' then
    call('SET', key, version_text, 'PX', digits(lifetime)) -- until the next commit, for a roll-back
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
  -- An expired document is still counted.
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
  evict(docs, 'docs', document_size, remove_documents, bytes, 0)
  -- Names expire after the last document, and later than they are tidied.
  if longest == math.huge then
    call('PERSIST', names)
    call('PERSIST', docs)
  elseif left ~= -1 and (left < longest + ttl / 16 + 1000 or call('PTTL', docs) == -1) then
    local period = digits(math.max(left, longest + lifetime - ttl))
    call('PEXPIRE', names, period)
    call('PEXPIRE', docs, period)
  end
end

-- 4. Actions, and the removals of "erase" entries.

local at, bytes = first_run, 0
for _ = 1, runs do
  local last = at + 3 * tonumber(args[at + 2])
  bytes = bytes + file_run(args[at], args[at + 1], version_text, at + 3, last)
  at = last + 3
end
if runs > 0 then
  add('acts', bytes)
  evict(active, 'acts', activity_size, remove_activity, bytes, 0)
  keep(active)
end

for _, data in ipairs(erasures) do add('acts', -erase(data)) end

if state.deleted then bury() end
if #deleted > 0 then change('deleted', cmsgpack.pack(deleted)) end
save()
if previous then call('HDEL', torn, previous) end
if entries > 0 then
  -- Readers also look on their own from time to time, so a refusal is no failure.
  redis.pcall('PUBLISH', ARGV[5], state.newest .. ' ' .. ARGV[6])
end
return {0, previous_ms, previous_seq, ms, seq, version, state.floor or '', state.gaps or ''}
