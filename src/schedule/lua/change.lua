-- Cancels a job, or gives it another due time.
-- ARGV: buckets; 'cancel' or 'due'; blinded id; kind of due time (0 now, 1 from now, 2 an instant, 3 now if not before); ms
-- Reply: {'OK', outcome, place, number, due, finished}; outcome of a cancel: 1 cancelled, 2 asked for, 3 finished, 4 none; of a due time: 2 it
--   is leased, 4 done, 5 finished, 6 none; or {'NONE'}, {'NEED', …}
if not head[1] then return {'NONE'} end
local cancel = ARGV[2] == 'cancel'
local number, left = find(ARGV[3])
if left then
  local due, finished, state = struct.unpack('>I6I6B', left, 2)
  return {'OK', cancel and (state == 7 and '1' or '3') or '5', int(state), '0', int(due), int(finished)}
end
if number and not bucket(number) then return wanting() end
local j = number and load(number)
if not j then return {'OK', cancel and '4' or '6', '0', '0', '0', '0'} end

local function answer(outcome)
  return {'OK', outcome, int(place(number, j)), int(number), int(j.due), int(j.finished)}
end

if is_final(j) then
  if cancel then return answer(j.state == 'C' and '1' or '3') end
  return answer('5')
end
if j.state == 'L' then
  if not cancel then return answer('2') end
  if not flag(j, CANCEL) then ask_to_cancel(number, j) end
  return answer('2')
end
withdraw(number, j)
if cancel then
  final(number, j, 'C', 0)
  store(number, j)
  finish()
  return answer('1')
end
local kind, ms = ARGV[4], tonumber(ARGV[5])
if kind == '3' then ms = math.min(j.due, now) end
j.due = math.min(kind == '0' and now or kind == '1' and now + ms or ms, LATEST)
store(number, j)
enter(number, j)
emit(RESCHEDULED, number)
finish()
return answer('4')
