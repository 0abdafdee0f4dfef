-- A session cookie passes only beside its HMAC, which binds it to the client's address; a response that sets the cookie sets its
-- HMAC too. Tokens are kept, at most so many a worker.
local ffi = require "ffi"
local base64 = ngx.encode_base64
local find, sub = string.find, string.sub

ffi.cdef [[
    const void *EVP_sha256(void);
    unsigned char *HMAC(const void *md, const void *key, int key_length, const char *data, size_t length,
                        unsigned char *digest, unsigned int *digest_length);
]]

local SESSION, TOKEN = "ASP.NET_SessionId", "ASP.NET_SessionId_HMAC"
local SESSION_VARIABLE, TOKEN_VARIABLE = "cookie_" .. SESSION, "cookie_" .. TOKEN
local KEY = "AzaZ5678901234567XYZ34567XYZ"
local MOST = 100000

local SHA256 = ffi.C.EVP_sha256()
local digest = ffi.new("unsigned char[32]")
local length = ffi.new("unsigned int[1]")
local cache, count = {}, 0

local function compute(message)
    ffi.C.HMAC(SHA256, KEY, #KEY, message, #message, digest, length)
    return base64(ffi.string(digest, 32))
end

local function keep(message, token)
    count = count + 1
    if count > MOST then
        cache, count = {}, 1
    end
    cache[message] = token
end

local rule = {}

-- The Cookie field as it is to go on.
function rule.verify()
    local var = ngx.var
    local session = var[SESSION_VARIABLE]
    if not session then
        return var.http_cookie
    end
    local offered = var[TOKEN_VARIABLE]
    local message = session .. ":" .. var.remote_addr
    local token = cache[message]
    if not token and offered then
        token = compute(message)
        if token == offered then
            keep(message, token)
        end
    end
    if token ~= offered or not token then
        return (ngx.re.gsub(var.http_cookie, [[(^|; ?)ASP\.NET_SessionId=[^;]*(; ?)?]], "$1", "jo"))
    end
    return var.http_cookie
end

local function session_of(field)
    if sub(field, 1, #SESSION + 1) == SESSION .. "=" then
        local stop = find(field, ";", #SESSION + 2, true)
        return sub(field, #SESSION + 2, stop and stop - 1)
    end
end

function rule.sign()
    local fields = ngx.header["Set-Cookie"]
    if not fields then
        return
    end
    if type(fields) == "string" then
        fields = { fields }
    end
    for i = 1, #fields do
        local session = session_of(fields[i])
        if session then
            local message = session .. ":" .. ngx.var.remote_addr
            local token = cache[message]
            if not token then
                token = compute(message)
                keep(message, token)
            end
            fields[#fields + 1] = TOKEN .. "=" .. token .. "; HttpOnly; Secure; Path=/"
            ngx.header["Set-Cookie"] = fields
            return
        end
    end
end

return rule
