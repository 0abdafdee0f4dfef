// A session cookie passes only beside its HMAC, which binds it to the client's address; a response that sets the cookie sets its
// HMAC too. Tokens are kept in shared memory, at most so many: contexts come and go with requests, so that nothing else lasts.
import crypto from 'crypto';

const SESSION = 'ASP.NET_SessionId';
const TOKEN = 'ASP.NET_SessionId_HMAC';
const KEY = 'AzaZ5678901234567XYZ34567XYZ';
const MOST = 100000;

function compute(message) {
    return crypto.createHmac('sha256', KEY).update(message).digest('base64');
}

function keep(message, token) {
    const shared = ngx.shared;
    if (shared.counts.incr('count', 1, 0) > MOST) {
        shared.tokens.clear();
        shared.counts.set('count', 1);
    }
    shared.tokens.set(message, token);
}

// The Cookie field as it is to go on.
function verify(r) {
    const cookie = r.headersIn.Cookie;
    const session = r.variables['cookie_' + SESSION];
    if (session === undefined) {
        return cookie;
    }
    const offered = r.variables['cookie_' + TOKEN];
    const message = session + ':' + r.remoteAddress;
    let token = ngx.shared.tokens.get(message);
    if (token === undefined && offered !== undefined) {
        token = compute(message);
        if (token === offered) {
            keep(message, token);
        }
    }
    if (token !== undefined && token === offered) {
        return cookie;
    }
    return cookie.replace(/(^|; ?)ASP\.NET_SessionId=[^;]*(; ?)?/g, '$1');
}

function sign(r) {
    const fields = r.headersOut['Set-Cookie'];
    if (fields === undefined) {
        return;
    }
    for (const field of fields) {
        if (!field.startsWith(SESSION + '=')) {
            continue;
        }
        const end = field.indexOf(';');
        const session = field.slice(SESSION.length + 1, end < 0 ? undefined : end);
        const message = session + ':' + r.remoteAddress;
        let token = ngx.shared.tokens.get(message);
        if (token === undefined) {
            token = compute(message);
            keep(message, token);
        }
        fields.push(`${TOKEN}=${token}; HttpOnly; Secure; Path=/`);
        r.headersOut['Set-Cookie'] = fields;
        return;
    }
}

export default { verify, sign };
