//! Real programs on either side: curl, h2load, nginx.

use crate::support::{config, in_front_of, ok};
use headgate_tests::{Builder, Dir, Headgate, Origin, eventually, nginx, noise, run};
use std::net::SocketAddr;

#[test]
fn nginx_is_served_from_byte_for_byte() {
    let dir = Dir::new();
    let body = noise(5, 5 << 20);
    dir.write("large.bin", &body);
    dir.write("small.txt", "small");
    let address = SocketAddr::from((headgate_tests::address(), 8080));
    let _nginx = nginx(&dir, address, "location /put { dav_methods PUT; }");
    let gate = Headgate::start(&config(address, "", ""));
    let to = format!("http://{}", gate.at(8080));
    let out = dir.path().join("out.bin").display().to_string();
    let (good, text) = run("curl", &["-sS", "-o", &out, &format!("{to}/large.bin")], "");
    assert!(good, "{text}");
    assert!(std::fs::read(&out).unwrap() == body);
    let small = format!("{to}/small.txt");
    let (_, text) = run(
        "curl",
        &["-sS", "-r", "1-2", &small, &small, "-I", &small],
        "",
    );
    assert!(text.contains("206 Partial Content"), "{text}");
    let (_, text) = run("curl", &["-sS", "-H", "If-None-Match: *", "-i", &small], "");
    assert!(text.contains("304 Not Modified"), "{text}");
    let (_, text) = run("curl", &["-sS", "--http1.0", &small], "");
    assert_eq!(text, "small");
    let (_, text) = run("curl", &["-sS", "-i", &format!("{to}/none")], "");
    assert!(
        text.contains("404 Not Found") && text.contains("nginx"),
        "{text}"
    );
}

#[test]
fn nginx_killed_and_started_again_is_found_again() {
    let dir = Dir::new();
    dir.write("index.html", "page");
    let address = SocketAddr::from((headgate_tests::address(), 8080));
    let first = nginx(&dir, address, "");
    let gate = Headgate::start(&format!(
        "monitors: {{web: {{type: http, interval: 100ms, rise: 1, fall: 1}}}}\n\
         pools: {{app: {{monitors: web, members: ['{address}']}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}"
    ));
    let url = format!("http://{}/", gate.at(8080));
    assert_eq!(run("curl", &["-sS", &url], "").1, "page");
    drop(first);
    eventually("it is seen to be down", || {
        let (_, out) = run(
            "curl",
            &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url],
            "",
        );
        (out == "503").then_some(())
    });
    let _second = nginx(&dir, address, "");
    eventually("it is seen to be up", || {
        (run("curl", &["-sS", &url], "").1 == "page").then_some(())
    });
}

#[test]
fn curl_uploads_with_an_expectation_and_in_chunks() {
    let origin = Origin::answering(|request| ok(&request.body.len().to_string()));
    let gate = in_front_of(&origin);
    let dir = Dir::new();
    let file = dir.write("body", noise(6, 3 << 20)).display().to_string();
    let url = format!("http://{}/", gate.at(8080));
    for field in ["Expect: 100-continue", "Transfer-Encoding: chunked"] {
        let args = [
            "-sS",
            "--http1.1",
            "--expect100-timeout",
            "0.2",
            "-H",
            field,
            "-T",
            &file,
            &url,
        ];
        let (_, out) = run("curl", &args, "");
        assert_eq!(out, (3 << 20).to_string(), "{field}");
    }
}

#[test]
fn h2load_counts_no_failure_while_configurations_change() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let url = format!("http://{}/", gate.at(8080));
    let load = std::thread::spawn(move || {
        run(
            "h2load",
            &["--h1", "-n", "20000", "-c", "16", "-t", "1", &url],
            "",
        )
    });
    let mut reloads = 0;
    while !load.is_finished() {
        gate.reconfigure(&config(
            origin.address(),
            &format!("headers: {{response: [{{set: {{name: X-N, value: n{reloads}}}}}]}}"),
            "",
        ));
        reloads += 1;
    }
    let (good, out) = load.join().unwrap();
    assert!(
        good && out.contains("20000 succeeded, 0 failed, 0 errored, 0 timeout"),
        "{out}"
    );
    assert!(out.contains("20000 2xx"), "{out}");
    assert!(reloads > 0);
}

#[test]
fn openssl_reads_a_large_page_over_both_versions() {
    let body = String::from_utf8_lossy(&noise(8, 200_000)).into_owned();
    let length = body.len();
    let origin = Origin::answering(move |_| ok(&body));
    let authority = headgate_tests::Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "site", &["site.example"]);
    let gate = builder.start(&format!(
        "tls_profiles: {{site: {{certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]}}}}\n{}",
        config(origin.address(), "tls: site", "")
    ));
    let to = gate.at(8080).to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let args = ["s_client", "-quiet", "-connect", &to, version];
        let (_, out) = run("openssl", &args, request);
        assert!(out.len() > length, "{version}: {} bytes", out.len());
    }
}
