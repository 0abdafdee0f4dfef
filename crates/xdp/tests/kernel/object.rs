use std::os::fd::AsFd;

use xdp::map;
use xdp::object::{self, LoadError};
use xdp::require::Missing;
use xdp::run::{Run, test_run};

use crate::{kernel, tiny, without_capabilities};

#[test]
fn a_loaded_program_is_found_by_name_and_runs() {
    if !kernel() {
        return;
    }
    let object = object::load("tiny", &tiny::object(true), |_| Ok(())).unwrap();
    let program = object::program(&object, "tiny").unwrap();
    let outcome = test_run(program, &Run::new(&[0; 64])).unwrap();
    assert_eq!(outcome.verdict, tiny::PASS as u32);
    assert_eq!(object::verified_instructions(&program).unwrap(), 2);
    let twin = program.try_clone_to_owned().unwrap();
    assert_eq!(object::id(&program).unwrap(), object::id(&twin).unwrap());
    assert!(
        object::program(&object, "other")
            .unwrap_err()
            .to_string()
            .contains("other")
    );
    assert!(test_run(twin.as_fd(), &Run::new(&[0; 64])).is_ok());
}

#[test]
fn constants_are_set_before_loading() {
    if !kernel() {
        return;
    }
    let constants: [u32; 2] = [0x0a0b_0c0d, 7];
    let object = object::load("tiny", &tiny::object(true), |open| {
        object::set_constants(open, &constants)
    })
    .unwrap();
    let section = object::map(&object, "tiny.rodata").unwrap();
    assert_eq!(
        map::get::<u32, [u32; 2]>(&section, &0).unwrap(),
        Some(constants)
    );
}

#[test]
fn constants_of_another_size_and_tables_that_do_not_exist_are_refused() {
    let load = |prepare: fn(&mut libbpf_rs::OpenObject) -> Result<(), libbpf_rs::Error>| {
        object::load("tiny", &tiny::object(true), prepare).unwrap_err()
    };
    let error = load(|open| object::set_constants(open, &0u32));
    assert!(matches!(error, LoadError::Prepare { .. }), "{error}");
    assert!(error.to_string().contains("8 bytes"), "{error}");
    let error = load(|open| object::set_capacity(open, "flows", 10));
    assert!(error.to_string().contains("flows"), "{error}");
}

#[test]
fn a_refused_program_brings_the_verifiers_reason() {
    if !kernel() {
        return;
    }
    let error = object::load("bad", &tiny::object(false), |_| Ok(())).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("bad") && text.contains("R0 !read_ok"),
        "{text}"
    );
}

#[test]
fn without_privileges_the_error_says_what_to_give() {
    if !kernel() {
        return;
    }
    let (loaded, required) = without_capabilities(|| {
        let loaded = object::load("tiny", &tiny::object(true), |_| Ok(()));
        (loaded, xdp::require::missing())
    });
    let text = loaded.unwrap_err().to_string();
    assert!(text.contains("tiny") && text.contains("CAP_BPF"), "{text}");
    assert_eq!(
        required,
        ["CAP_BPF", "CAP_NET_ADMIN"].map(|name| Missing::Capability { name })
    );
}
