-- What is to be settled.
-- ARGV: from the 7th on two of each: packed (number, fence, verdict, wait + 1 or 0, chance in 1/65536), sealed result or error
local items = {}
for n = 7, #ARGV, 2 do
  local number, its, verdict, wait, chance = struct.unpack('>I6I7c1I6I2', ARGV[n])
  items[#items + 1] = {number = number, fence = its, verdict = verdict, wait = wait, chance = chance, sealed = ARGV[n + 1]}
  bucket(number)
end
if needs > 0 then return wanting() end
if not head[1] then return {'NONE'} end
