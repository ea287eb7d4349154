-- The records of jobs.
local function parse(raw)
  local state, flags, priority, attempts, max, base, jitter, due, created, finished, fence_, verdict, reason, window, deadline,
    request, outcome, id = struct.unpack(HEADER, raw)
  return {state = state, flags = flags, priority = priority, attempts = attempts, max = max, base = base, jitter = jitter, due = due,
    created = created, finished = finished, fence = fence_, verdict = verdict, reason = reason, window = window, deadline = deadline,
    request = request, outcome = outcome, id = id, group = #raw > HEADER_LEN and string.sub(raw, HEADER_LEN + 1) or nil}
end

-- Reads `what` of many jobs, one command a bucket; `fields(number)` are the fields of one, and as many values come back.
local function read_all(numbers, count_, fields)
  local by_key = {}
  for _, number in ipairs(numbers) do
    local key = bucket(number)
    local asked = by_key[key]
    if not asked then
      asked = {numbers = {}, fields = {}}
      by_key[key] = asked
    end
    asked.numbers[#asked.numbers + 1] = number
    for _, name in ipairs(fields(number)) do asked.fields[#asked.fields + 1] = name end
  end
  local values = {}
  for key, asked in pairs(by_key) do
    local found = redis.call('HMGET', key, unpack(asked.fields))
    for n, number in ipairs(asked.numbers) do
      local its = {}
      for m = 1, count_ do its[m] = found[(n - 1) * count_ + m] end
      values[number] = its
    end
  end
  return values
end

local function preload(numbers)
  local found = read_all(numbers, 1, function(number) return {field(number)} end)
  for number, values in pairs(found) do loaded[number] = values[1] and parse(values[1]) or false end
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
    values[#values + 1] = field(number)
    values[#values + 1] = packed(j)
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
