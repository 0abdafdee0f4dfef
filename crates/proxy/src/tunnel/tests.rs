use super::*;
use reactor::{ConnectOptions, Listener, Tcp};
use std::cell::RefCell;
use std::net::TcpListener;
use std::rc::Rc;

const LONG: Duration = Duration::from_secs(20);

/// A client and a member with a tunnel between them.
struct Ends {
    client: Tcp,
    member: Tcp,
    relayed: Rc<RefCell<Option<Relayed>>>,
    counted: Rc<Cell<(u64, u64)>>,
    stopped: Rc<Cell<bool>>,
}

impl Ends {
    /// What became of the tunnel, once it is over.
    async fn relayed(&self) -> Relayed {
        loop {
            if let Some(relayed) = *self.relayed.borrow() {
                return relayed;
            }
            reactor::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn pair() -> (Tcp, Tcp) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let listener = Listener::new(&listener).unwrap();
    let near = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
    let far = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
    (near, far)
}

async fn tunnel(idle: Duration) -> Ends {
    let (client, near) = pair().await;
    let (far, member) = pair().await;
    let ends = Ends {
        client,
        member,
        relayed: Rc::default(),
        counted: Rc::default(),
        stopped: Rc::default(),
    };
    let (relayed, counted, stopped) = (
        Rc::clone(&ends.relayed),
        Rc::clone(&ends.counted),
        Rc::clone(&ends.stopped),
    );
    reactor::spawn(async move {
        let near = Channel::new(Stream::Plain(near));
        let far = Channel::new(Stream::Plain(far));
        let deadline = Deadline::new();
        let count = |up, down| {
            let (a, b) = counted.get();
            counted.set((a + up, b + down));
        };
        let done = relay_counting(&near, &far, &deadline, idle, || stopped.get(), count).await;
        relayed.replace(Some(done));
    });
    ends
}

/// Runs a test that must not take long.
fn run(test: impl Future<Output = ()>) {
    reactor::block_on(reactor::timeout(LONG, test)).expect("the test is done in time");
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 31 + seed) % 251) as u8).collect()
}

async fn read_to_end(tcp: &Tcp, pause: Option<Duration>) -> io::Result<Vec<u8>> {
    let mut got = Vec::new();
    let mut buf = vec![0; 600_000];
    loop {
        if let Some(pause) = pause {
            reactor::sleep(pause).await;
        }
        match tcp.read(&mut buf).await? {
            0 => return Ok(got),
            n => got.extend_from_slice(&buf[..n]),
        }
    }
}

async fn write_and_end(tcp: &Tcp, data: &[u8]) {
    tcp.write_all(data).await.unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
}

#[test]
fn small_talk_goes_both_ways() {
    run(async {
        let ends = tunnel(LONG).await;
        let mut buf = [0; 64];
        for _ in 0..20 {
            ends.client.write_all(b"how are you").await.unwrap();
            let n = ends.member.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], b"how are you");
            ends.member.write_all(b"well").await.unwrap();
            let n = ends.client.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], b"well");
        }
        ends.client.shutdown(Shutdown::Write).unwrap();
        ends.member.shutdown(Shutdown::Write).unwrap();
        let relayed = ends.relayed().await;
        assert_eq!(relayed.end, End::Done);
        assert_eq!((relayed.bytes_up, relayed.bytes_down), (220, 80));
        assert_eq!(ends.counted.get(), (220, 80));
    });
}

#[test]
fn an_end_is_passed_on_and_the_other_direction_goes_on() {
    run(async {
        let ends = tunnel(LONG).await;
        write_and_end(&ends.client, b"question").await;
        assert_eq!(read_to_end(&ends.member, None).await.unwrap(), b"question");
        assert!(ends.relayed.borrow().is_none());
        let answer = bytes(300_000, 1);
        let (_, got) = reactor::join(
            write_and_end(&ends.member, &answer),
            read_to_end(&ends.client, None),
        )
        .await;
        assert!(got.unwrap() == answer);
        assert_eq!(ends.relayed().await.end, End::Done);
    });
}

#[test]
fn much_data_goes_both_ways_at_once() {
    run(async {
        let ends = tunnel(LONG).await;
        let (up, down) = (bytes(6_000_000, 1), bytes(9_000_000, 2));
        let writes = reactor::join(
            write_and_end(&ends.client, &up),
            write_and_end(&ends.member, &down),
        );
        let reads = reactor::join(
            read_to_end(&ends.member, None),
            read_to_end(&ends.client, None),
        );
        let (_, (at_member, at_client)) = reactor::join(writes, reads).await;
        assert!(at_member.unwrap() == up);
        assert!(at_client.unwrap() == down);
        let relayed = ends.relayed().await;
        assert_eq!(relayed.end, End::Done);
        assert_eq!(ends.counted.get(), (6_000_000, 9_000_000));
    });
}

#[test]
fn a_slow_reader_holds_the_writer_back_and_loses_nothing() {
    run(async {
        let ends = tunnel(LONG).await;
        let data = bytes(80_000_000, 3);
        let written = Cell::new(0);
        let write = async {
            for part in data.chunks(100_000) {
                ends.member.write_all(part).await.unwrap();
                written.set(written.get() + part.len());
            }
            ends.member.shutdown(Shutdown::Write).unwrap();
        };
        let read = async {
            // The sockets take what the system lets them, tens of megabytes; the tunnel must not take the rest.
            reactor::sleep(Duration::from_millis(100)).await;
            assert!(written.get() < data.len());
            read_to_end(&ends.client, Some(Duration::from_millis(1))).await
        };
        let (_, got) = reactor::join(write, read).await;
        assert!(got.unwrap() == data);
    });
}

#[test]
fn silence_in_both_directions_ends_it_and_talk_in_one_does_not() {
    run(async {
        let ends = tunnel(Duration::from_millis(300)).await;
        let mut buf = [0; 16];
        for _ in 0..6 {
            reactor::sleep(Duration::from_millis(100)).await;
            ends.client.write_all(b"still here").await.unwrap();
            assert!(ends.member.read(&mut buf).await.unwrap() > 0);
        }
        assert!(ends.relayed.borrow().is_none());
        // The member was asked and did not answer.
        let relayed = ends.relayed().await;
        assert_eq!(relayed.end, End::Idle(Side::Member));
        assert_eq!(relayed.ending.letters(), *b"sD");
    });
}

#[test]
fn a_client_that_breaks_off_takes_the_member_s_side_with_it() {
    run(async {
        let ends = tunnel(LONG).await;
        ends.client.write_all(b"x").await.unwrap();
        ends.member.read(&mut [0; 4]).await.unwrap();
        ends.client.reset_on_close().unwrap();
        let Ends {
            client,
            member,
            relayed,
            ..
        } = ends;
        drop(client);
        assert!(read_to_end(&member, None).await.is_err());
        assert_eq!(relayed.borrow().unwrap().end, End::Broken(Side::Client));
    });
}

#[test]
fn what_a_member_sent_before_it_broke_arrives_and_the_break_is_seen() {
    run(async {
        let ends = tunnel(LONG).await;
        let data = bytes(200_000, 4);
        ends.member.write_all(&data).await.unwrap();
        let mut got = vec![0; 150_000];
        let mut at = 0;
        while at < got.len() {
            at += ends.client.read(&mut got[at..]).await.unwrap();
        }
        ends.member.reset_on_close().unwrap();
        let Ends {
            client,
            member,
            relayed,
            ..
        } = ends;
        drop(member);
        let mut rest = vec![0; 60_000];
        let end = loop {
            match client.read(&mut rest).await {
                Ok(n) if n > 0 => at += n,
                end => break end,
            }
        };
        assert_eq!(at, data.len());
        assert!(end.is_err(), "{end:?} is no break");
        assert_eq!(relayed.borrow().unwrap().end, End::Broken(Side::Member));
    });
}

#[test]
fn a_member_s_last_words_arrive_though_the_client_talks_on() {
    run(async {
        let ends = tunnel(LONG).await;
        let data = bytes(100_000, 5);
        ends.member.write_all(&data).await.unwrap();
        let Ends {
            client,
            member,
            relayed,
            ..
        } = ends;
        drop(member);
        // The member is gone: what the client says now is met by a reset there.
        for _ in 0..5 {
            client.write_all(&[7; 1000]).await.unwrap();
            reactor::sleep(Duration::from_millis(10)).await;
        }
        assert!(read_to_end(&client, None).await.unwrap() == data);
        client.shutdown(Shutdown::Write).unwrap();
        while relayed.borrow().is_none() {
            reactor::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(relayed.borrow().unwrap().end, End::Done);
    });
}

#[test]
fn a_stop_ends_it() {
    run(async {
        let ends = tunnel(LONG).await;
        reactor::sleep(Duration::from_millis(5)).await;
        ends.stopped.set(true);
        reactor::wake_all();
        assert_eq!(ends.relayed().await.ending.letters(), *b"KD");
    });
}

#[test]
fn an_idle_tunnel_is_small() {
    run(async {
        let (client, near) = pair().await;
        let near = Channel::new(Stream::Plain(near));
        let far = Channel::new(Stream::Plain(client));
        let deadline = Deadline::new();
        let tunnel = relay_counting(&near, &far, &deadline, LONG, || false, |_, _| {});
        let size = size_of_val(&tunnel);
        assert!(size <= 1536, "{size} bytes");
    });
}
