use super::*;
use crate::parse::testing::show_script;
use proptest::prelude::*;

fn read(source: &str) -> RuleAst {
    rule(source.as_bytes()).unwrap_or_else(|errors| panic!("{source:?}: {errors:?}"))
}

fn problems(source: &str) -> Vec<(u32, String)> {
    let errors = rule(source.as_bytes()).expect_err(source);
    let problem = |error: SyntaxError| (error.at, error.message);
    errors.into_iter().map(problem).collect()
}

#[test]
fn handlers_have_events_options_and_bodies() {
    let rule = read(
        "# what it does\n\nwhen CLIENT_ACCEPTED {\n  set a 1\n}\nwhen HTTP_REQUEST priority 5 timing on {b}\n\
         when HTTP_REQUEST timing off priority 7 {c;d}\nwhen CLIENT_CLOSED{e}",
    );
    let shown: Vec<_> = rule
        .handlers
        .iter()
        .map(|h| (h.event.as_str(), h.priority, h.timing, show_script(&h.body)))
        .collect();
    assert_eq!(
        shown,
        [
            ("CLIENT_ACCEPTED", None, None, "<set> <a> <1>".to_string()),
            ("HTTP_REQUEST", Some(5), Some(true), "<b>".to_string()),
            ("HTTP_REQUEST", Some(7), Some(false), "<c>; <d>".to_string()),
            ("CLIENT_CLOSED", None, None, "<e>".to_string()),
        ]
    );
}

#[test]
fn offsets_lead_back_into_the_text() {
    let source = "when A {\n b }\nproc c {} { d }";
    let rule = read(source);
    let handler = &rule.handlers[0];
    assert_eq!((handler.at, handler.event_at), (0, 5));
    assert_eq!(handler.body_range, 8..12);
    assert_eq!(handler.body.commands[0].at, 10);
    let procedure = &rule.procs[0];
    assert_eq!(procedure.at, 14);
    assert_eq!(procedure.body.commands[0].at, 26);
    assert_eq!(&source[25..28], " d ");
    assert_eq!(procedure.body_range, 25..28);
}

#[test]
fn settings_at_the_top_hold_for_what_follows() {
    let rule = read(
        "when A {}\npriority 10\ntiming on\nwhen B {}\nwhen C timing off priority 3 {}\ntiming off\nwhen D {}",
    );
    let shown: Vec<_> = rule
        .handlers
        .iter()
        .map(|handler| (handler.priority, handler.timing))
        .collect();
    assert_eq!(
        shown,
        [
            (None, None),
            (Some(10), Some(true)),
            (Some(3), Some(false)),
            (Some(10), Some(false))
        ]
    );
}

#[test]
fn procedures_have_parameters_with_defaults() {
    let rule = read("proc a {b {c 1} {d {}} args} {e}\nproc f b {}\nproc g {} {}");
    let param = |name: &str, default: Option<&str>| Param {
        name: name.into(),
        default: default.map(|text| text.as_bytes().to_vec()),
    };
    let params: Vec<_> = rule.procs.iter().map(|p| p.params.clone()).collect();
    assert_eq!(
        params,
        [
            vec![
                param("b", None),
                param("c", Some("1")),
                param("d", Some("")),
                param("args", None)
            ],
            vec![param("b", None)],
            vec![],
        ]
    );
    assert_eq!(rule.procs[0].name, b"a");
}

#[test]
fn an_empty_rule_is_one() {
    assert!(read("").handlers.is_empty());
    assert!(read("# nothing\n").procs.is_empty());
}

#[test]
fn what_does_not_belong_at_the_top_is_an_error() {
    for (source, at, message) in [
        (
            "set a 1",
            0,
            "only when and proc may stand at the top of a rule",
        ),
        (
            "when A {}\n}",
            10,
            "only when and proc may stand at the top of a rule",
        ),
        (
            "$when A {}",
            0,
            "only when and proc may stand at the top of a rule",
        ),
        (
            "ltm rule a {}",
            0,
            "only when and proc may stand at the top of a rule",
        ),
        ("when", 0, "when has no event"),
        ("when A", 5, "when has no body"),
        ("when {A} {}", 5, "an event's name cannot be computed"),
        ("when $a {}", 5, "an event's name cannot be computed"),
        ("when A{b", 6, "missing close-brace"),
        ("when A b", 7, "the body of when must be in braces"),
        ("when A \"b\"", 7, "the body of when must be in braces"),
        ("when A b {}", 7, "only priority and timing go with when"),
        ("when A priority {}", 7, "an option without a value"),
        (
            "when A priority 0 {}",
            16,
            "a priority is a number from 1 to 1000",
        ),
        (
            "when A priority 1001 {}",
            16,
            "a priority is a number from 1 to 1000",
        ),
        (
            "when A priority x {}",
            16,
            "a priority is a number from 1 to 1000",
        ),
        ("when A priority 1 priority 2 {}", 18, "given twice"),
        ("when A timing yes {}", 14, "timing is on or off"),
        ("timing", 0, "one value must follow"),
        ("timing maybe", 7, "timing is on or off"),
        ("priority 5000", 9, "a priority is a number from 1 to 1000"),
        (
            "proc a {}",
            0,
            "wrong # args: should be \"proc name args body\"",
        ),
        ("proc a {} b", 10, "the body of proc must be in braces"),
        (
            "proc $a {} {}",
            0,
            "the name and the parameters of a procedure cannot be computed",
        ),
        (
            "proc a {{}} {}",
            7,
            "procedure \"a\" has argument with no name",
        ),
        (
            "proc a {{b c d}} {}",
            7,
            "too many fields in argument specifier \"b c d\"",
        ),
        ("proc a {\\{} {}", 7, "unmatched open brace in list"),
        ("when A {b \"c}", 10, "missing \""),
        ("when A {[b}", 8, "missing close-bracket"),
        ("when A {b", 7, "missing close-brace"),
    ] {
        let found = problems(source);
        assert_eq!(found[0], (at, message.to_string()), "{source:?}");
    }
}

#[test]
fn several_errors_are_found_at_once() {
    let source =
        "when A {\n [b\n}\nset c\nwhen D priority x {}\nwhen E {\n f {\n}\nwhen G { \"h }\n";
    let found = problems(source);
    let messages: Vec<_> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "missing close-bracket",
            "only when and proc may stand at the top of a rule",
            "a priority is a number from 1 to 1000",
            "missing close-brace",
            "missing \"",
        ]
    );
    assert_eq!(problems(&"set a\n".repeat(100)).len(), MOST_ERRORS);
}

#[test]
fn a_missing_brace_is_looked_for_above_what_it_swallows() {
    let source = "when A {\n if {b} {\n}\n\nwhen C { d }\n";
    let errors = rule(source.as_bytes()).unwrap_err();
    assert_eq!(errors[0].at, 7);
    let hint = errors[0].hint.as_deref().unwrap();
    assert!(hint.starts_with("line 5 looks as if"), "{hint}");
}

#[test]
fn hostile_rules_take_linear_time() {
    for unit in [
        "{",
        "when A {\n",
        "when A \"",
        "proc a {",
        "when A {}\n",
        "x\n",
        "[",
        "\\\n",
        "#\n",
    ] {
        let _ = rule(unit.repeat(1_000_000 / unit.len()).as_bytes());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_rule_or_errors_within_them(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "when ", "proc ", "A ", "priority ", "timing ", "on ", "5 ", "{", "}", "[", "]", "\n", "\"",
                    "a b", "$a(", ")", "else ", "if ", "\\", "#", ";",
                ]).prop_map(|piece| piece.as_bytes().to_vec()),
                proptest::collection::vec(any::<u8>(), 1..3),
            ],
            0..60,
        ),
    ) {
        let source = pieces.concat();
        if let Err(errors) = rule(&source) {
            prop_assert!(!errors.is_empty() && errors.len() <= MOST_ERRORS);
            for error in errors {
                prop_assert!(error.at <= source.len() as u32);
            }
        }
    }
}
