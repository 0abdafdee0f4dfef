//! What TLS costs the server: full handshakes, and bodies of 10 KB and 512 KB, per CPU-second of the
//! server's thread. The client runs in the same process, on a thread whose time does not count.
//!
//! `cargo run --release -p tls --example echo_bench [seconds each]`

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use reactor::{ConnectOptions, Listener, Tcp, block_on};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tls::{
    Certificate, ClientContext, ClientSettings, Pem, Resumption, ServerContext, ServerSettings,
    Stream, accept, connect,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a connection does after its handshake.
#[derive(Clone, Copy)]
enum Load {
    /// It ends, and the next begins.
    Handshake,
    /// It asks again and again for so many bytes.
    Bytes(usize),
}

fn main() -> Outcome<()> {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let span = Duration::from_secs(seconds);
    for (kind, key) in [
        ("P-256", KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?),
        ("RSA-2048", KeyPair::generate_for(&PKCS_RSA_SHA256)?),
    ] {
        let (server, client) = contexts(&key)?;
        let rate = measure(&server, &client, Load::Handshake, span)?;
        println!("full TLS 1.3 handshakes, {kind}: {rate:.0} per CPU-second");
    }
    let (server, client) = contexts(&KeyPair::generate()?)?;
    for kilobytes in [10, 512] {
        let load = Load::Bytes(kilobytes * 1024);
        let rate = measure(&server, &client, load, span)?;
        let gigabytes = rate * kilobytes as f64 * 1024.0 / 1e9;
        println!("{kilobytes} KB answers: {rate:.0} per CPU-second, {gigabytes:.2} GB");
    }
    Ok(())
}

fn contexts(key: &KeyPair) -> Outcome<(Arc<ServerContext>, Arc<ClientContext>)> {
    let certificate = CertificateParams::new(vec!["localhost".into()])?.self_signed(key)?;
    let pem = |text: String| Pem {
        label: "generated".into(),
        bytes: text.into_bytes(),
    };
    let server = ServerSettings {
        certificates: vec![Certificate {
            chain: pem(certificate.pem()),
            key: pem(key.serialize_pem()),
        }],
        groups: vec!["X25519".into()],
        suites: vec!["TLS_AES_128_GCM_SHA256".into()],
        ..ServerSettings::default()
    };
    let client = ClientSettings {
        verify: false,
        session_cache: 0,
        ..ClientSettings::default()
    };
    Ok((
        ServerContext::new(&server, &Resumption::new(0)?)?,
        ClientContext::new(&client)?,
    ))
}

/// Answers, or handshakes, per CPU-second of the server.
fn measure(
    server: &Arc<ServerContext>,
    client: &Arc<ClientContext>,
    load: Load,
    span: Duration,
) -> Outcome<f64> {
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = listening.local_addr()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listening, server, load, &stop));
        let asked = ask(to, client, load, span);
        stop.store(true, Ordering::Relaxed);
        // The server looks at the flag when a connection comes.
        drop(std::net::TcpStream::connect(to));
        let spent = serving.join().map_err(|_| "the server panicked")??;
        Ok(asked? as f64 / spent.as_secs_f64())
    })
}

/// Serves until told to stop; returns the CPU time it took.
fn serve(
    listening: &TcpListener,
    context: &Arc<ServerContext>,
    load: Load,
    stop: &AtomicBool,
) -> Outcome<Duration> {
    let begin = cpu_time()?;
    block_on(async {
        let listener = Listener::new(listening)?;
        loop {
            let (fd, _) = listener.accept().await?;
            if stop.load(Ordering::Relaxed) {
                return Ok::<_, Box<dyn Error + Send + Sync>>(());
            }
            let (tcp, context) = (Tcp::from_fd(fd)?, Arc::clone(context));
            reactor::spawn(async move {
                if let Ok(stream) = accept(tcp, b"", &context).await {
                    let _ = answer(stream, load).await;
                }
            });
        }
    })?;
    Ok(cpu_time()? - begin)
}

async fn answer(mut stream: Stream, load: Load) -> std::io::Result<()> {
    let mut question = [0; 256];
    let Load::Bytes(len) = load else {
        stream.read(&mut question).await?;
        stream.close_notify();
        return Ok(());
    };
    let body = vec![7; len];
    while stream.read(&mut question).await? > 0 {
        stream.write_all(&body).await?;
    }
    Ok(())
}

/// Asks for the time given; returns how many answers came.
fn ask(to: SocketAddr, context: &Arc<ClientContext>, load: Load, span: Duration) -> Outcome<u64> {
    let name = ClientContext::server_name("localhost")?;
    let end = Instant::now() + span;
    block_on(async {
        let mut count = 0;
        let mut buf = vec![0; 128 * 1024];
        while Instant::now() < end {
            let tcp = Tcp::connect(to, &ConnectOptions::default()).await?;
            let mut stream = connect(tcp, &name, context).await?;
            let Load::Bytes(len) = load else {
                stream.close_notify();
                let _ = stream.read(&mut buf).await;
                count += 1;
                continue;
            };
            while Instant::now() < end {
                stream.write_all(b"?").await?;
                let mut got = 0;
                while got < len {
                    got += stream.read(&mut buf).await?;
                }
                count += 1;
            }
        }
        Ok(count)
    })
}

/// The CPU time of this thread so far, user and system.
fn cpu_time() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = stat.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(nanos))
}
