-- Settles leases.
-- Outcomes, one letter each: 1 done, 2 done before, 3 lost, 4 no such job
-- Verdicts: A done, R failed, again, F failed for good, L given back; P is none: how far it is
if #items > 1 then
  local numbers = {}
  for n, i in ipairs(items) do numbers[n] = i.number end
  fetch(numbers)
end

local function keep(i, what)
  if i.sealed ~= '' then redis.call('HSET', bucket(i.number), what .. field(i.number), i.sealed) end
end

local function settle(i)
  local j = load(i.number)
  if not j then return 4 end
  if j.fence ~= i.fence then return 3 end
  if i.verdict == 'P' then
    if j.state ~= 'L' then return 3 end
    keep(i, 'g')
    emit(PROGRESS, i.number)
    return 1
  end
  if j.state ~= 'L' then return (j.verdict == 'E' or j.verdict == '-') and 3 or 2 end
  over[#over + 1] = struct.pack('>I6I7', i.number, i.fence)
  freed = true
  j.verdict = i.verdict
  clear_flag(j, LOST)
  if i.verdict == 'A' then
    keep(i, 'r')
    final(i.number, j, 'D', 0)
  else
    keep(i, 'e')
    if i.verdict == 'L' then j.attempts = math.max(j.attempts - 1, 0) end
    if flag(j, CANCEL) then
      final(i.number, j, 'C', 0)
    elseif i.verdict == 'F' then
      final(i.number, j, 'X', 2)
    elseif i.verdict == 'R' and j.attempts >= attempts_most(j) then
      final(i.number, j, 'X', 1)
    else
      j.state = 'P'
      if i.wait > 0 then
        j.due = math.min(now + i.wait - 1, LATEST)
      elseif i.verdict == 'R' then
        j.due = math.min(now + backoff(j, j.attempts, i.chance / 65536), LATEST)
      end
      enter(i.number, j)
      count(i.verdict == 'R' and 'nr' or 'nb')
      emit(i.verdict == 'R' and RETRY or RELEASED, i.number)
    end
  end
  store(i.number, j)
  return 1
end

local told = {}
for n, i in ipairs(items) do told[n] = settle(i) end
outcomes = table.concat(told)
