use super::*;
use proptest::prelude::*;
use reactor::{Either, block_on, join, race};
use std::future::poll_fn;
use std::io;
use std::task::Poll;

fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

/// Lets every other task run once.
async fn others_run() {
    let mut asked = false;
    poll_fn(move |cx| {
        if asked {
            return Poll::Ready(());
        }
        asked = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Reads to the end of data, in bites.
async fn read_to_end(stream: &mut Stream, bite: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = vec![0; bite];
    loop {
        match stream.read(&mut buf).await? {
            0 => return Ok(all),
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

async fn send_and_end(stream: &mut Stream, data: &[u8], bite: usize) {
    for piece in data.chunks(bite) {
        stream.write_all(piece).await.unwrap();
    }
    stream.finish().await.unwrap();
}

/// Relays one direction in chunks of the given lengths, round and round.
async fn chop(from: &Tcp, to: &Tcp, lengths: &[usize]) {
    let mut lengths = lengths.iter().cycle();
    loop {
        let mut buf = vec![0; *lengths.next().unwrap()];
        let n = from.read(&mut buf).await.unwrap_or(0);
        if n == 0 || to.write_all(&buf[..n]).await.is_err() {
            let _ = to.shutdown(std::net::Shutdown::Write);
            return;
        }
        // Whoever reads has taken this chunk before the next comes.
        others_run().await;
        others_run().await;
    }
}

/// A server and a client whose bytes pass through a relay that cuts them into chunks.
async fn chopped(
    server: &Arc<ServerContext>,
    client: &Arc<ClientContext>,
    lengths: &[usize],
) -> (Stream, Stream) {
    let ((a, near), (far, b)) = (sockets(), sockets());
    let lengths = lengths.to_vec();
    reactor::spawn(async move {
        join(chop(&near, &far, &lengths), chop(&far, &near, &lengths)).await;
    });
    let name = ClientContext::server_name("localhost").unwrap();
    let connecting = async {
        let mut stream = connect(b, &name, client).await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let (s, c) = join(accept(a, b"", server), connecting).await;
    (s.unwrap(), c)
}

#[test]
fn large_transfers_both_ways_at_once_arrive_whole_past_a_slow_reader() {
    let (server, client) = contexts();
    let (up, down) = (noise(3_000_000), noise(5_000_001));
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        // The client reads nothing until the server's writes have been blocked.
        let mut sent = 0;
        loop {
            let n = s.try_write(&down[sent..]).unwrap();
            if n == 0 {
                break;
            }
            sent += n;
        }
        assert!(sent < down.len(), "back-pressure");
        assert!(!s.try_flush().unwrap());
        let serving = async {
            let mut got = Vec::new();
            let mut buf = vec![0; 50_000];
            while sent < down.len() || got.len() < up.len() {
                let mut idle = true;
                if sent < down.len() {
                    let n = s.try_write(&down[sent..]).unwrap();
                    sent += n;
                    idle = n == 0;
                }
                match s.try_read(&mut buf).unwrap() {
                    Some(0) => break,
                    Some(n) => got.extend_from_slice(&buf[..n]),
                    None if idle && sent < down.len() => {
                        poll_fn(|_| match s.poll_readable() {
                            Poll::Pending => s.poll_writable(),
                            ready => ready,
                        })
                        .await
                        .unwrap();
                    }
                    None if idle => s.readable().await.unwrap(),
                    None => {}
                }
            }
            s.finish().await.unwrap();
            got
        };
        let fetching = async {
            let mut got = Vec::new();
            let mut buf = vec![0; 7_001];
            let mut sent = 0;
            while got.len() < down.len() || sent < up.len() {
                let n = c.try_write(&up[sent..up.len().min(sent + 99_999)]).unwrap();
                sent += n;
                match c.try_read(&mut buf).unwrap() {
                    Some(m) => got.extend_from_slice(&buf[..m]),
                    None if n == 0 => others_run().await,
                    None => {}
                }
            }
            c.flush().await.unwrap();
            got
        };
        let (at_server, at_client) = join(serving, fetching).await;
        assert!(at_server == up && at_client == down);
    });
}

#[test]
fn what_a_write_leaves_over_is_sent_while_the_writer_waits_to_read() {
    let (server, client) = contexts();
    let data = noise(600_000);
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        let mut sent = 0;
        loop {
            match s.try_write(&data[sent..]).unwrap() {
                0 => break,
                n => sent += n,
            }
        }
        let mut got = vec![0; sent];
        let waiting = async { s.read(&mut [0; 8]).await };
        let reading = async {
            let mut at = 0;
            while at < got.len() {
                at += c.read(&mut got[at..]).await.unwrap();
            }
        };
        assert!(matches!(race(waiting, reading).await, Either::Right(())));
        assert!(got == data[..sent]);
    });
}

#[test]
fn tiny_reads_and_writes_arrive_whole() {
    let (server, client) = contexts();
    let data = noise(1_500);
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        let (got, ()) = join(read_to_end(&mut s, 1), send_and_end(&mut c, &data, 1)).await;
        assert!(got.unwrap() == data);
        // A whole record, bite by bite.
        let (got, ()) = join(
            read_to_end(&mut c, 3),
            send_and_end(&mut s, &noise(40_000), 40_000),
        )
        .await;
        assert!(got.unwrap() == noise(40_000));
    });
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        s.write_all(&noise(100_000)).await.unwrap();
        let mut buf = vec![0; 30_000];
        let mut got = 0;
        while got < 100_000 {
            got += c.read(&mut buf).await.unwrap();
        }
        for stream in [&s, &c] {
            let Stream::Tls(tls) = stream else {
                panic!("TLS")
            };
            assert_eq!(tls.buffered(), 0);
        }
    });
}

#[test]
fn close_notify_ends_the_data_and_a_bare_fin_is_an_error() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        c.write_all(b"last words").await.unwrap();
        c.close_notify();
        assert_eq!(read_to_end(&mut s, 4).await.unwrap(), b"last words");
        // The other direction is open yet.
        s.write_all(b"answer").await.unwrap();
        s.close_notify();
        assert_eq!(read_to_end(&mut c, 64).await.unwrap(), b"answer");
        assert_eq!(
            c.try_write(b"more").unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );

        let (mut s, mut c) = pair(&server, &client).await;
        c.write_all(b"last words").await.unwrap();
        c.tcp().shutdown(std::net::Shutdown::Write).unwrap();
        let error = read_to_end(&mut s, 64).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let again = s.try_read(&mut [0; 8]).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_lenient_context_takes_a_bare_fin_for_an_end() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.lenient_close = true;
    let server = server(&settings);
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        c.write_all(b"last words").await.unwrap();
        c.tcp().shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut s, 64).await.unwrap(), b"last words");
    });
}

#[test]
fn an_idle_client_takes_tickets_in_and_can_be_used_again() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        c.tcp().watch().unwrap();
        // The tickets alone: nothing of it is plaintext.
        assert!(s.try_flush().unwrap());
        c.tcp().readable().await.unwrap();
        others_run().await;
        assert!(c.is_quiet());
        assert!(c.probe_quiet());
        c.write_all(b"request").await.unwrap();
        let mut buf = [0; 16];
        assert_eq!(s.read(&mut buf).await.unwrap(), 7);
        // An unasked-for answer makes it useless.
        s.write_all(b"surprise").await.unwrap();
        c.tcp().readable().await.unwrap();
        assert!(!c.is_quiet());
        assert_eq!(c.read(&mut buf).await.unwrap(), 8);
    });
}

#[test]
fn a_server_that_closed_makes_the_connection_useless() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        c.tcp().watch().unwrap();
        greet(&mut s, &mut c).await;
        others_run().await;
        assert!(c.is_quiet());
        s.close_notify();
        c.tcp().readable().await.unwrap();
        assert!(!c.is_quiet());
    });
}

#[test]
fn tickets_leave_with_the_first_data() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        let waiting = async { s.read(&mut [0; 8]).await };
        assert!(matches!(
            race(waiting, others_run()).await,
            Either::Right(())
        ));
        assert!(c.tcp().probe_quiet(), "nothing was sent yet");
        greet(&mut s, &mut c).await;
    });
}

#[test]
fn keys_change_in_the_midst_of_a_transfer() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        for _ in 0..5 {
            {
                let Stream::Tls(tls) = &mut c else {
                    panic!("TLS")
                };
                tls.conn.refresh_keys();
            }
            c.write_all(b"under new keys").await.unwrap();
            let mut buf = [0; 64];
            let n = s.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], b"under new keys");
            // The server's keys change too, before what it says next.
            s.write_all(b"so am I").await.unwrap();
            let n = c.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], b"so am I");
        }
    });
}

#[test]
fn corrupt_ciphertext_is_refused_with_an_alert_after_what_came_before_it() {
    let (server, client) = contexts();
    block_on(async {
        let (mut s, mut c) = pair(&server, &client).await;
        c.write_all(b"good").await.unwrap();
        c.tcp().write_all(&[23, 3, 3, 0, 20]).await.unwrap();
        c.tcp().write_all(&[0; 20]).await.unwrap();
        let mut buf = [0; 64];
        let n = s.read(&mut buf).await.unwrap();
        assert_eq!(&buf[..n], b"good");
        let error = s.read(&mut buf).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(s.try_write(b"on").is_err());
        let error = c.read(&mut buf).await.unwrap_err();
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
    });
}

#[test]
fn writing_while_part_of_a_handshake_message_waits_does_no_harm() {
    let (server, client) = contexts();
    // Tickets come in records far smaller than themselves, and byte by byte.
    let mut config = (*server.config).clone();
    config.max_fragment_size = Some(64);
    let server = Arc::new(server.with_config(config));
    block_on(async {
        let (mut s, mut c) = chopped(&server, &client, &[1]).await;
        let talking = async {
            let mut buf = [0; 8];
            let mut rounds = 0;
            loop {
                match c.try_read(&mut buf).unwrap() {
                    Some(n) => {
                        assert_eq!(&buf[..n], b"!");
                        return rounds;
                    }
                    None => {
                        rounds += c.try_write(b"x").unwrap();
                        c.readable().await.unwrap();
                    }
                }
            }
        };
        let answering = async {
            s.write_all(b"!").await.unwrap();
            let mut buf = [0; 64];
            loop {
                let n = s.read(&mut buf).await.unwrap();
                assert!(buf[..n].iter().all(|b| *b == b'x'));
            }
        };
        let answering: Either<usize, ()> = race(talking, answering).await;
        let Either::Left(rounds) = answering else {
            panic!("the client ends it")
        };
        assert!(rounds > 50, "{rounds}");
    });
}

#[test]
fn records_split_at_every_byte_make_the_same_plaintext() {
    let authority = Authority::new("a");
    for version in [Version::Tls12, Version::Tls13] {
        let mut settings = serving(authority.issue(&["localhost"]));
        settings.max_version = version;
        let server = server(&settings);
        let client = ClientContext::new(&trusting(&authority)).unwrap();
        block_on(async {
            let (mut s, mut c) = chopped(&server, &client, &[1]).await;
            let data = noise(700);
            let (got, ()) = join(read_to_end(&mut s, 300), send_and_end(&mut c, &data, 200)).await;
            assert!(got.unwrap() == data);
            let (got, ()) = join(read_to_end(&mut c, 300), send_and_end(&mut s, &data, 700)).await;
            assert!(got.unwrap() == data);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_chunking_of_the_transport_makes_the_same_plaintext(
        lengths in prop::collection::vec(1usize..40_000, 1..12),
        write in 1usize..60_000,
        read in 1usize..60_000,
        len in 0usize..120_000,
    ) {
        thread_local! {
            static CONTEXTS: (Arc<ServerContext>, Arc<ClientContext>) = contexts();
        }
        CONTEXTS.with(|(server, client)| block_on(async {
            let data = noise(len);
            // A few bytes at a time would take minutes.
            let (write, read) = (write.max(len / 200), read.max(len / 500));
            let (mut s, mut c) = chopped(server, client, &lengths).await;
            let (got, ()) = join(read_to_end(&mut s, read), send_and_end(&mut c, &data, write)).await;
            prop_assert!(got.unwrap() == data);
            let (got, ()) = join(read_to_end(&mut c, read), send_and_end(&mut s, &data, write)).await;
            prop_assert!(got.unwrap() == data);
            Ok(())
        }))?;
    }
}
