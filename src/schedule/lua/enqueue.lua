-- What `add.lua` has begun, where some are there already, are in a group, or are a cron's.
join = enter

local function answer(outcome, number, j, replayed)
  return struct.pack('>BBI6I6I6B', outcome, place(number, j), number, j.due, j.finished, replayed and 1 or 0)
end

local function found(i, number, j)
  if i.request ~= NOBODY and j.request == i.request then return answer(j.outcome, number, j, true) end
  if is_final(j) and taken_until(j) <= now then return create(i) end
  if j.state == 'D' or j.state == 'C' or (j.state == 'X' and i.conflict ~= 2) then return answer(ENDED, number, j) end
  if j.state == 'L' or i.conflict < 2 then return answer(FOUND, number, j) end
  if j.state == 'X' then redis.call('ZREM', DEAD, struct.pack('>I6', number)) else withdraw(number, j) end
  if i.conflict == 2 then
    for name, value in pairs(pending(i, j.created, j.fence, REPLACED_, j.group)) do j[name] = value end
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
reply[3] = seq
finish()
return reply
