-- How jobs are found and shown.
-- As JobState has it.
local function place(number, j)
  if j.state == 'L' then return 4 end
  if j.state == 'D' then return 5 end
  if j.state == 'X' then return 6 end
  if j.state == 'C' then return 7 end
  if redis.call('ZSCORE', RDY, ready_member(number, j)) then return 2 end
  local plain = redis.call('ZSCORE', DUE, due_member(number, j, false))
  if plain or (j.group and redis.call('ZSCORE', DUE, due_member(number, j, true))) then return j.due <= now and 2 or 1 end
  return 3
end

-- The number that an id stands for now, or what is left of one that has ended.
local function find(id)
  local entry = redis.call('HGET', U, id)
  if not entry then return nil end
  if string.sub(entry, 1, 1) == 'T' then return nil, entry end
  return tonumber(entry)
end

-- A job as listings show it.
local function row(number, j, raw)
  local lease_end = j.state == 'L' and redis.call('ZSCORE', LSE, struct.pack('>I6I7', number, j.fence)) or 0
  return int(number), tostring(place(number, j)), raw, int(tonumber(lease_end or 0)), int(attempts_most(j))
end

-- Tells the worker that has a lease that it is to be cancelled.
local function ask_to_cancel(number, j)
  set_flag(j, CANCEL)
  redis.call('HSET', bucket(number), field(number), packed(j))
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -2) .. 'n', 'c' .. struct.pack('>I6I7', number, j.fence))
end
