-- IDs, and the ranges of IDs whose entries Redis has lost: see the package comment.

local function parse_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or ms == other_ms and seq < other_seq
end

local function precedes(id, other)
  local ms, seq = parse_id(id)
  return before(ms, seq, parse_id(other))
end

-- A list of ranges is a text: for each range, in order, the ID before it and its last ID.
local range, most_ranges = '(%S+) (%S+)', 16

-- Returns a list with one more range, which has no entries. It leaves out ranges before the floor,
-- to which the log is trimmed, and the oldest ranges beyond the maximum.
local function lose(list, floor, from, to)
  local ranges, texts = {}, {}
  for first, last in string.gmatch(list or '', range) do
    if precedes(first, to) and not precedes(last, to) then return list end -- it is in the list
    if last == from then
      from = first
    elseif precedes(floor, last) and (precedes(first, from) or precedes(to, last)) then
      ranges[#ranges + 1] = {first, last}
    end
  end
  ranges[#ranges + 1] = {from, to}
  table.sort(ranges, function(a, b) return precedes(a[2], b[2]) end)
  for i = math.max(1, #ranges - most_ranges + 1), #ranges do texts[#texts + 1] = table.concat(ranges[i], ' ') end
  return table.concat(texts, ' ')
end
