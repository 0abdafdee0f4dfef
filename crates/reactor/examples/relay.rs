//! A bare HTTP/1 relay on the reactor: the least a proxy must do, to be held beside real ones.
//!
//! `relay LISTEN ORIGIN`: one worker, keep-alive on both sides, a LIFO pool of upstream
//! connections, bodies by Content-Length alone. It trusts both sides: for measuring only.

use reactor::{Buf, ConnectOptions, Listener, Pipe, Tcp};
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

type Pool = Rc<RefCell<Vec<Tcp>>>;

/// Bodies with at least this much to come are spliced.
const SPLICE_FROM: usize = 16 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(origin)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relay LISTEN ORIGIN".into());
    };
    let origin: SocketAddr = origin.parse()?;
    let listener = TcpListener::bind(listen)?;
    let pool = Pool::default();
    reactor::block_on(async {
        let listener = Listener::new(&listener)?;
        loop {
            let (fd, _) = listener.accept().await?;
            let client = Tcp::from_accepted(fd);
            let pool = Rc::clone(&pool);
            reactor::spawn(async move {
                // A client that leaves is no event here.
                let _ = serve(client, origin, &pool).await;
            });
        }
    })
}

async fn serve(client: Tcp, origin: SocketAddr, pool: &Pool) -> io::Result<()> {
    loop {
        let Some(upstream) = request(&client, origin, pool).await? else {
            return Ok(());
        };
        response(&client, &upstream).await?;
        pool.borrow_mut().push(upstream);
    }
}

async fn request(client: &Tcp, origin: SocketAddr, pool: &Pool) -> io::Result<Option<Tcp>> {
    client.readable().await?;
    let mut buf = Buf::take();
    let mut filled = 0;
    loop {
        let n = client.read(&mut buf[filled..]).await?;
        if n == 0 {
            return Ok(None);
        }
        filled += n;
        if buf[..filled].ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let idle = pool.borrow_mut().pop();
    let upstream = match idle {
        Some(upstream) if upstream.is_quiet() || upstream.probe_quiet() => upstream,
        _ => Tcp::connect(origin, &ConnectOptions::default()).await?,
    };
    upstream.write_all(&buf[..filled]).await?;
    Ok(Some(upstream))
}

async fn response(client: &Tcp, upstream: &Tcp) -> io::Result<()> {
    upstream.readable().await?;
    let mut buf = Buf::take();
    let mut filled = 0;
    let (head, length) = loop {
        let n = upstream.read(&mut buf[filled..16 * 1024]).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += n;
        if let Some(found) = head(&buf[..filled]) {
            break found;
        }
    };
    let mut left = head + length - filled;
    if left >= SPLICE_FROM {
        let sent = client.try_write_more(&buf[..filled])?;
        client.write_all(&buf[sent..filled]).await?;
        drop(buf);
        let mut pipe = Pipe::take_one()?;
        while left > 0 {
            match upstream.try_splice_in(&mut pipe, left)? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(n) => left -= n,
                None => {
                    upstream.readable().await?;
                    continue;
                }
            }
            while !pipe.is_empty() {
                if client.try_splice_out(&mut pipe, left > 0)? == 0 {
                    client.writable().await?;
                }
            }
        }
        return Ok(());
    }
    client.write_all(&buf[..filled]).await?;
    while left > 0 {
        let n = upstream.read(&mut buf[..left.min(64 * 1024)]).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        client.write_all(&buf[..n]).await?;
        left -= n;
    }
    Ok(())
}

/// The lengths of a response's head and body.
fn head(buf: &[u8]) -> Option<(usize, usize)> {
    let end = buf.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buf[..end]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    Some((end, length.unwrap_or(0)))
}
