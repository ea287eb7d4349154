-- Soft delete: the live incarnation becomes an archive, and uploads in progress end.
-- KEYS: index, head of the session
-- ARGV: incarnation ('' = whatever is there), the session's fence ('' = none), time to keep (ms), most archives, time for readers (ms)
-- Reply: OK incarnation oldest_dropped | NONE | HELD | FENCED why
local b = redis.call('HMGET', index, 'i', 'cur', 'al', 't')
local refusal = session(KEYS[2])
if not b[1] then return {'NONE'} end
-- Sent again after a lost answer.
if ARGV[1] ~= '' and redis.call('HEXISTS', index, 'a:' .. ARGV[1]) == 1 then return {'OK', ARGV[1], '0'} end
local all, list, now = generations(), archives(b[3]), clock(b[4])
local refused = refusal(ARGV[2], now)
if refused then return refused end
if ARGV[1] ~= '' and ARGV[1] ~= b[1] then return {'NONE'} end
end_uploads(all)
if b[1] == '0' then return {'NONE'} end
archive_live(b[1], b[2], all, list, now, tonumber(ARGV[3]))
local dropped = trim_archives(all, list, tonumber(ARGV[4]), '', now + tonumber(ARGV[5]))
redis.call('HSET', index, 'i', '0', 'cur', '0', 'al', table.concat(list, ','), 't', int(now))
return {'OK', b[1], dropped and '1' or '0'}
