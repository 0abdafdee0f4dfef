-- A session cookie passes only beside its HMAC, which binds it to the client's address; a response that sets the cookie sets its
-- HMAC too. Tokens are kept, at most so many a thread.
local SESSION, TOKEN = "ASP.NET_SessionId", "ASP.NET_SessionId_HMAC"
local KEY = "QXphWjU2Nzg5MDEyMzQ1NjdYWVozNDU2N1hZWg==" -- base64, as the converter wants it
local MOST = 100000

local cache, count = {}, 0

local function compute(txn, message)
    return txn.c:base64(txn.c:hmac(message, "sha256", KEY))
end

local function keep(message, token)
    count = count + 1
    if count > MOST then
        cache, count = {}, 1
    end
    cache[message] = token
end

core.register_action("verify", { "http-req" }, function(txn)
    local fetch = txn.sf
    local offered = fetch:req_cook(TOKEN)
    local message = fetch:req_cook(SESSION) .. ":" .. fetch:src()
    local token = cache[message]
    if not token and offered ~= "" then
        token = compute(txn, message)
        if token == offered then
            keep(message, token)
        end
    end
    if token ~= offered then
        txn.http:req_rep_header("cookie", "(^|.*; ?)ASP\\.NET_SessionId=[^;]*(; ?)?(.*)", "\\1\\3")
    end
end)

core.register_action("sign", { "http-res" }, function(txn)
    local fetch = txn.sf
    local message = fetch:res_cook(SESSION) .. ":" .. fetch:src()
    local token = cache[message]
    if not token then
        token = compute(txn, message)
        keep(message, token)
    end
    txn.http:res_add_header("set-cookie", TOKEN .. "=" .. token .. "; HttpOnly; Secure; Path=/")
end)
