-- Adds jobs, or finds those of their ids.
-- ARGV: buckets; sealed name of the queue, or '' where it must be there; the cron that fires, or '' (packed: blinded id, the slot
--   that it must be at, the next one or 0, 1 = not while its last job is not final); then two of each item: packed spec, sealed payload
-- Reply: {'OK', now, seq, packed per item: outcome, place, number, due, finished, replayed}. Nothing is written with
--   {'NEED', seq, buckets…}, {'NONE'} (no queue) and {'MOVED'} (the cron's slot is another by now, or it is gone)
if ARGV[2] == '' and not head[1] then return {'NONE'} end
-- Ingest and crons have no request id: there the second time is told as such.
local NOBODY = string.rep('\0', 8)
local MADE, FOUND, REPLACED_, RESCHEDULED_, ENDED = 1, 2, 3, 4, 5
local items, ids, taken = {}, {}, {}
-- Puts a job of a group in its place.
local join
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
  local conflict, flags, priority, max, base, jitter, when_kind, when, window, deadline_kind, deadline, request, id =
    struct.unpack(SPEC, ARGV[n])
  -- With all its fields at once: a table that grows is made anew again and again.
  items[#items + 1] = {conflict = conflict, flags = flags, priority = priority, max = max, base = base, jitter = jitter,
    when_kind = when_kind, when = when, window = window, deadline_kind = deadline_kind, deadline = deadline, request = request,
    id = id, payload = ARGV[n + 1], group = #ARGV[n] > SPEC_LEN and string.sub(ARGV[n], SPEC_LEN + 1) or nil}
  ids[#ids + 1] = id
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

-- A job that is to be worked on, as `i` wants it.
local function pending(i, created, its_fence, outcome, group)
  return {state = 'P', flags = i.flags, priority = i.priority, attempts = 0, max = i.max, base = i.base, jitter = i.jitter,
    due = due_of(i), created = created, finished = 0, fence = its_fence, verdict = '-', reason = 0, window = i.window,
    deadline = deadline_of(i), request = i.request, outcome = outcome, id = i.id, group = group}
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
  local number, j = seq, pending(i, now, 0, MADE, i.group)
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
    join(number, j)
  elseif j.due <= now then
    before_ready()
    push(readies, j.priority, ready_member(number, j))
  else
    before_due()
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

-- Most calls add jobs that are new, each with an id of its own, and in no group: they need nothing of what follows.
local plain, seen = not cron, {}
for _, i in ipairs(items) do
  if i.group or taken[i.id] or seen[i.id] then plain = false end
  seen[i.id] = true
end
if ARGV[2] ~= '' then redis.call('HSETNX', H, 'nm', ARGV[2]) end
local reply = {'OK', now, ''}
if plain then
  for _, i in ipairs(items) do reply[#reply + 1] = create(i) end
  flush()
  reply[3] = seq
  finish()
  return reply
end
