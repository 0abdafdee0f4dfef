//! What several of the tests use.

use headgate_tests::{Headgate, Origin};
use std::net::{SocketAddr, TcpStream};
use tungstenite::handshake::client::Response;
use tungstenite::{Message, WebSocket};

/// A Headgate that passes all of port 8080 to an origin.
pub(crate) fn in_front_of(origin: &Origin) -> Headgate {
    web(origin.address(), "")
}

/// The same, with more said of the virtual.
pub(crate) fn web(member: SocketAddr, more: &str) -> Headgate {
    Headgate::start(&config(member, more, ""))
}

/// A configuration with one virtual `web` on port 8080 and one pool `app`.
pub(crate) fn config(member: SocketAddr, of_virtual: &str, of_pool: &str) -> String {
    format!(
        "pools:\n  app: {{members: ['{member}'], {of_pool}}}\n\
         virtuals:\n  web: {{listen: '$IP:8080', pool: app, {of_virtual}}}\n"
    )
}

/// A response of status 200 with a body.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A server of WebSockets that sends back what it gets.
pub(crate) fn websocket_echo() -> Origin {
    Origin::scripted(|wire, _| {
        let Ok(mut socket) = tungstenite::accept(wire.into_stream()) else {
            return;
        };
        let _ = socket.get_mut().set_read_timeout(None);
        while let Ok(message) = socket.read() {
            if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
                return;
            }
        }
    })
}

/// Opens a WebSocket.
pub(crate) fn websocket(to: SocketAddr) -> (WebSocket<TcpStream>, Response) {
    let stream = TcpStream::connect(to).unwrap();
    stream
        .set_read_timeout(Some(headgate_tests::PATIENCE))
        .unwrap();
    tungstenite::client(format!("ws://{to}/chat"), stream).unwrap()
}

/// Sends a text over a WebSocket and has it back.
pub(crate) fn echo(socket: &mut WebSocket<TcpStream>, text: &str) {
    socket.send(Message::text(text)).unwrap();
    assert_eq!(socket.read().unwrap().into_text().unwrap(), text);
}

/// Rules of a configuration, in place.
pub(crate) fn rules(list: &[(&str, &str)]) -> String {
    let mut out = "rules:\n".to_owned();
    for (name, text) in list {
        out.push_str(&format!("  {name}:\n    text: |\n"));
        for line in text.lines() {
            out.push_str(&format!("      {line}\n"));
        }
    }
    out
}

/// A configuration with one virtual `web` on port 8080 that has one rule `r`, and one pool `app`.
pub(crate) fn ruled(rule: &str, member: SocketAddr) -> String {
    rules(&[("r", rule)]) + &config(member, "rules: [r]", "")
}

/// An origin that answers with the head and body that it got.
pub(crate) fn mirror() -> Origin {
    Origin::answering(|request| {
        let fields = request.fields.iter().map(|(n, v)| format!("{n}: {v}\n"));
        let fields: String = fields.collect();
        ok(&format!("{}\n{fields}\n{}", request.line, request.text()))
    })
}
