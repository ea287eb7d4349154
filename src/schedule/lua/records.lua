-- The records of jobs.
local function parse(raw)
  local state, flags, priority, attempts, max, base, jitter, due, created, finished, fence_, verdict, reason, window, deadline,
    request, outcome, id = struct.unpack(HEADER, raw)
  return {state = state, flags = flags, priority = priority, attempts = attempts, max = max, base = base, jitter = jitter, due = due,
    created = created, finished = finished, fence = fence_, verdict = verdict, reason = reason, window = window, deadline = deadline,
    request = request, outcome = outcome, id = id, group = #raw > HEADER_LEN and string.sub(raw, HEADER_LEN + 1) or nil}
end

-- Payload and progress of what was fetched.
local sealed = {}
-- The leases that were settled before in this call, and with which outcomes. They leave `lse` only after the next ones have joined it:
-- no key is emptied and written again.
local over, outcomes = {}, ''

-- Reads the headers of many jobs, one command a bucket; `whole`: with payload and progress.
local function fetch(numbers, whole)
  local per = whole and 3 or 1
  local by_key = {}
  for _, number in ipairs(numbers) do
    local key = bucket(number)
    local asked = by_key[key]
    if not asked then
      asked = {{}, {}}
      by_key[key] = asked
    end
    local its, fields, at = asked[1], asked[2], field(number)
    its[#its + 1] = number
    local n = #fields
    fields[n + 1] = at
    if whole then fields[n + 2], fields[n + 3] = 'p' .. at, 'g' .. at end
  end
  for key, asked in pairs(by_key) do
    local found = redis.call('HMGET', key, unpack(asked[2]))
    for n, number in ipairs(asked[1]) do
      local at = (n - 1) * per
      if loaded[number] == nil then loaded[number] = found[at + 1] and parse(found[at + 1]) or false end
      if whole then sealed[number] = {found[at + 2] or '', found[at + 3] or ''} end
    end
  end
end

local function load(number)
  if loaded[number] == nil then
    local raw = redis.call('HGET', bucket(number), field(number))
    loaded[number] = raw and parse(raw) or false
  end
  return loaded[number] or nil
end

local function store(number, j)
  loaded[number], stored[number] = j, j
end

write_stored = function()
  local by_key = {}
  for number, j in pairs(stored) do
    local key = bucket(number)
    local values = by_key[key]
    if not values then
      values = {}
      by_key[key] = values
    end
    local n = #values
    values[n + 1], values[n + 2] = field(number), packed(j)
  end
  for key, values in pairs(by_key) do redis.call('HSET', key, unpack(values)) end
  stored = {}
end

local function flag(j, bit_)
  return band(j.flags, bit_) ~= 0
end

local function set_flag(j, bit_)
  j.flags = bor(j.flags, bit_)
end

local function clear_flag(j, bit_)
  j.flags = band(j.flags, bnot(bit_))
end

local function is_final(j)
  return j.state == 'D' or j.state == 'X' or j.state == 'C'
end

local function attempts_most(j)
  return j.max > 0 and j.max or tonumber(head[7] or 3)
end
