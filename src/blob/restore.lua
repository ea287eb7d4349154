-- Brings an archive back with all its generations; a blob that is there becomes an archive if that is allowed.
-- KEYS: index, head of the session
-- ARGV: incarnation ('' = the newest), replace ('1'), the session's fence ('' = none), time to keep (ms), most archives,
--       time for readers (ms)
-- Reply: OK oldest_dropped | NOT_FOUND | WRONG_STATE | HELD | FENCED why
local b = redis.call('HMGET', index, 'i', 'cur', 'al', 't')
local refusal = session(KEYS[2])
if not b[1] then return {'NOT_FOUND'} end
-- Sent again after a lost answer.
if ARGV[1] ~= '' and ARGV[1] == b[1] then return {'OK', '0'} end
local all, list, now = generations(), archives(b[3]), clock(b[4])
local wanted = ARGV[1] ~= '' and ARGV[1] or list[#list] or ''
local packed = redis.call('HGET', index, 'a:' .. wanted)
if not packed then return {'NOT_FOUND'} end
local refused = refusal(ARGV[3], now)
if refused then return refused end
if b[1] ~= '0' and ARGV[2] ~= '1' then return {'WRONG_STATE'} end
end_uploads(all)
if b[1] ~= '0' then archive_live(b[1], b[2], all, list, now, tonumber(ARGV[4])) end
local _, _, current = struct.unpack(ARCHIVE, packed)
drop_archive(wanted, all, list, 'K', 0)
local dropped = trim_archives(all, list, tonumber(ARGV[5]), wanted, now + tonumber(ARGV[6]))
redis.call('HSET', index, 'i', wanted, 'cur', int(current), 'al', table.concat(list, ','), 't', int(now))
return {'OK', dropped and '1' or '0'}
