-- Leases ready jobs, after `ripen.lua` has made due ones ready.
-- ARGV: buckets; most jobs; lease (ms); numbers (packed) that their cap has allowed; most candidates for a cap; what stands for
--   the request of LeaseJobs, or ''; what was settled before, where `settle.lua` stands before this
-- Reply: {'OK', outcomes, packed: now, ready left, first due, first lease end, not before, again, most attempts where a job says none;
--   buckets needed…, '|', leased: number, header, payload, progress…, '|', candidates for a cap: the same…}, {'NONE'} or {'NEED', …}.
--   'not before': when the limiter or a pause lets the next start, 0: nothing holds; 'again': 1 where what was looked at did not fill the
--   room, since some of it has expired: behind it there may be more. Where the room was filled, nobody has looked for what is ready or due
--   then: one is said to be ready, none to be due
local want, length, gated_most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local allowed = {}
for n = 1, #ARGV[4] / 6 do allowed[struct.unpack('>I6', ARGV[4], n * 6 - 5)] = true end
local leased, gated, not_before, again, filled = {}, {}, 0, 0, false

local function ends_with()
  -- Nobody needs to hear of what was ready for the first time, and is leased already.
  if ready_before == 0 and #leased > 0 and redis.call('ZCARD', RDY) == 0 then ready_before = nil end
  if #over > 0 then redis.call('ZREM', LSE, unpack(over)) end
  finish()
end

local function reply()
  local ready, due, lapses = 1, 0, 0
  if not filled then ready, due, lapses = redis.call('ZCARD', RDY), first(DUE), first(LSE) end
  local all = {'OK', outcomes, struct.pack('>I6I6I6I6I6BI2', now, ready, due, lapses, not_before, again, tonumber(head[7] or 3))}
  for n in pairs(need) do all[#all + 1] = n end
  for _, list in ipairs({leased, gated}) do
    all[#all + 1] = '|'
    for _, number in ipairs(list) do
      local its, n = sealed[number], #all
      all[n + 1], all[n + 2], all[n + 3], all[n + 4] = number, packed(loaded[number]), its[1], its[2]
    end
  end
  return all
end

-- The same request again: what it got, as far as it still has it.
local before = ARGV[6] ~= '' and redis.call('GET', RQ)
if before then
  for n = 1, #before, 13 do
    local number, its = struct.unpack('>I6I7', before, n)
    if bucket(number) then
      fetch({number}, true)
      local j = load(number)
      if j and j.state == 'L' and j.fence == its then leased[#leased + 1] = number end
    end
  end
  ends_with()
  return reply()
end

local paused = head[11]
if paused == '-1' or (paused and tonumber(paused) > now) then
  not_before = paused == '-1' and LATEST or tonumber(paused)
  ends_with()
  return reply()
end

if concurrency > 0 then want = math.min(want, concurrency - redis.call('ZCARD', LSE) + #over) end
local most, per, started = tonumber(head[4] or 0), tonumber(head[5] or 0), 0
-- The next start is when the one that is `most` starts back has left the interval.
local function hold()
  local oldest = redis.call('ZREVRANGE', LIM, most - 1, most - 1, 'WITHSCORES')[2]
  not_before = tonumber(oldest) + per + 1
end
if most > 0 then
  -- Starts that are older than the interval count no more.
  started = redis.call('ZCOUNT', LIM, '(' .. int(now - per - 1), '+inf')
  if started >= most then hold() end
  want = math.min(want, most - started)
end

if want > 0 then
  local gone, leases, starts = {}, {}, {}
  fence = math.max(fence, now_us)
  local candidates, numbers = redis.call('ZRANGE', RDY, 0, want + gated_most - 1), {}
  for n, member in ipairs(candidates) do
    local _, number = struct.unpack('>I6I6', member)
    if not bucket(number) then
      if needs >= 64 then break end
    elseif needs == 0 then
      numbers[n] = number
    end
    -- Behind one that is not known nothing is looked at: nobody overtakes.
  end
  for n, number in ipairs(numbers) do
    if #leased >= want and #gated == 0 then break end
    local member = candidates[n]
    -- In one command those that will do if all goes well, and one by one those behind.
    if n == 1 then fetch({unpack(numbers, 1, math.min(#numbers, want))}, true) elseif n > want then fetch({number}, true) end
    local j = load(number)
    if not j or j.state ~= 'P' then
      gone[#gone + 1] = member
    elseif j.deadline > 0 and j.deadline < now then
      gone[#gone + 1] = member
      final(number, j, 'X', 3)
      store(number, j)
    elseif flag(j, CAP) and not allowed[number] then
      -- It keeps a place for itself until its cap was asked: what is behind does not overtake it.
      if #gated >= gated_most then break end
      gated[#gated + 1] = number
    elseif #leased + #gated < want then
      gone[#gone + 1] = member
      fence = fence + 1
      j.state, j.fence, j.verdict, j.attempts = 'L', fence, '-', j.attempts + 1
      store(number, j)
      local m = #leases
      leases[m + 1], leases[m + 2] = int(now + length), struct.pack('>I6I7', number, fence)
      starts[m + 1], starts[m + 2] = int(now), struct.pack('>I7', fence)
      leased[#leased + 1] = number
      emit(LEASED, number)
    end
  end
  if #gone > 0 then redis.call('ZREM', RDY, unpack(gone)) end
  if #gone > #leased and #leased < want then again = 1 end
  filled = #leased >= tonumber(ARGV[2])
  if #leases > 0 then
    redis.call('ZADD', LSE, unpack(leases))
    if most > 0 then
      redis.call('ZADD', LIM, unpack(starts))
      if started + #leased >= most then hold() end
    end
    count('nl', #leases / 2)
    if ARGV[6] ~= '' then
      local mine = {}
      for n = 2, #leases, 2 do mine[#mine + 1] = leases[n] end
      redis.call('SET', RQ, table.concat(mine), 'PX', int(length + 60000))
    end
  end
end
if most > 0 then
  -- At most so many a call; the rest is not counted either. After the new ones have joined: no key is emptied and written again.
  local old = redis.call('ZCOUNT', LIM, '-inf', int(now - per - 1))
  if old > 0 then redis.call('ZREMRANGEBYRANK', LIM, 0, math.min(old, 500) - 1) end
end
ends_with()
return reply()
