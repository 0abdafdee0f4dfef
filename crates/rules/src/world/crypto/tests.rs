use super::super::testing::World;
use crate::value::Value;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run(world: &mut World, words: &[&[u8]]) -> Result<Value, String> {
    let words: Vec<Value> = words.iter().map(|word| Value::new(word)).collect();
    world.words(&words).map_err(|fault| match fault.kind() {
        crate::fault::Kind::Error(error) => error.message.value().lossy(),
        other => format!("{other:?}"),
    })
}

fn hexed(world: &mut World, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match run(world, &words) {
        Ok(value) => hex(&value.bytes()),
        Err(error) => format!("!{error}"),
    }
}

#[test]
fn codes_agree_with_the_rfcs() {
    let mut world = World::new();
    // RFC 2202 and RFC 4231, second test cases.
    for (algorithm, wanted) in [
        ("hmac-md5", "750c783e6ab0b503eaa86e310a5db738"),
        ("hmac-sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (
            "hmac-sha224",
            "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44",
        ),
        (
            "hmac-sha256",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
    ] {
        let data = "what do ya want for nothing?";
        let words = ["CRYPTO::sign", "-alg", algorithm, "-key", "Jefe", data];
        assert_eq!(hexed(&mut world, &words), wanted);
        let words = [
            "CRYPTO::sign",
            "-alg",
            algorithm,
            "-keyhex",
            "4a656665",
            data,
        ];
        assert_eq!(hexed(&mut world, &words), wanted);
        // In parts, through a variable.
        let words = [
            "CRYPTO::sign",
            "-alg",
            algorithm,
            "-ctx",
            "c",
            "-key",
            "Jefe",
            &data[..9],
        ];
        assert_eq!(hexed(&mut world, &words), "");
        let words = ["CRYPTO::sign", "-ctx", "c", "-final", &data[9..]];
        assert_eq!(hexed(&mut world, &words), wanted);
        world.unset("c");
    }
    let long = "a".repeat(80);
    let words = ["CRYPTO::sign", "-alg", "hmac-md5", "-key", &long, "x"];
    assert_eq!(hexed(&mut world, &words).len(), 32);
}

#[test]
fn a_key_that_is_used_again_gives_what_it_gave() {
    let mut world = World::new();
    let key = Value::from("0123456789");
    let mut sign = |algorithm: &str, key: &Value| {
        let words = ["CRYPTO::sign", "-alg", algorithm, "-key"].map(Value::from);
        let words = [&words[..], &[key.clone(), Value::from("data")]].concat();
        world.words(&words).unwrap()
    };
    let first = sign("hmac-sha256", &key);
    assert_eq!(sign("hmac-sha256", &key), first);
    let other = sign("hmac-sha1", &key);
    assert_eq!(other, sign("hmac-sha1", &Value::from("0123456789")));
    assert_eq!(sign("hmac-sha256", &key), first);
    assert_eq!(
        sign("hmac-sha256", &Value::Int(1)),
        sign("hmac-sha256", &Value::from("1"))
    );
}

#[test]
fn a_signature_is_verified() {
    let mut world = World::new();
    let tag = run(
        &mut world,
        &[
            b"CRYPTO::sign",
            b"-alg",
            b"hmac-sha256",
            b"-key",
            b"k",
            b"data",
        ],
    );
    let tag = tag.unwrap();
    let mut verify = |tag: &[u8], data: &[u8]| {
        let words: [&[u8]; 8] = [
            b"CRYPTO::verify",
            b"-alg",
            b"hmac-sha256",
            b"-key",
            b"k",
            b"-signature",
            tag,
            data,
        ];
        run(&mut world, &words).unwrap().int().unwrap()
    };
    assert_eq!(verify(&tag.bytes(), b"data"), 1);
    assert_eq!(verify(&tag.bytes(), b"Data"), 0);
    assert_eq!(verify(&tag.bytes()[..31], b"data"), 0);
}

#[test]
fn digests_are_those_of_the_standards() {
    let mut world = World::new();
    for (algorithm, wanted) in [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "sha224",
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        ),
        (
            "sha256",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
    ] {
        assert_eq!(
            hexed(&mut world, &["CRYPTO::hash", "-alg", algorithm, "abc"]),
            wanted
        );
        hexed(
            &mut world,
            &["CRYPTO::hash", "-alg", algorithm, "-ctx", "h", "a"],
        );
        let words = ["CRYPTO::hash", "-ctx", "h", "-final", "bc"];
        assert_eq!(hexed(&mut world, &words), wanted);
        assert_eq!(
            hexed(&mut world, &["CRYPTO::hash", "-ctx", "h", "x"]),
            "!the context is finished"
        );
        world.unset("h");
    }
}

#[test]
fn ciphers_agree_with_the_standard_and_turn_back() {
    let mut world = World::new();
    // NIST SP 800-38A, F.2.1 and F.5.1: the first block.
    let key = "2b7e151628aed2a6abf7158809cf4f3c";
    let iv = "000102030405060708090a0b0c0d0e0f";
    let block = super::from_hex(b"6bc1bee22e409f96e93d7e117393172a").unwrap();
    let none: [&[u8]; 10] = [
        b"CRYPTO::encrypt",
        b"-alg",
        b"aes-128-cbc",
        b"-keyhex",
        key.as_bytes(),
        b"-ivhex",
        iv.as_bytes(),
        b"-padding",
        b"none",
        &block,
    ];
    let cbc = run(&mut world, &none).unwrap();
    assert_eq!(hex(&cbc.bytes()), "7649abac8119b246cee98e9b12e9197d");
    for (mode, key_len) in [
        ("cbc", 16),
        ("cfb", 24),
        ("ctr", 32),
        ("ecb", 16),
        ("ofb", 16),
        ("gcm", 24),
    ] {
        let algorithm = format!("aes-{}-{mode}", key_len * 8);
        let key = "ab".repeat(key_len);
        let iv = if mode == "gcm" {
            "01".repeat(12)
        } else {
            "01".repeat(16)
        };
        for data in ["", "x", "sixteen bytes of", &"long ".repeat(50)] {
            let mut crypt = |command: &str, data: &[u8]| {
                let words: [&[u8]; 8] = [
                    command.as_bytes(),
                    b"-alg",
                    algorithm.as_bytes(),
                    b"-keyhex",
                    key.as_bytes(),
                    b"-ivhex",
                    iv.as_bytes(),
                    data,
                ];
                run(&mut world, &words)
            };
            let sealed = crypt("CRYPTO::encrypt", data.as_bytes()).unwrap();
            assert!(
                !sealed.is(data.as_bytes()) || data.is_empty(),
                "{algorithm}"
            );
            let again = crypt("CRYPTO::decrypt", &sealed.bytes()).unwrap();
            assert!(again.is(data.as_bytes()), "{algorithm}");
            if mode == "gcm" {
                let mut bent = sealed.bytes().to_vec();
                bent[0] ^= 1;
                let error = crypt("CRYPTO::decrypt", &bent).unwrap_err();
                assert_eq!(error, "the data could not be decrypted");
            }
        }
    }
}

#[test]
fn data_is_encrypted_in_parts() {
    let mut world = World::new();
    let (key, iv) = ("k".repeat(32), "i".repeat(16));
    let head = [
        "CRYPTO::encrypt",
        "-alg",
        "aes-256-cbc",
        "-key",
        &key,
        "-iv",
        &iv,
    ];
    let whole = hexed(
        &mut world,
        &[&head[..], &["one two three four five"]].concat(),
    );
    let mut parts = hexed(
        &mut world,
        &[&head[..], &["-ctx", "e", "one two "]].concat(),
    );
    parts += &hexed(&mut world, &["CRYPTO::encrypt", "-ctx", "e", "three four "]);
    parts += &hexed(
        &mut world,
        &["CRYPTO::encrypt", "-ctx", "e", "-final", "five"],
    );
    assert_eq!(parts, whole);
}

#[test]
fn keys_are_made() {
    let mut world = World::new();
    let random = hexed(
        &mut world,
        &["CRYPTO::keygen", "-alg", "random", "-len", "256"],
    );
    assert_eq!(random.len(), 64);
    assert_ne!(
        random,
        hexed(
            &mut world,
            &["CRYPTO::keygen", "-alg", "random", "-len", "256"]
        )
    );
    // RFC 6070, the second test case.
    let words = [
        "CRYPTO::keygen",
        "-alg",
        "pbkdf2-sha1",
        "-len",
        "160",
        "-passphrase",
        "password",
        "-salt",
        "salt",
        "-rounds",
        "2",
    ];
    assert_eq!(
        hexed(&mut world, &words),
        "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"
    );
    assert_eq!(
        hexed(
            &mut world,
            &["CRYPTO::keygen", "-alg", "random", "-len", "12"]
        ),
        "!invalid length \"12\": must be a multiple of 8 up to 65536"
    );
}

#[test]
fn wrong_words_are_told() {
    let mut world = World::new();
    for (words, wanted) in [
        (
            vec!["CRYPTO::sign", "-alg", "hmac-sha9", "-key", "k", "d"],
            "!bad algorithm \"hmac-sha9\": must be hmac-md5, hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384, or hmac-sha512",
        ),
        (
            vec!["CRYPTO::sign", "-alg", "hmac-sha1", "d"],
            "!-key or -keyhex is missing",
        ),
        (
            vec!["CRYPTO::sign", "-frob", "x", "d"],
            "!bad option \"-frob\"",
        ),
        (vec!["CRYPTO::hash", "d"], "!-alg is missing"),
        (
            vec!["CRYPTO::hash", "-alg", "sha1", "--", "-final"],
            "2c72d5eaaa65142d566acd0a7d368e2c710fb7bb",
        ),
        (
            vec!["CRYPTO::sign", "-alg", "hmac-sha1", "-keyhex", "4", "d"],
            "!expected hexadecimal digits but got \"4\"",
        ),
        (
            vec![
                "CRYPTO::encrypt",
                "-alg",
                "aes-128-cbc",
                "-key",
                "short",
                "-iv",
                "x",
                "d",
            ],
            "!the key has 5 bytes: aes-128-cbc needs 16",
        ),
    ] {
        assert_eq!(hexed(&mut world, &words), wanted);
    }
}
