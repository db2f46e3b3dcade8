-- The beginning of the scripts that change a product, after lost.lua.
--
-- KEYS  1 meta, 2 log, 3 seen, 4 names, 5 docs, 6 acts: see the package comment
--       7 a key that never exists: a cluster refuses a script before it starts
--         while the product's slot is on its way to another node
-- ARGV  1 retention in milliseconds   2 most bytes of the log
--       3 most bytes of documents, and as many of activity

local call = redis.call
local meta, log, seen, names, docs, active = unpack(KEYS)
local base = string.sub(meta, 1, -5)
local erased = base .. 'erased'
local ttl, max_bytes, max_state = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local millis = math.floor(micros / 1000)

-- Bounds of the values in one call, and of the removals of one script beyond as much as it
-- adds, which keep Redis busy for about a millisecond.
local chunk, most, most_bytes = 1000, 256, 1048576

-- Numbers up to 2^53 are exact in Lua, and IDs and versions stay below that.
-- Integers are formatted several times as fast, but have 32 bits on some machines.
local integer = string.format('%d', 2 ^ 52) == '4503599627370496' and '%d' or '%.0f'
local function digits(n) return string.format(integer, n) end

local function make_id(ms, seq) return digits(ms) .. '-' .. digits(seq) end

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

-- The fields of meta, which save writes back.

local state, changes = {}, {}
do
  local fields = call('HGETALL', meta)
  for i = 1, #fields, 2 do state[fields[i]] = fields[i + 1] end
end

local function change(field, value)
  state[field] = value
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

local function number(field) return tonumber(state[field] or 0) end

local function add(field, n) change(field, digits(math.max(0, number(field) + n))) end

local function save()
  if #changes > 0 then call('HSET', meta, unpack(changes)) end
end

-- Keys expire 9/8 of the retention after the last write, or up to 1/16 of it earlier.
local lifetime = math.floor(ttl * 9 / 8) + 1000

local function keep(key)
  if call('PTTL', key) < lifetime - ttl / 16 then call('PEXPIRE', key, digits(lifetime)) end
end

-- The log.

-- The memory of an entry with its keys in bytes, as measured.
local function entry_size(session, data, packed) return 48 + #session + #data + 6 * #packed end

local function appended_at(entry) return tonumber(entry[2][8]) or (parse_id(entry[1])) end

-- Removes the oldest entries while they have expired or the log has too many bytes: if
-- necessary, at least as many bytes as were added. The newest entry stays until it expires.
-- It returns whether there is more to remove.
local function trim_log(added)
  local bytes, cutoff = number('bytes'), millis - ttl - 1
  if bytes == 0 or number('oldest') > cutoff and bytes <= max_bytes then return false end
  local floor, keys, removed, freed, dropped = state.floor, {}, 0, 0, 0
  local oldest, more
  while not oldest do
    local page = call('XRANGE', log, '(' .. floor, '+', 'COUNT', 16)
    for _, entry in ipairs(page) do
      local fields, at = entry[2], appended_at(entry)
      more = at <= cutoff or bytes > max_bytes and entry[1] ~= state.newest
      if not more or (removed >= most or freed >= most_bytes) and freed >= added then
        oldest = at
        break
      end
      local size = entry_size(fields[2], fields[4], fields[6])
      floor, bytes, freed, removed = entry[1], bytes - size, freed + size, removed + 1
      if at > cutoff then dropped = dropped + 1 end
      append_keys(keys, fields[6])
    end
    if #page < 16 and not oldest then -- the whole log has expired
      floor, bytes, oldest, more = state.newest, 0, 0, false
    end
  end
  if bytes == 0 then
    call('UNLINK', log, seen, erased)
  elseif removed > 0 then
    local floor_ms, floor_seq = parse_id(floor)
    call('XTRIM', log, 'MINID', make_id(floor_ms, floor_seq + 1))
    if state.erased then call('XTRIM', erased, 'MINID', make_id(floor_ms, floor_seq + 1)) end
    call_chunked('SREM', seen, keys)
  end
  change('floor', floor)
  change('bytes', digits(bytes))
  change('oldest', digits(oldest))
  if dropped > 0 then add('dropped', dropped) end
  return more
end

-- Documents and activity. Each has an order: a sorted set of names by the version of the last
-- write, plus a constant for documents that do not yield. meta has its size in bytes. Expired
-- names count until tidy.lua adds up the sizes again; one found earlier is subtracted as the mean.

local function document_key(name) return base .. 'doc:' .. name end

-- Returns the size of a document with its names in bytes, as measured, or 0 for
-- one that has expired.
local function document_size(name)
  local key = document_key(name)
  local length = call('STRLEN', key)
  return length > 0 and 416 + #key + 2 * #name + length or 0
end

local function remove_documents(gone)
  for _, name in ipairs(gone) do call('UNLINK', document_key(name)) end
  call_chunked('ZREM', docs, gone)
  call_chunked('ZREM', names, gone)
end

-- A name in the order of activity is "u" and a user, or "s" and the name of a session.
local function activity_key(name)
  return base .. (string.sub(name, 1, 1) == 'u' and 'user:' or 'held:') .. string.sub(name, 2)
end

-- Memory of Redis in bytes, as measured: of a session in a user's set, of an action
-- in addition to its record, and of a key.
local session_cost, action_cost, key_cost = 116, 130, 400

local function activity_size(name)
  local key, size = activity_key(name)
  if string.sub(name, 1, 1) == 'u' then
    size = call('ZCARD', key) * session_cost
  else
    size = tonumber(call('HGET', key, 'size') or 0)
  end
  return size > 0 and key_cost + 2 * #name + size or 0
end

local function remove_activity(gone)
  for _, name in ipairs(gone) do call('UNLINK', activity_key(name)) end
  call_chunked('ZREM', active, gone)
end

-- Removes names from the beginning of an order, while they have expired, fewer than old were
-- removed, or the rest is too large: if necessary, at least as many bytes as were added. It
-- returns whether there is more.
local function evict(order, field, size_of, remove, added, old)
  local held, removed, freed = number(field), 0, 0
  local done, count = false, nil
  while not done do
    local gone = {}
    local page = call('ZRANGEBYSCORE', order, '-inf', '(+inf', 'LIMIT', 0, 16)
    for _, name in ipairs(page) do
      local size = size_of(name)
      done = size > 0 and held <= max_state and removed >= old or removed >= most and freed >= added
      if done then break end
      count = (count or call('ZCARD', order)) - 1
      if size == 0 then size = held / (count + 1) end
      held, freed, removed = held - size, freed + size, removed + 1
      gone[#gone + 1] = name
    end
    remove(gone)
    done = done or #page < 16
  end
  if removed == 0 then return false end
  change(field, digits(math.max(0, held)))
  return (held > max_state or removed < old) and removed >= most
end

-- A commit is all or nothing even if Redis keeps only a part of it, because a command failed
-- or because Redis was killed twice: the first kill cuts the transaction short in the append-only
-- file; Redis discards it when it starts, but leaves its beginning in the file, and executes that
-- at the next start. So a commit first records, under its version, how to roll it back. The
-- next commit removes the record. A record of any other version than the one that meta has as
-- done belongs to a torn commit.

local torn = base .. 'torn'

-- Appends the present state of a document: its name, the stored value, its expiry in
-- milliseconds, and its score in the order. A deleted document has no value.
local function append_former(former, name, stored)
  local n, expiry, score = #former, '', ''
  if not string.find(stored, ' ', 1, true) then
    stored = ''
  else
    local lives = call('PTTL', document_key(name))
    if lives >= 0 then expiry = digits(millis + lives) end
    score = call('ZSCORE', docs, name) or digits(micros)
  end
  former[n + 1], former[n + 2], former[n + 3], former[n + 4] = name, stored, expiry, score
end

-- Removes the versions that the last commit has left in place of the documents it deleted.
local function bury()
  local keys = cmsgpack.unpack(state.deleted)
  for i, name in ipairs(keys) do keys[i] = document_key(name) end
  for i = 1, #keys, chunk do
    local gone = {}
    for j, stored in ipairs(call('MGET', unpack(keys, i, math.min(i + chunk - 1, #keys)))) do
      if stored and not string.find(stored, ' ', 1, true) then gone[#gone + 1] = keys[i + j - 1] end
    end
    if #gone > 0 then call('UNLINK', unpack(gone)) end
  end
  call('HDEL', meta, 'deleted')
end

-- Rolls a commit back, but nothing that was written since. ids are the IDs of its first and its
-- last entry; former has the earlier states of the documents that it put or deleted; filed has
-- the name of each session in it and the keys of its actions.
local function roll_back(version, ids, former, filed)
  local gone, keys = {}, {}
  for _, entry in ipairs(ids[1] and call('XRANGE', log, ids[1], ids[2]) or {}) do
    gone[#gone + 1] = entry[1]
    append_keys(keys, entry[2][6])
  end
  if #gone > 0 then
    call_chunked('XDEL', log, gone)
    call_chunked('SREM', seen, keys)
    if state.newest then call('XSETID', log, state.newest) end -- IDs may be given again
    for _, entry in ipairs(call('XRANGE', erased, ids[1], ids[2])) do
      call('XDEL', erased, entry[1])
      if state.newest then call('XSETID', erased, state.newest) end
    end
  end
  for i = 1, #former, 4 do
    local name, value, expiry, score = former[i], former[i + 1], former[i + 2], former[i + 3]
    local key = document_key(name)
    local is_its = string.match(call('GETRANGE', key, '0', '20'), '^%d+') == version
    if is_its and value == '' then
      remove_documents({name})
    elseif is_its then
      call('SET', key, value)
      if expiry ~= '' then call('PEXPIREAT', key, expiry) end
      call('ZADD', docs, score, name)
      call('ZADD', names, '0', name)
    end
  end
  for i = 1, #filed, 2 do
    local held, actions = base .. 'held:' .. filed[i], {}
    append_keys(actions, filed[i + 1])
    for _, key in ipairs(actions) do
      local value = call('HGET', held, key)
      if value and string.sub(value, 1, #version) == version then
        call('HDEL', held, key)
        call('HINCRBY', held, 'size', '-' .. digits(action_cost + #value))
      elseif value then -- another commit has the key
        call('SADD', seen, key)
      end
    end
  end
end

for _, version in ipairs(call('HKEYS', torn)) do
  if version ~= state.done then
    roll_back(version, unpack(cmsgpack.unpack(call('HGET', torn, version))))
    call('HDEL', torn, version)
  end
end
