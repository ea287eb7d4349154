-- A recipient has written: its service window is open from now on for a while.
-- KEYS: inbound
-- ARGV: request (7 bytes), how long (ms)
-- Reply: OK until
local MARKS = 4
local now, raw, marks, till = server_ms(), redis.call('GET', KEYS[1]), {}, 0
if raw then
  till = struct.unpack('>I6', raw)
  for at = 7, #raw, 8 do marks[#marks + 1] = string.sub(raw, at, at + 7) end
  if found(marks, ARGV[1]) then return {'OK', int(till)} end
end
table.insert(marks, 1, ARGV[1] .. 'I')
marks[MARKS + 1] = nil
till = math.max(till, now + tonumber(ARGV[2]))
redis.call('SET', KEYS[1], struct.pack('>I6', till) .. table.concat(marks), 'PX', int(till - now + COLLECT))
return {'OK', int(till)}
