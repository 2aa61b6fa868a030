-- Asks Tidegate about each request, for deploy/haproxy/haproxy.cfg. Needs HAProxy 2.6 or later.
--
-- `http-request lua.tidegate` answers a refusal itself, with Tidegate's status, headers and body.
-- Of a request that may pass it leaves what the response should say in txn.tidegate_*; when Tidegate
-- did not answer, in txn.tidegate_down. What Tidegate cannot read, such as too many headers, is
-- refused as well: otherwise whoever sends that would get past every limit.

local address = os.getenv("TIDEGATE") or "127.0.0.1:8080"
-- For as long as `wait` a `share` or a `leaky-queue` may hold a request back. Tidegate refuses what
-- would wait for longer before the timeout is over: after that, requests pass. Raise both together.
local wait = "2s"
local timeout_ms = 5000
-- More headers than these are refused: HAProxy's client ends the whole process when it is to send
-- more than 100.
local headers_max = 80

-- Headers of an answer that clients are told, and where they are kept.
local told = {
  ["ratelimit"] = "txn.tidegate_ratelimit",
  ["ratelimit-policy"] = "txn.tidegate_ratelimit_policy",
  ["x-ratelimit-limit"] = "txn.tidegate_limit",
  ["x-ratelimit-remaining"] = "txn.tidegate_remaining",
  ["x-ratelimit-reset"] = "txn.tidegate_reset",
}

-- Headers of a refusal that clients are told besides.
local passed_on = { ["content-type"] = true, ["retry-after"] = true, ["www-authenticate"] = true }

-- What is about the client's connection or body, or is ours to say.
local left_out = {
  ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["forwarded"] = true,
  ["host"] = true, ["keep-alive"] = true, ["te"] = true, ["trailer"] = true,
  ["transfer-encoding"] = true, ["upgrade"] = true, ["x-forwarded-for"] = true,
  ["x-original-content-length"] = true, ["x-original-host"] = true,
  ["x-original-method"] = true, ["x-original-uri"] = true,
  ["x-tidegate-token"] = true, ["x-tidegate-wait"] = true,
}

-- How long the body is, for rules that count bytes: nobody knows of one that comes in pieces. Over
-- HTTP/2, which `bind` takes without being told, one without a length may come in pieces or not be
-- there: then nothing is said, and a GET or HEAD counts as one without a body.
local function length(txn)
  if (txn.f:req_hdr("transfer-encoding") or "") ~= "" then return "unknown" end
  local said = txn.f:req_hdr("content-length")
  if said then return said end
  return txn.f:req_ver():sub(1, 2) == "1." and "0" or ""
end

-- The headers of the question; nothing if the request has too many.
local function question(txn)
  local headers, count = {}, 0
  for name, values in pairs(txn.http:req_get_headers()) do
    if not left_out[name] then
      -- HAProxy counts values from 0, and the client of it from 1.
      headers[name] = {}
      for at = 0, #values do
        table.insert(headers[name], values[at])
        count = count + 1
      end
    end
  end
  if headers_max < count then return nil end
  headers["host"] = { address }
  headers["x-original-method"] = { txn.f:method() }
  headers["x-original-uri"] = { txn.f:pathq() or "*" }
  headers["x-original-host"] = { txn.f:req_hdr("host") or "" }
  headers["x-original-content-length"] = { length(txn) }
  headers["x-forwarded-for"] = { txn.f:src() }
  headers["x-tidegate-wait"] = { wait }
  -- If Tidegate asks for a token: headers["x-tidegate-token"] = { "TOKEN" }
  return headers
end

local function refuse(txn, answer)
  local reply = txn:reply { status = answer.status, body = answer.body }
  for name, values in pairs(answer.headers) do
    if told[name] or passed_on[name] then
      reply:add_header(name, values[0])
    end
  end
  txn:done(reply)
end

-- Too much, blocked, not to be read, or no turn in a share: that 503 says when to come again, unlike
-- HAProxy's own.
local function is_refusal(answer)
  return (answer.status >= 400 and answer.status < 500)
    or (answer.status == 503 and answer.headers["retry-after"] ~= nil)
end

-- Nobody answered: HAProxy says that itself, by one of these.
local function is_down(answer)
  return not answer or answer.status == 0
    or answer.status == 502 or answer.status == 503 or answer.status == 504
end

core.register_action("tidegate", { "http-req" }, function(txn)
  -- HAProxy goes on with a request for which a script has failed.
  local is_asked, headers = pcall(question, txn)
  if not is_asked or not headers then
    txn:done(txn:reply { status = is_asked and 431 or 400 })
    return
  end
  local answer = core.httpclient():get {
    url = "http://" .. address .. "/v1/auth-request",
    headers = headers,
    timeout = timeout_ms,
  }
  if answer and is_refusal(answer) then
    refuse(txn, answer)
  elseif answer and answer.status == 200 then
    for name, variable in pairs(told) do
      local values = answer.headers[name]
      if values then txn:set_var(variable, values[0]) end
    end
  elseif is_down(answer) then
    txn:set_var("txn.tidegate_down", true)
  else
    -- It answered, and not with a decision: no request may pass by that.
    txn:done(txn:reply { status = 500 })
  end
end, 0)
