-- Files and erases the actions of a product: the part of a commit between shared.lua and commit.lua.
--
-- A session has a hash of its actions, whose values begin with the order of arrival and the
-- start. A user has a sorted set of sessions by the start of the newest action.
--
-- ARGV  4 most actions of a user

local max_events, oldest = tonumber(ARGV[4]), micros - ttl * 1000
local max_held, max_identities = math.max(200, 8 * max_events), 8

-- Returns when a session with that many actions is compacted next: after a number of new ones that
-- nobody can foresee, so that one commit to many sessions does not compact all of them.
math.randomseed(micros % 2 ^ 31)
local function next_compaction(kept) return digits(kept + max_events + math.random(0, max_events)) end

-- Moves a name to the end of the order of activity. It returns bytes, plus the name's own if it is new.
local function count(name, version, bytes)
  local is_new = call('ZADD', active, version, name) == 1
  keep(activity_key(name))
  return bytes + (is_new and key_cost + 2 * #name or 0)
end

-- Rates the information that would be lost with an identity, as HeldIdentity.tells of package recent does.
local function tells(said)
  local before, after = said.before, said.after
  if not after then return 3 end
  if after.user ~= said.user then return 2 end
  return before and before.user == said.user and 0 or 1
end

-- Drops a session's least informative identities beyond the maximum, as Held.dropIdentity of
-- package recent does. It returns the number of bytes freed.
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

-- Removes a session's oldest actions beyond the maximum of each user and of all, and the
-- identities beyond theirs. It returns the number of bytes freed.
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
        one.record = string.sub(value, record)
        one.standing, one.visitor = string.byte(value, record + 2), string.sub(value, record + 3)
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
  call('HSET', held, 'most', next_compaction(kept))
  if freed ~= 0 then call('HINCRBY', held, 'size', digits(-freed)) end
  return freed
end

-- Files the actions of a run, the arguments from first to last, which the session does not
-- have, and returns by how many bytes activity grows.
local function file_run(user, session, version, first, last)
  local held, keys, newest = base .. 'held:' .. session, {}, 0
  for i = first, last, 3 do keys[#keys + 1] = string.sub(ARGV[i], 8) end
  local known, values, bytes = call('HMGET', held, 'most', unpack(keys)), {}, 0
  local most_held = known[1] or next_compaction(max_events)
  for n, key in ipairs(keys) do
    local i = first + 3 * (n - 1)
    local start = tonumber(ARGV[i + 1])
    if not known[n + 1] and start >= oldest then
      local value = version .. string.sub(ARGV[i], 1, 7) .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2]
      values[#values + 1], values[#values + 2] = key, value
      bytes, newest = bytes + action_cost + #value, math.max(newest, start)
    end
  end
  if #values == 0 then return 0 end
  call('HSET', held, 'most', most_held, unpack(values))
  call('HINCRBY', held, 'size', bytes)
  if call('HLEN', held) > most_held + max_identities then bytes = bytes - compact(held) end
  bytes = count('s' .. session, version, bytes)
  if user == '' then return bytes end
  local sessions = base .. 'user:' .. user
  local added = call('ZADD', sessions, 'GT', digits(newest), session)
  if added == 1 then added = added - call('ZREMRANGEBYRANK', sessions, 0, -max_events - 1) end
  return bytes + count('u' .. user, version, added * session_cost)
end

-- Removes the user's actions from a session or, if the session is the person's, all actions. Those
-- of the users in kept stay. It returns the number of bytes freed.
local function erase_in(held, user, kept, whole)
  local all, gone, freed, left = {}, {}, 0, false
  if not whole or next(kept) then all = call('HGETALL', base .. 'held:' .. held) end -- else all of them go
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

-- Removes the actions that an "erase" entry with these data covers, and returns the number of bytes freed.
local function erase(data)
  local e, freed, done = cjson.decode(data), 0, {}
  local function kept_in(held)
    local kept = {}
    for _, id in ipairs(e.kept and e.kept[string.sub(held, 3)] or {}) do kept[id] = true end
    return kept
  end
  for _, session in ipairs(e.session_ids) do
    local held = 's:' .. session
    freed = freed + erase_in(held, e.user_id, kept_in(held), true)
    done[held] = true
  end
  if e.user_id ~= '' then
    freed = freed + erase_in('u:' .. e.user_id, e.user_id, {}, true)
    local sessions, gone = base .. 'user:' .. e.user_id, {}
    freed = freed + activity_size('u' .. e.user_id)
    for _, held in ipairs(call('ZRANGE', sessions, 0, -1)) do
      local kept = string.sub(held, 1, 2) == 's:' and kept_in(held) or {}
      if not done[held] then freed = freed + erase_in(held, e.user_id, kept) end
      if not kept[e.user_id] then gone[#gone + 1] = held end
    end
    call_chunked('ZREM', sessions, gone)
    local left = activity_size('u' .. e.user_id)
    freed = freed - left
    if left == 0 then remove_activity({'u' .. e.user_id}) end
  end
  return freed
end
