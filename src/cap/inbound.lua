-- A recipient has written: its service window is open from now on for a while.
-- KEYS: inbound
-- ARGV: request (7 bytes), how long (ms)
-- Reply: OK until
local now, raw, marks, till = server_ms(), redis.call('GET', KEYS[1]), {}, 0
if raw then
  till = struct.unpack('>I6', raw)
  marks = marks_in(raw, 7, (#raw - 6) / 8)
  if found(marks, ARGV[1]) then return {'OK', int(till)} end
end
remember(marks, ARGV[1], 'I')
till = math.max(till, now + tonumber(ARGV[2]))
redis.call('SET', KEYS[1], struct.pack('>I6', till) .. table.concat(marks), 'PX', int(till - now + COLLECT))
return {'OK', int(till)}
