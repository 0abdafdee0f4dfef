use super::*;
use crate::testing;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("headgate-compile-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// Writes a new certificate and its key.
    fn certify(&self, name: &str) {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        fs::write(self.path(&format!("{name}.pem")), made.cert.pem()).unwrap();
        let key = made.signing_key.serialize_pem();
        fs::write(self.path(&format!("{name}.key")), key).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compiled(text: &str, before: &Kept) -> Result<Compiled, Vec<CompileError>> {
    compile(&Arc::new(testing::config(text)), before, &Table::new(), 0)
}

fn errors(text: &str) -> Vec<CompileError> {
    compiled(text, &Kept::default()).err().unwrap()
}

fn site(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "log: {{access: off}}
tls_profiles:
  site: {{certificates: [{{certificate: {folder}/a.pem, key: {folder}/a.key}}]}}
virtuals:
  web: {{listen: 127.0.0.1:{port}, tls: site, routes: [{{respond: {{}}}}]}}
"
    )
}

#[test]
fn virtuals_of_the_fast_path_are_left_to_it() {
    let text = "fast_path: {interfaces: eth0}
pools: {p: {members: ['10.0.0.1:80']}}
virtuals:
  fast: {protocol: fast, listen: '192.0.2.1:80-89', pool: p}
  slow: {protocol: tcp, listen: '127.0.0.1:80', pool: p}
";
    let compiled = compiled(text, &Kept::default()).ok().unwrap();
    let names: Vec<&str> = compiled.virtuals.keys().map(Name::as_str).collect();
    assert_eq!(names, ["slow"]);
    // but members are monitored for both
    assert!(compiled.backends.contains_key("p"));
    let wanted = crate::listen::Wanted::all(&compiled.config);
    let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["slow"]);
}

#[test]
fn all_that_is_wrong_is_told_with_its_place() {
    let folder = Folder::new("errors");
    folder.certify("a");
    folder.certify("b");
    fs::write(folder.path("empty.pem"), "").unwrap();
    let (a, b) = (folder.path("a.pem"), folder.path("b.key"));
    let (missing, empty) = (folder.path("missing.pem"), folder.path("empty.pem"));
    let errors = errors(&format!(
        "log: {{access: {{format: json, output: {{file: {missing}/no.log}}}}}}
tls_profiles:
  mixed: {{certificates: [{{certificate: {a}, key: {b}}}]}}
  gone: {{certificates: [{{certificate: {missing}, key: {b}}}]}}
  auth: {{certificates: [{{certificate: {a}, key: {b}}}], client_auth: {{mode: required, ca: {missing}}}}}
pools:
  app: {{members: [127.0.0.1:1], tls: {{ca: {empty}}}}}
virtuals:
  web: {{listen: 127.0.0.1:0, routes: [{{respond: {{}}}}]}}
"
    ));
    let places: Vec<&str> = errors.iter().map(|error| error.at.as_str()).collect();
    assert_eq!(
        places,
        [
            "pools.app.tls",
            "log.access",
            "tls_profiles.auth.client_auth.ca",
            "tls_profiles.gone.certificates[0].certificate",
            "tls_profiles.mixed.certificates[0]",
        ]
    );
    let named = ["no authority", &missing, &missing, &missing, &b];
    for (error, named) in errors.iter().zip(named) {
        assert!(error.problem.contains(named), "{error}");
    }
}

#[test]
fn a_context_is_made_anew_only_when_its_files_or_settings_change() {
    let folder = Folder::new("reuse");
    folder.certify("a");
    let context = |compiled: &Compiled| compiled.virtuals["web"].tls.clone().unwrap();
    let first = compiled(&site(&folder.0, 1), &Kept::default())
        .ok()
        .unwrap();
    let same = compiled(&site(&folder.0, 2), &first.kept).ok().unwrap();
    assert!(Arc::ptr_eq(&context(&first), &context(&same)));
    folder.certify("a");
    let renewed = compiled(&site(&folder.0, 2), &same.kept).ok().unwrap();
    assert!(!Arc::ptr_eq(&context(&same), &context(&renewed)));
}

#[test]
fn counters_and_members_outlive_their_snapshot() {
    let text = |weight| {
        format!(
            "pools: {{app: {{members: [{{address: 127.0.0.1:1, weight: {weight}}}]}}}}
virtuals: {{web: {{listen: 127.0.0.1:0, pool: app, log: {{access: off}}}}}}
"
        )
    };
    let first = compiled(&text(1), &Kept::default()).ok().unwrap();
    let second = compiled(&text(2), &first.kept).ok().unwrap();
    let pool = |compiled: &Compiled| Arc::clone(&compiled.backends["app"].pool);
    assert!(Arc::ptr_eq(&pool(&first), &pool(&second)));
    assert_eq!(first.backends["app"].id, second.backends["app"].id);
    let state = |compiled: &Compiled| Arc::clone(&compiled.virtuals["web"].state);
    assert!(Arc::ptr_eq(&state(&first), &state(&second)));
    // Made ready is not in force.
    assert_eq!(pool(&second).members()[0].weight(), 1);
    let (changed, settings) = &second.pools[0];
    changed.reconfigure(settings.clone(), 0);
    assert_eq!(pool(&second).members()[0].weight(), 2);
}

#[test]
fn a_pool_that_comes_again_is_another() {
    let with = "pools: {app: {members: [127.0.0.1:1]}}";
    let first = compiled(with, &Kept::default()).ok().unwrap();
    let without = compiled("{}", &first.kept).ok().unwrap();
    let again = compiled(with, &without.kept).ok().unwrap();
    assert_ne!(first.backends["app"].id, again.backends["app"].id);
}

#[test]
fn a_name_to_send_that_is_not_the_one_to_verify_is_refused() {
    let errors = errors(
        "pools: {app: {members: [127.0.0.1:1], tls: {verify: false, server_name: a.example, sni: b.example}}}",
    );
    assert_eq!(errors[0].at, "pools.app.tls.sni");
}
