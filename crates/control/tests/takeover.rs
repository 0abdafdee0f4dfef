//! The admin socket's path when one process follows another.
#![allow(missing_docs, clippy::unwrap_used)]

use control::client::Client;
use control::view::Status;
use control::{Process, Server};
use proxy::{Engine, Inherited, Options};
use std::path::Path;
use std::sync::Arc;

fn server(version: &'static str, folder: &Path) -> (Server, Arc<Process>) {
    let path = folder.join("headgate.yaml");
    std::fs::write(&path, "workers: 1\nadmin: {socket: admin.sock}").unwrap();
    let config = control::read(&path).0.unwrap();
    let engine = Engine::start(config.clone(), Inherited::none(), Options::default()).unwrap();
    let process = Arc::new(Process::new(version, path).0);
    let server = Server::start(Arc::new(engine), Arc::clone(&process), &config.admin, None);
    (server.unwrap(), process)
}

async fn who(folder: &Path) -> Option<String> {
    let client = Client::new(folder.join("admin.sock"));
    let asked = tokio::task::spawn_blocking(move || client.get::<Status>("/v1/status"));
    asked.await.unwrap().ok().map(|status| status.version)
}

#[tokio::test]
async fn the_newer_process_has_the_path_until_it_fails_and_the_older_one_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (mut older, _) = server("older", folder);
    assert_eq!(who(folder).await.unwrap(), "older");
    let (newer, _) = server("newer", folder);
    assert_eq!(who(folder).await.unwrap(), "newer");
    drop(newer);
    assert_eq!(who(folder).await, None);
    older.reclaim_socket().unwrap();
    assert_eq!(who(folder).await.unwrap(), "older");
    let (_newest, _) = server("newest", folder);
    older.close();
    assert_eq!(
        who(folder).await.unwrap(),
        "newest",
        "what is another's now is left alone"
    );
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (mut first, process) = server("first", folder.path());
    first.close();
    let path = folder.path().join("admin.sock");
    std::fs::write(&path, "precious").unwrap();
    let config = control::read(&process.config).0.unwrap();
    let error = first.prepare(&config.admin).err().unwrap();
    assert!(error.to_string().contains("is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
