//! An exchange that is over: counted, and logged where that is wanted.

use super::facts::Facts;
use crate::access::Record;
use crate::client::Client;
use crate::counters::add;
use crate::worker::Worker;
use wire::h1::{Known, RequestHead, Version};

/// Keeps the texts that the log will want, if it will.
pub(super) fn note_text(facts: &mut Facts, head: &RequestHead, buf: &[u8]) {
    let Some(logged) = &mut facts.logged else {
        return;
    };
    logged.method = head.method_span.of(buf).to_vec();
    logged.target = head.target.of(buf).to_vec();
    logged.host = head.authority.of(buf).to_vec();
    logged.version = head.version;
    let field = |known| head.get_known(buf, known).unwrap_or(b"").to_vec();
    logged.user_agent = field(Known::UserAgent);
    logged.referer = field(Known::Referer);
}

/// Counts an exchange that is over, and logs it.
pub(super) fn report(worker: &Worker, client: &Client, facts: &Facts) {
    let cells = client.service.state.counters.of(worker.index);
    match facts.status / 100 {
        1 => add(&cells.responses_1xx, 1),
        2 => add(&cells.responses_2xx, 1),
        3 => add(&cells.responses_3xx, 1),
        4 => add(&cells.responses_4xx, 1),
        5 => add(&cells.responses_5xx, 1),
        _ => {}
    }
    add(&cells.bytes_in, facts.bytes_in);
    add(&cells.bytes_out, facts.bytes_out);
    let (Some(log), Some(logged)) = (&client.service.log, &facts.logged) else {
        return;
    };
    if !log.wants(worker.random(), facts.ending.is_own_error()) {
        return;
    }
    let member = facts.member.as_ref().map(|m| &**m.name());
    let micros = |d: std::time::Duration| d.as_micros() as u64;
    client.channel.with(|stream| {
        let tls = stream.info();
        log.write(&Record {
            time: logged.at,
            virtual_name: client.service.name.as_str(),
            client: facts.client(client.peer),
            local: client.local,
            protocol: if tls.is_some() { "https" } else { "http" },
            method: &logged.method,
            target: &logged.target,
            host: &logged.host,
            version: match logged.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            status: facts.status,
            bytes_in: facts.bytes_in + facts.relayed.0,
            bytes_out: facts.bytes_out + facts.relayed.1,
            pool: facts.pool.as_deref(),
            member,
            attempts: facts.attempts,
            request_id: &facts.request_id,
            tls: tls.as_ref(),
            user_agent: &logged.user_agent,
            referer: &logged.referer,
            request_us: micros(logged.request),
            queue_us: micros(logged.queue),
            connect_us: micros(logged.connect),
            response_us: micros(logged.response),
            total_us: micros(logged.begin.elapsed()),
            ending: facts.ending,
        });
    });
}
