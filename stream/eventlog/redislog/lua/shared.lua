-- What the scripts that change a product share: it is put before each of them.

local call = redis.call

-- How many values are given to one call at most.
local chunk = 1000

-- Numbers up to 2^53 are exact in Lua, and IDs and versions stay below that.
-- Integers are formatted several times as fast, but have 32 bits on some machines.
local integer = string.format('%d', 2 ^ 52) == '4503599627370496' and '%d' or '%.0f'
local function digits(n) return string.format(integer, n) end

local function make_id(ms, seq) return digits(ms) .. '-' .. digits(seq) end

local function parse_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
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

-- What Redis needs, in bytes, as measured: for an entry with its keys, and for
-- a document with its names.
local function cost(session, data, packed) return 48 + #session + #data + 6 * #packed end

local function document_cost(key, name, length) return 416 + #key + 2 * #name + length end

-- The order in which documents and activity were written is kept in a sorted
-- set of each. A score is 2^13 times the number of the write, and the size in
-- those 13 bits: a unit is 16 bytes, 8 bits are exact, and 5 are an exponent.

local function class_of(bytes)
  local units = math.ceil(bytes / 16)
  if units < 256 then return units end
  local _, exponent = math.frexp(units)
  return 256 * (exponent - 9) + math.floor(units / 2 ^ (exponent - 9))
end

local function size_of(score)
  local class = score % 8192
  if class < 512 then return 16 * class end
  local exponent = math.floor(class / 256) - 1
  return 16 * (class - 256 * exponent) * 2 ^ exponent
end

-- Documents that live for ever are the newest of all.
local for_ever_number = 2 ^ 40 - 1
