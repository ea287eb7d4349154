-- Whose turn it is: by time, and in a group.
local function add_due(number, j, detached)
  before_due()
  redis.call('ZADD', DUE, int(j.due), due_member(number, j, detached))
  if not earliest_added or j.due < earliest_added then earliest_added = j.due end
end

-- A job whose turn in its group it is, or that has none.
local function put(number, j)
  if j.due <= now then
    before_ready()
    redis.call('ZADD', RDY, j.priority, ready_member(number, j))
  else
    add_due(number, j, false)
  end
end

local function group_member(number, j)
  return j.group .. struct.pack('>I6I2I6', number, j.priority, j.due)
end

local function remove_member(number, j)
  redis.call('ZREMRANGEBYLEX', GRP, '[' .. j.group .. struct.pack('>I6', number),
    '(' .. j.group .. struct.pack('>I6', number + 1))
end

-- Takes a job out of its group for good; if it had the turn, the next has it.
local function leave(number, j)
  if not j.group then return end
  remove_member(number, j)
  if redis.call('HGET', GA, j.group) ~= int(number) then return end
  local next = redis.call('ZRANGEBYLEX', GRP, '[' .. j.group, '(' .. j.group .. string.rep('\255', 7), 'LIMIT', 0, 1)[1]
  if not next then
    redis.call('HDEL', GA, j.group)
    return
  end
  local successor, priority, due = struct.unpack('>I6I2I6', next, #j.group + 1)
  redis.call('HSET', GA, j.group, int(successor))
  put(successor, {priority = priority, due = due})
end

-- A pending job that is in no zset (any more) takes its place.
local function enter(number, j)
  if not j.group then
    put(number, j)
  elseif skip_delayed and j.due > now then
    -- It holds nobody: it joins the group when it is due.
    leave(number, j)
    add_due(number, j, true)
  else
    -- Added before what it was is removed: no key is emptied and written again.
    local member = group_member(number, j)
    local was = redis.call('ZRANGEBYLEX', GRP, '[' .. j.group .. struct.pack('>I6', number), '(' .. j.group .. struct.pack('>I6', number + 1))
    redis.call('ZADD', GRP, 0, member)
    for _, old in ipairs(was) do
      if old ~= member then redis.call('ZREM', GRP, old) end
    end
    local turn = redis.call('HGET', GA, j.group)
    if not turn then redis.call('HSET', GA, j.group, int(number)) end
    if not turn or turn == int(number) then put(number, j) end
  end
end

-- Takes a pending job out of the zsets of time, not out of its group.
local function withdraw(number, j)
  redis.call('ZREM', RDY, ready_member(number, j))
  redis.call('ZREM', DUE, due_member(number, j, false))
  if j.group then redis.call('ZREM', DUE, due_member(number, j, true)) end
end
