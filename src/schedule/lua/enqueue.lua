-- Adds jobs, or finds those of their ids.
-- ARGV: buckets; sealed name of the queue, or '' where it must be there; the cron that fires, or '' (packed: blinded id, the slot
--   that it must be at, the next one or 0, 1 = not while its last job is not final); then two of each item: packed spec, sealed payload
-- Reply: {'OK', now, seq, packed per item: outcome, place, number, due, finished, replayed}. Nothing is written with
--   {'NEED', seq, buckets…}, {'NONE'} (no queue) and {'MOVED'} (the cron's slot is another by now, or it is gone)
local SPEC, SPEC_LEN = '>BBI2I2I4BBI6I5BI6c8c16', 54
if ARGV[2] == '' and not head[1] then return {'NONE'} end
-- Ingest and crons have no request id: there the second time is told as such.
local NOBODY = string.rep('\0', 8)
local MADE, FOUND, REPLACED_, RESCHEDULED_, ENDED = 1, 2, 3, 4, 5
local items, ids, taken = {}, {}, {}
local CRON = '>I6I6I6'
local cron = nil
if ARGV[3] ~= '' then
  cron = {}
  cron.id, cron.slot, cron.next, cron.alone = struct.unpack('>c16I6I6B', ARGV[3])
  cron.entry = redis.call('HGET', C, cron.id)
  if not cron.entry then return {'MOVED'} end
  cron.at, cron.last, cron.number = struct.unpack(CRON, cron.entry)
  if cron.at ~= cron.slot then return {'MOVED'} end
  if cron.number > 0 and cron.alone == 1 then bucket(cron.number) end
end
for n = 4, #ARGV, 2 do
  local i = {payload = ARGV[n + 1]}
  i.conflict, i.flags, i.priority, i.max, i.base, i.jitter, i.when_kind, i.when, i.window, i.deadline_kind, i.deadline,
    i.request, i.id = struct.unpack(SPEC, ARGV[n])
  if #ARGV[n] > SPEC_LEN then i.group = string.sub(ARGV[n], SPEC_LEN + 1) end
  items[#items + 1] = i
  ids[#ids + 1] = i.id
end
if #ids > 0 then
  for n, entry in ipairs(redis.call('HMGET', U, unpack(ids))) do
    taken[ids[n]] = entry
    if entry and string.sub(entry, 1, 1) ~= 'T' then bucket(tonumber(entry)) end
  end
  -- More than may be: those of which one is there already need no new number.
  bucket(seq + 1)
  bucket(seq + #ids)
end
if needs > 0 then return wanting() end

local function due_of(i)
  local due = i.when_kind == 0 and now or i.when_kind == 1 and now + i.when or i.when
  return math.min(math.max(due, 0), LATEST)
end

local function deadline_of(i)
  if i.deadline_kind == 0 then return 0 end
  return math.min(i.deadline_kind == 1 and now + i.deadline or math.max(i.deadline, 1), LATEST)
end

local function fill(j, i)
  j.flags, j.priority, j.max, j.base, j.jitter = i.flags, i.priority, i.max, i.base, i.jitter
  j.due, j.window, j.deadline, j.request = due_of(i), i.window, deadline_of(i), i.request
  j.state, j.attempts, j.finished, j.verdict, j.reason = 'P', 0, 0, '-', 0
end

local function answer(outcome, number, j, replayed)
  return struct.pack('>BBI6I6I6B', outcome, place(number, j), number, j.due, j.finished, replayed and 1 or 0)
end

-- What is written of new jobs goes in one command a key.
local records, keys_of_ids, readies, dues, fresh = {}, {}, {}, {}, {}

local function flush()
  for key, values in pairs(records) do redis.call('HSET', key, unpack(values)) end
  if #keys_of_ids > 0 then redis.call('HSET', U, unpack(keys_of_ids)) end
  if #readies > 0 then redis.call('ZADD', RDY, unpack(readies)) end
  if #dues > 0 then redis.call('ZADD', DUE, unpack(dues)) end
  records, keys_of_ids, readies, dues, fresh = {}, {}, {}, {}, {}
end

local function push(list, a, b)
  list[#list + 1] = a
  list[#list + 1] = b
end

local function create(i)
  seq = seq + 1
  local number, j = seq, {created = now, fence = 0, outcome = MADE, id = i.id, group = i.group}
  fill(j, i)
  -- One that is due at once keeps the moment of its acceptance, so that its turn is the order of acceptance.
  local key, at = bucket(number), field(number)
  local values = records[key]
  if not values then
    values = {}
    records[key] = values
  end
  push(values, at, packed(j))
  push(values, 'p' .. at, i.payload)
  push(keys_of_ids, i.id, int(number))
  fresh[i.id] = true
  if taken[i.id] and string.sub(taken[i.id], 1, 1) == 'T' then redis.call('ZREM', UX, i.id) end
  taken[i.id] = int(number)
  if i.group then
    enter(number, j)
  elseif j.due <= now then
    push(readies, j.priority, ready_member(number, j))
    ready_added = true
  else
    push(dues, int(j.due), due_member(number, j, false))
    if not earliest_added or j.due < earliest_added then earliest_added = j.due end
  end
  count('nc')
  emit(CREATED, number)
  local where = 3
  if not i.group or redis.call('HGET', GA, i.group) == int(number) then where = j.due <= now and 2 or 1
  elseif skip_delayed and j.due > now then where = 1 end
  return struct.pack('>BBI6I6I6B', MADE, where, number, j.due, 0, 0)
end

local function found(i, number, j)
  if i.request ~= NOBODY and j.request == i.request then return answer(j.outcome, number, j, true) end
  if is_final(j) and taken_until(j) <= now then return create(i) end
  if j.state == 'D' or j.state == 'C' or (j.state == 'X' and i.conflict ~= 2) then return answer(ENDED, number, j) end
  if j.state == 'L' or i.conflict < 2 then return answer(FOUND, number, j) end
  if j.state == 'X' then redis.call('ZREM', DEAD, struct.pack('>I6', number)) else withdraw(number, j) end
  if i.conflict == 2 then
    fill(j, i)
    j.outcome = REPLACED_
    redis.call('HSET', bucket(number), 'p' .. field(number), i.payload)
    redis.call('HDEL', bucket(number), 'r' .. field(number), 'e' .. field(number), 'g' .. field(number))
  else
    j.due, j.request, j.outcome = due_of(i), i.request, RESCHEDULED_
  end
  store(number, j)
  enter(number, j)
  emit(RESCHEDULED, number)
  return answer(j.outcome, number, j)
end

if cron and cron.alone == 1 and cron.number > 0 then
  local last = load(cron.number)
  if last and not is_final(last) then items = {} end
end
if ARGV[2] ~= '' then redis.call('HSETNX', H, 'nm', ARGV[2]) end
local reply = {'OK', int(now), ''}
for _, i in ipairs(items) do
  -- The second of one id in one call must find the first.
  if fresh[i.id] then flush() end
  local entry = taken[i.id]
  local number = entry and string.sub(entry, 1, 1) ~= 'T' and tonumber(entry)
  if number then
    -- A key whose job is not there cannot come about, and would block its id for ever: it counts for nothing.
    local j = load(number)
    reply[#reply + 1] = j and found(i, number, j) or create(i)
  else
    local until_, due, finished, state
    if entry then
      due, finished, state = struct.unpack('>I6I6B', entry, 2)
      until_ = tonumber(redis.call('ZSCORE', UX, i.id) or 0)
    end
    if entry and until_ > now then
      reply[#reply + 1] = struct.pack('>BBI6I6I6B', ENDED, state, 0, due, finished, 0)
    else
      reply[#reply + 1] = create(i)
    end
  end
end
flush()
if cron then
  if #reply > 3 then
    cron.last = cron.slot
    cron.number = select(3, struct.unpack('>BBI6', reply[4]))
  end
  redis.call('HSET', C, cron.id, struct.pack(CRON, cron.next, cron.last, cron.number) .. string.sub(cron.entry, 19))
  if cron.next > 0 then redis.call('ZADD', CN, int(cron.next), cron.id) else redis.call('ZREM', CN, cron.id) end
end
reply[3] = int(seq)
finish()
return reply
