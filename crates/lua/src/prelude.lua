-- What scripts find in place when they start, made of what the host hands over. Nothing here is
-- reachable by a script but what is put into globals.
local host = ...
local format, unpack, type, error, rawget = string.format, table.unpack, type, error, rawget
local find, select, pairs, next, setmetatable = string.find, select, pairs, next, setmetatable

-- Gone without a word: a script that calls them is told that they are nil.
string.dump = nil
warn = nil

-- Gone with a sentence: scripts ask for these, and what they do then is decided by an error.
local function missing(name)
  return function()
    error(name .. " is not there: scripts run without files, programs and modules (admin-guide, job_submit.lua)", 2)
  end
end
local function closed(name, known)
  return setmetatable(known, {
    __index = function(_, key)
      return missing(name .. "." .. tostring(key))
    end,
    __metatable = "closed",
  })
end
local tostring = tostring
for _, name in pairs({ "load", "loadstring", "loadfile", "dofile", "require", "module" }) do
  _G[name] = missing(name)
end
os = closed("os", {
  time = os.time,
  date = os.date,
  clock = os.clock,
  difftime = os.difftime,
  getenv = function() return nil end,
})
io = closed("io", {})
package = { path = "", cpath = "", loaded = {}, preload = {} }

-- What Lua 5.1 had, for scripts that were written for it.
_G.unpack = table.unpack
table.getn = function(list) return #list end
table.maxn = function(list)
  local most = 0
  for key in next, list do
    if type(key) == "number" and key > most then most = key end
  end
  return most
end
math.pow = function(x, y) return x ^ y end
local log = math.log
math.log10 = function(x) return log(x, 10) end
string.gfind = string.gmatch

local slurm = host.constants
local function logger(level)
  return function(...) host.log(level, format(...)) end
end
slurm.log_error = logger("error")
slurm.log_info = logger("info")
for _, name in pairs({ "verbose", "debug", "debug2", "debug3", "debug4" }) do
  slurm["log_" .. name] = logger(name == "verbose" and "info" or "debug")
end
slurm.log = function(level, text)
  host.log(level >= 2 and "debug" or "info", tostring(text))
end
slurm.error = function(text) host.log("error", tostring(text)) end
slurm.user_msg = function(text) host.tell(tostring(text)) end
slurm.log_user = function(...) host.tell(format(...)) end
slurm.time_str2mins = host.minutes
slurm.get_qos_priority = function(name)
  local priority, why = host.qos_priority(name)
  if why then error("slurm.get_qos_priority: " .. why, 2) end
  return priority
end
local nowhere = {
  __index = function() error("slurm.jobs and slurm.reservations are not there: a script sees the request and the partitions", 2) end,
  __pairs = function() error("slurm.jobs and slurm.reservations are not there: a script sees the request and the partitions", 2) end,
  __metatable = "closed",
}
slurm.jobs = setmetatable({}, nowhere)
slurm.reservations = setmetatable({}, nowhere)
-- A number that is not known must not become nil, which would let the job pass.
setmetatable(slurm, {
  __index = function(_, key)
    if type(key) == "string" and find(key, "^ESLURM") then
      error("slurm." .. key .. " is not known here: return slurm.ERROR, or the number", 2)
    end
  end,
})
_G.slurm = slurm
print = function(...)
  local words = {}
  for at = 1, select("#", ...) do words[at] = tostring((select(at, ...))) end
  host.log("info", table.concat(words, "\t"))
end

-- What is not told of a partition must not become nil, which would open it to everybody.
local function left_out(partition, names)
  return setmetatable(partition, {
    __index = function(_, key)
      if names[key] then
        error(format("part_list['%s'].%s is too long to be told: what it says is not known here", partition.name, key), 2)
      end
    end,
    __metatable = "closed",
  })
end

-- The request, and its variables.
local function description(get, set, variable, set_variable)
  local environment = setmetatable({}, {
    __index = function(_, name) return variable(name) end,
    __newindex = function(_, name, value) set_variable(name, value) end,
  })
  return setmetatable({}, {
    __index = function(_, name)
      if name == "environment" then return environment end
      return get(name)
    end,
    __newindex = function(_, name, value) set(name, value) end,
  })
end

return description, left_out
