//! The examples are good configurations, and say what they seem to.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

use std::io;
use std::path::{Path, PathBuf};

use model::{Action, Balance, Config, FastMode, PathMatch, Source, Virtual};

/// The examples' folder, with certificates and secrets that are not there taken to be.
struct Examples;

impl Source for Examples {
    fn read(&self, path: &Path) -> io::Result<String> {
        if path.ends_with("secrets/admin-token") {
            return Ok("secret\n".to_owned());
        }
        std::fs::read_to_string(path)
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        let assumed = ["pem", "key", "crl"]
            .iter()
            .any(|end| path.extension().is_some_and(|e| e == *end));
        if assumed {
            Ok(())
        } else {
            std::fs::File::open(path).map(drop)
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

fn example(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    model::parse(&path, &Examples).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let config = example(path.file_name().unwrap().to_str().unwrap());
            assert!(!config.virtuals.is_empty(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn what_is_written_back_is_read_as_the_same() {
    for name in [
        "quickstart.yaml",
        "tls.yaml",
        "tcp.yaml",
        "sni.yaml",
        "full.yaml",
        "fastpath.yaml",
    ] {
        let config = example(name);
        let mut json = config.to_json();
        // included files are already in it
        json["include"] = Vec::<String>::new().into();
        let again = model::parse_text(Path::new("/again.yaml"), &json.to_string(), &Examples);
        let again = again.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(
            Config {
                include: Vec::new(),
                ..config
            },
            again,
            "{name}"
        );
    }
}

#[test]
fn included_files_add_to_the_main_file() {
    let config = example("full.yaml");
    assert_eq!(
        config
            .virtuals
            .keys()
            .map(model::Name::as_str)
            .collect::<Vec<_>>(),
        ["metrics", "web"]
    );
    assert!(config.pools.contains_key("metrics"));
}

#[test]
fn address_lists_are_looked_up_with_their_feeds() {
    let config = example("full.yaml");
    let denied = config.prefix_set(&config.virtuals["web"].deny);
    assert!(denied.contains("198.51.100.9".parse().unwrap()));
    assert!(denied.contains("203.0.113.7".parse().unwrap()));
    assert!(!denied.contains("203.0.113.8".parse().unwrap()));
}

#[test]
fn short_and_long_forms_mean_the_same_types() {
    let config = example("full.yaml");
    let app = &config.pools["app"];
    assert!(matches!(app.balance, Balance::Hash(_)));
    assert_eq!(&*app.members[0].label(), "10.0.0.11:8080");
    assert_eq!(&*app.members[1].label(), "a2");
    assert!(config.pools["static"].ejection.is_none());
    let routes = &config.virtuals["web"].routes;
    assert!(matches!(routes[0].action, Action::Redirect(_)));
    assert_eq!(
        routes[2].when.path,
        [PathMatch::Exact("/internal".to_owned())]
    );
    assert_eq!(config.admin.token.as_ref().unwrap().reveal(), "secret");
    assert!(!format!("{config:?}").contains("\"secret\""));
    assert!(!config.to_json().to_string().contains("\"secret\""));
}

#[test]
fn the_reference_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let reference = model::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &reference).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == reference,
        "docs/configuration.md is stale: UPDATE_DOCS=1 cargo test -p model"
    );
}

#[test]
fn the_fast_path_has_virtuals_of_every_mode() {
    let config = example("fastpath.yaml");
    let modes = config.virtuals.values().filter_map(Virtual::fast);
    let modes: Vec<FastMode> = modes.map(|fast| fast.mode).collect();
    for mode in [FastMode::Nat, FastMode::DirectReturn, FastMode::Ipip] {
        assert!(modes.contains(&mode), "{mode:?}");
    }
}
