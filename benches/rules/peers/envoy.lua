-- A session cookie passes only beside its HMAC, which binds it to the client's address; a response that sets the cookie sets its
-- HMAC too. Tokens are kept, at most so many a worker. The filter offers no HMAC: OpenSSL's is called.
local ffi = require "ffi"
local find, sub = string.find, string.sub

ffi.cdef [[
    const void *EVP_sha256(void);
    unsigned char *HMAC(const void *md, const void *key, int key_length, const char *data, size_t length,
                        unsigned char *digest, unsigned int *digest_length);
]]

local SESSION, TOKEN = "ASP.NET_SessionId=", "ASP.NET_SessionId_HMAC="
local KEY = "AzaZ5678901234567XYZ34567XYZ"
local MOST = 100000

local crypto = ffi.load("libcrypto.so.3")
local SHA256 = crypto.EVP_sha256()
local digest = ffi.new("unsigned char[32]")
local length = ffi.new("unsigned int[1]")
local cache, count = {}, 0

local function compute(handle, message)
    crypto.HMAC(SHA256, KEY, #KEY, message, #message, digest, length)
    return handle:base64Escape(ffi.string(digest, 32))
end

local function keep(message, token)
    count = count + 1
    if count > MOST then
        cache, count = {}, 1
    end
    cache[message] = token
end

local function message_of(handle, session)
    local address = handle:streamInfo():downstreamDirectRemoteAddress()
    return session .. ":" .. sub(address, 1, find(address, ":", 1, true) - 1)
end

-- The value that stands behind `name` in a list of cookies, and where it begins and ends.
local function value(cookies, name)
    local from, to = find(cookies, name, 1, true)
    if from then
        local stop = find(cookies, ";", to, true) or #cookies + 1
        return sub(cookies, to + 1, stop - 1), from, stop
    end
end

function envoy_on_request(handle)
    local headers = handle:headers()
    local cookies = headers:get("cookie")
    if not cookies then
        return
    end
    local session, from, stop = value(cookies, SESSION)
    if not session then
        return
    end
    local offered = value(cookies, TOKEN)
    local message = message_of(handle, session)
    local token = cache[message]
    if not token and offered then
        token = compute(handle, message)
        if token == offered then
            keep(message, token)
        end
    end
    if token ~= offered or not token then
        local _, rest = find(cookies, "^; ?", stop)
        headers:replace("cookie", sub(cookies, 1, from - 1) .. sub(cookies, (rest or stop) + 1))
    end
end

function envoy_on_response(handle)
    local headers = handle:headers()
    for i = 0, headers:getNumValues("set-cookie") - 1 do
        local field = headers:getAtIndex("set-cookie", i)
        if sub(field, 1, #SESSION) == SESSION then
            local stop = find(field, ";", #SESSION, true)
            local message = message_of(handle, sub(field, #SESSION + 1, stop and stop - 1))
            local token = cache[message]
            if not token then
                token = compute(handle, message)
                keep(message, token)
            end
            headers:add("set-cookie", TOKEN .. token .. "; HttpOnly; Secure; Path=/")
            return
        end
    end
end
