-- Commits one call's changes to a product: documents, entries of the log and
-- actions of users, all of them or none.
--
-- KEYS  1 meta, 2 log, 3 seen, 4 names, 5 docs, 6 acts: see the package comment
--       7 a key that never exists: a cluster refuses the script before it
--         starts while the product's slot is on its way to another node
-- ARGV  1 retention in milliseconds     2 most bytes of the log
--       3 most bytes of documents, and as many of activity
--       4 most actions of a user        5 channel to publish on
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
-- version of the documents put, floor, 1 when there is too much or 2 when it is time to tidy, else 0}, or
-- {1, name} when a document is not at its version, or {2, positions of keys...}
-- when the log has keys already, or {3} when it may have them only because it
-- must be tidied first. The entries' IDs are consecutive.

local meta, log, seen, names, docs, active = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local base = string.sub(meta, 1, -5)
local ttl, max_bytes, max_state, max_events = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local documents, entries, runs = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local args = cmsgpack.unpack(ARGV[13])
local first_document = 1
local first_entry = first_document + 5 * documents
local first_run = first_entry + 3 * entries

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local millis = math.floor(micros / 1000)

-- The expiry of keys is set once in each period of time and not in every call,
-- and therefore live two periods longer than they must.
local period_length = math.max(1, math.floor(ttl / 16))
local period = math.floor(millis / period_length)
local lifetime = digits(ttl + 2 * period_length + 1000)

local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or ms == other_ms and seq < other_seq
end

-- 1. Documents must be at the versions named.

local function document_key(name) return base .. 'doc:' .. name end

for i = first_document, first_entry - 1, 5 do
  local stored = call('GETRANGE', document_key(args[i + 1]), '0', '20')
  if (string.match(stored, '^%d+') or '0') ~= args[i + 2] then return {1, args[i + 1]} end
end

local state = call('HMGET', meta, 'newest', 'floor', 'bytes', 'version', 'oldest', 'period', 'ahead',
  'writes', 'docs', 'acts', 'until', 'immortal')
local floor = state[2] or ''
local tidy = 0

-- Versions keep their distance from the time, even when that comes from a clock
-- that was ahead: a replica that is promoted without the last writes does not
-- give their versions again.
local ahead = tonumber(state[7] or 0)
local version = math.max(tonumber(state[4] or 0) + 1, tonumber(ARGV[9]) + 1, micros + ahead)
local version_text = digits(version)
local changes = {'version', version_text}

local function change(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

if version > micros + ahead then change('ahead', digits(version - micros)) end

-- 2. and 3. Entries, unless the log has one of their keys.

local previous_ms, previous_seq, ms, seq = 0, 0, 0, 0
local newest

if entries > 0 then
  local known_ms, known_seq = tonumber(ARGV[7]), tonumber(ARGV[8])
  local bytes = tonumber(state[3] or 0)
  if state[1] then
    previous_ms, previous_seq = parse_id(state[1])
    if before(previous_ms, previous_seq, known_ms, known_seq) then -- what came between is lost
      change('lost', state[1])
      change('regained', make_id(known_ms, known_seq))
      previous_ms, previous_seq = known_ms, known_seq
    end
  else
    -- A product that is new, or was lost, starts now: what came before is
    -- unknown.
    previous_ms = millis
    if before(previous_ms, previous_seq, known_ms, known_seq) then
      previous_ms, previous_seq = known_ms, known_seq
    end
    floor = make_id(previous_ms, previous_seq)
    change('born', floor)
  end
  ms, seq = previous_ms, previous_seq

  local keys = {}
  for i = first_entry, first_run - 1, 3 do append_keys(keys, args[i + 2]) end
  local duplicates = {2}
  if #keys == 1 then -- it can be added at once
    if call('SADD', seen, keys[1]) == 0 then duplicates[2] = 1 end
  else
    for i = 1, #keys, chunk do
      local known = call('SMISMEMBER', seen, unpack(keys, i, math.min(i + chunk - 1, #keys)))
      for j, is in ipairs(known) do
        if is == 1 then duplicates[#duplicates + 1] = i + j - 1 end
      end
    end
  end
  -- The keys of what is too old are free, once that is gone.
  local oldest_at = tonumber(state[5] or millis)
  local expired = bytes > 0 and oldest_at < millis - ttl
  if expired and call('EXISTS', log) == 0 then -- as a whole
    bytes, floor, expired = 0, make_id(previous_ms, previous_seq), false
  end
  local was_empty = bytes == 0
  if #duplicates > 1 then return expired and {3} or duplicates end

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
    local session, data, packed = args[at], args[at + 1], args[at + 2]
    newest = prefix .. digits(seq + i)
    if ms > millis + 1000 then -- the ID does not say when it was appended
      call('XADD', log, newest, 's', session, 'd', data, 'k', packed, 't', millis)
    else
      call('XADD', log, newest, 's', session, 'd', data, 'k', packed)
    end
    bytes = bytes + cost(session, data, packed)
  end
  if #keys > 1 then call_chunked('SADD', seen, keys) end

  if was_empty then change('oldest', digits(millis)) end
  if expired or bytes > max_bytes then tidy = 1 end

  -- The set of keys may have become empty, and be another one next time.
  if state[6] ~= digits(period) then
    call('PEXPIRE', log, lifetime)
    call('PEXPIRE', seen, lifetime)
    change('period', digits(period))
  end
  change('newest', newest)
  change('floor', floor)
  change('bytes', digits(bytes))
end

-- 4. Documents.

-- Sizes of what this call changes, by name: of documents and of activity.
local doc_sizes, act_sizes = {}, {}
local fresh = true -- all activity is of users and timelines that are new
local shrunk = {} -- of activity: the part that is left where the oldest had to go
local immortal = {}
local all_fresh = false -- all documents are new
local lifetime_of_names -- where it changes; 0 for ever

if documents > 0 then
  local longest, for_ever = 0, false
  local gone, fresh = {}, {}
  for i = first_document, first_entry - 1, 5 do
    local operation, name, existed = args[i], args[i + 1], args[i + 2] ~= '0'
    local key, lives = document_key(name), tonumber(args[i + 3])
    if operation == '0' then
      local stored = version_text .. ' ' .. args[i + 4]
      if lives > 0 then call('SET', key, stored, 'PX', args[i + 3]) else call('SET', key, stored) end
      doc_sizes[name] = document_cost(key, name, #stored)
      if not existed then
        fresh[#fresh + 1] = '0'
        fresh[#fresh + 1] = name
      end
    elseif operation == '1' then
      call('DEL', key)
      gone[#gone + 1] = name
      doc_sizes[name] = 0
    elseif operation == '3' then
      if lives > 0 then call('PEXPIRE', key, args[i + 3]) else call('PERSIST', key) end
      doc_sizes[name] = document_cost(key, name, call('STRLEN', key))
    end
    if operation == '0' or operation == '3' then
      longest = math.max(longest, lives)
      immortal[name] = lives == 0
      for_ever = for_ever or lives == 0
    end
  end
  call_chunked('ZREM', names, gone)
  call_chunked('ZADD', names, fresh)
  all_fresh = #fresh == 2 * documents
  if for_ever then change('immortal', '1') end
  local lasts = tonumber(state[11] or 0)
  if for_ever or state[12] then
    lifetime_of_names = 0
  elseif #gone > 0 or lasts < millis + longest then
    lifetime_of_names = math.max(longest, call('PTTL', names)) + 2 * period_length + 1000
    change('until', digits(millis + longest + 2 * period_length))
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
local function trim(user, users, acts, excess)
  local name = 'u' .. user
  shrunk[name] = (shrunk[name] or 1) * max_events / (max_events + excess)
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
  if excess > 0 then trim(user, users, acts, excess) end
  local next_start = link(line, user, key, start)
  if next_start then call('HSET', acts, key .. 'e', next_start) end
end

-- Files the actions of a run one by one.
local function file_each(user, line, first, last)
  fresh = false
  for i = first, last, 3 do file(user, line, args[i], args[i + 1], args[i + 2]) end
  call('PEXPIRE', line, lifetime)
  if user == '' then return end
  local users, acts = sets_of(user)
  if call('EXISTS', acts) == 0 then return end
  call('HSET', acts, 'period', digits(period))
  call('PEXPIRE', users, lifetime)
  call('PEXPIRE', acts, lifetime)
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
  fields[count + 1] = 'period'
  local known = call('HMGET', acts, unpack(fields))
  for i = 1, count do
    if known[i] then return false end
  end
  local ends = call('ZREVRANGE', line, '0', '1', 'WITHSCORES')
  local previous = tonumber(ends[2])
  if previous and previous >= start then return false end
  local is_new = not known[count + 1]
  local excess = (is_new and 0 or call('ZCARD', users)) + count - max_events
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
  fresh = fresh and is_new and not previous
  local renew = known[count + 1] ~= digits(period)
  if renew then
    records[r + 1], records[r + 2] = 'period', digits(period)
  end
  call('ZADD', users, unpack(starts))
  call('ZADD', line, unpack(marks))
  call('HSET', acts, unpack(records))
  if excess > 0 then trim(user, users, acts, excess) end
  if renew then
    call('PEXPIRE', users, lifetime)
    call('PEXPIRE', acts, lifetime)
  end
  if not previous or math.floor(previous / 1000 / period_length) ~= period then call('PEXPIRE', line, lifetime) end
  return true
end

-- What Redis needs, in bytes, as measured: for an action on a timeline and of a
-- user, and for the keys of each.
local line_cost, action_cost, key_cost = 96, 180, 400

local at = first_run
for _ = 1, runs do
  local user, timeline, first = args[at], args[at + 1], at + 3
  local line = base .. 'line:' .. timeline
  local last = first + 3 * (tonumber(args[at + 2]) - 1)
  if not file_run(user, line, first, last) then file_each(user, line, first, last) end
  -- Now and then: a timeline is longer than what users keep, for actions that
  -- come late.
  if version % 8 < 1 then
    local most = math.max(100, 4 * max_events)
    local removed = call('ZREMRANGEBYRANK', line, 0, -most - 1)
    if removed > 0 then shrunk['l' .. timeline] = most / (most + removed) end
  end
  local n, name = (last - first) / 3 + 1, 'l' .. timeline
  act_sizes[name] = (act_sizes[name] or 0) + n * (line_cost + #user)
  if user ~= '' then
    local bytes = n * action_cost
    for i = first, last, 3 do bytes = bytes + #args[i + 2] end
    name = 'u' .. user
    act_sizes[name] = (act_sizes[name] or 0) + bytes
  end
  at = last + 3
end

-- 6. What of it is kept, and when it was written.

local number = tonumber(state[8] or 0) + 1

-- Returns a size as a score holds it, and the size that it then is.
local function rounded(size)
  local units = math.ceil(size / 16)
  if units < 256 then return units, 16 * units end
  local class = class_of(size)
  return class, size_of(class)
end

-- Puts what was written at the end of its order, and adds up its sizes. What
-- was written again lately stays where it is if its size does: lately is within
-- an eighth of what is held, at a kilobyte for each write. The function, if any,
-- makes the new size of what was added and the size before. all_new says that
-- nothing of it was there, but for what has expired.
local function account(order, field, held, sizes, immortal, all_new, grown)
  local members, n = {}, 0
  for name, size in pairs(sizes) do
    if size > 0 or not all_new then
      n = n + 1
      members[n] = name
    end
  end
  if n == 0 then return end
  change('writes', digits(number))
  local function finish(held)
    change(field, digits(held))
    if held > max_state then tidy = 1 end
  end

  local last, ever = number * 8192, for_ever_number * 8192
  if all_new and n <= chunk / 2 then
    local scores, sum = {}, held
    for i = 1, n do
      local name = members[i]
      local size = sizes[name]
      local class, bytes = rounded(grown and grown(size, key_cost + 2 * #name, name) or size)
      sum = sum + bytes
      scores[2 * i - 1], scores[2 * i] = digits((immortal[name] and ever or last) + class), name
    end
    if call('ZADD', order, 'NX', unpack(scores)) == n then return finish(sum) end
    -- Some were there, and what they were has expired.
  end

  local scores, gone, lately = {}, {}, held / 8192
  for i = 1, n, chunk do
    for j, score in ipairs(call('ZMSCORE', order, unpack(members, i, math.min(i + chunk - 1, n)))) do
      local name = members[i + j - 1]
      local size, old_number, old_class = sizes[name], 0, nil
      if score then
        old_number = math.floor(score / 8192)
        old_class = score % 8192
      end
      local old = old_class and size_of(old_class)
      -- What was added just now is not held yet.
      if old and not (all_new and old_number == number) then held = held - old end
      if all_new then old = nil end
      if grown then size = grown(size, old or key_cost + 2 * #name, name) end
      if size == 0 then
        if score then gone[#gone + 1] = name end
      else
        local class, bytes = rounded(size)
        held = held + bytes
        local stays = class == old_class and not immortal[name] and old_number < for_ever_number and number - old_number < lately
        if not stays then
          scores[#scores + 1] = (immortal[name] and ever or last) + class
          scores[#scores + 1] = name
        end
      end
    end
  end
  call_chunked('ZREM', order, gone)
  call_chunked('ZADD', order, scores)
  finish(held)
end

account(docs, 'docs', tonumber(state[9] or 0), doc_sizes, immortal, all_fresh)
account(active, 'acts', tonumber(state[10] or 0), act_sizes, {}, fresh, function(more, old, name)
  return (old + more) * (shrunk[name] or 1)
end)
if runs > 0 and (state[6] ~= digits(period) or not state[10]) then call('PEXPIRE', active, lifetime) end
if number % 32 < 1 and tidy == 0 then tidy = 2 end -- now and then what has expired is looked for

-- Names and order live as long as the documents do.
if lifetime_of_names == 0 then
  call('PERSIST', names)
  call('PERSIST', docs)
elseif lifetime_of_names then
  call('PEXPIRE', names, lifetime_of_names)
  call('PEXPIRE', docs, lifetime_of_names)
end

call('HSET', meta, unpack(changes))
if newest then
  -- Readers look by themselves now and then, so a refusal is no failure.
  redis.pcall('PUBLISH', ARGV[5], newest .. ' ' .. ARGV[6])
end
return {0, previous_ms, previous_seq, ms, seq, version, floor, tidy}
