-- Removes jobs of one state, some at a time.
-- ARGV: buckets; state as JobState; most; where in the list to begin (WAITING, LEASED, DONE, CANCELLED), '' at the front
-- Reply: {'OK', removed, asked to cancel, where to go on or ''} or {'NONE'}, {'NEED', …}
if not head[1] then return {'NONE'} end
local state, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local found, go_on = {}, ''
-- The list whose members are those found, and how many of them are of another state: done and cancelled jobs share one.
local zset, from, kept, whole = nil, 0, 0, false
if state == 3 then
  local members = redis.call('ZRANGEBYLEX', GRP, ARGV[4] == '' and '-' or '(' .. ARGV[4], '+', 'LIMIT', 0, most)
  for _, member in ipairs(members) do
    local number = struct.unpack('>I6', member, #member - 13)
    if redis.call('HGET', GA, string.sub(member, 1, #member - 14)) ~= int(number) then found[#found + 1] = number end
  end
  if #members >= most then go_on = members[#members] end
elseif state == 4 then
  -- Goes on behind the last that was seen: those that were settled meanwhile make nobody be left out.
  local from = 0
  if ARGV[4] ~= '' then from = seek(LSE, false, struct.unpack('>I6', ARGV[4]), string.sub(ARGV[4], 7)) end
  local members = redis.call('ZRANGE', LSE, from, from + most - 1, 'WITHSCORES')
  for n = 1, #members, 2 do found[#found + 1] = struct.unpack('>I6', members[n]) end
  if #members >= 2 * most then go_on = struct.pack('>I6', tonumber(members[#members])) .. members[#members - 1] end
else
  zset = state == 1 and DUE or state == 2 and RDY or state == 6 and DEAD or DONE
  from = tonumber(ARGV[4] ~= '' and ARGV[4] or 0)
  local members = redis.call('ZRANGE', zset, from, from + most - 1)
  for _, member in ipairs(members) do
    found[#found + 1] = state == 2 and select(2, struct.unpack('>I6I6', member)) or state == 1 and select(2, struct.unpack('>I2I6', member))
      or (struct.unpack('>I6', member))
  end
  whole = #members >= most
end
for _, number in ipairs(found) do bucket(number) end
if needs > 0 then return wanting() end
local removed, asked = 0, 0
local only = state == 5 and 'D' or state == 7 and 'C'
for _, number in ipairs(found) do
  local j = load(number)
  if j and j.state == 'L' then
    if state == 4 and not flag(j, CANCEL) then
      ask_to_cancel(number, j)
      asked = asked + 1
    end
  elseif j and only and j.state ~= only then
    kept = kept + 1
  elseif j then
    if j.state == 'P' then
      withdraw(number, j)
      leave(number, j)
      j.state, j.finished = 'C', now
      count('nk')
      emit(CANCELLED, number)
    else
      redis.call('ZREM', DONE, struct.pack('>I6', number))
      redis.call('ZREM', DEAD, struct.pack('>I6', number))
      if not flag(j, HOLD) then j.window, j.finished, j.due, j.flags = 0, 0, 0, 0 end
    end
    forget(number, j)
    removed = removed + 1
  elseif zset then
    kept = kept + 1
  end
end
if whole then go_on = int(from + kept) end
finish()
return {'OK', int(removed), int(asked), go_on}
