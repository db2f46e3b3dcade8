-- Removes a bounded part of the product's excess and of its expired data, and adds
-- up the sizes of a part of its documents or its activity.
--
-- ARGV  4 1 to add up documents, 2 activity, 0 neither
--       5 number of them added up before   6 their bytes
--
-- Returns {1 if there is more to remove, else 0, floor, number added up or -1 at the end,
-- their bytes}.

local more = trim_log(0)
more = evict(docs, 'docs', document_size, remove_documents, 0, 0) or more
local old = call('ZCOUNT', active, '-inf', '(' .. digits(micros - ttl * 1000)) -- all they did has expired
more = evict(active, 'acts', activity_size, remove_activity, 0, old) or more

local page = 256
local orders = {
  {docs, 'docs', document_size, remove_documents},
  {active, 'acts', activity_size, remove_activity},
}
local counted, bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
if orders[tonumber(ARGV[4])] then
  local order, field, size_of, remove = unpack(orders[tonumber(ARGV[4])])
  local some, gone = call('ZRANGE', order, counted, counted + page - 1), {}
  for _, name in ipairs(some) do
    local size = size_of(name)
    if size > 0 then bytes = bytes + size else gone[#gone + 1] = name end
  end
  remove(gone)
  counted = #some == page and counted + page - #gone or -1
  if counted < 0 then change(field, digits(bytes)) end
end

save()
return {more and 1 or 0, state.floor or '', counted, digits(bytes)}
