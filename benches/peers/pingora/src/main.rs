//! A minimal proxy on Pingora, tuned for throughput: one service thread a worker, kept upstream connections, no logs.
//! Usage: pingora-peer WORKERS PORT ORIGIN_PORT

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

struct Forward(u16);

#[async_trait]
impl ProxyHttp for Forward {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(("127.0.0.1", self.0), false, String::new())))
    }
}

fn main() {
    let numbers: Vec<u16> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("usage: pingora-peer WORKERS PORT ORIGIN_PORT"))
        .collect();
    let [workers, port, origin] = numbers[..] else {
        panic!("usage: pingora-peer WORKERS PORT ORIGIN_PORT");
    };

    let conf = ServerConf {
        threads: usize::from(workers),
        upstream_keepalive_pool_size: 512,
        work_stealing: false,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();

    let mut proxy = http_proxy_service(&server.configuration, Forward(origin));
    for port in [port, port + 1] {
        proxy.add_tcp(&format!("127.0.0.1:{port}"));
    }
    server.add_service(proxy);
    server.run_forever();
}
