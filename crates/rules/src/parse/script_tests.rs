use super::*;
use crate::ast::{Part, WordKind};
use crate::parse::NESTING;
use crate::parse::testing::show_script;
use proptest::prelude::*;

fn parse(source: &str) -> Result<Script, SyntaxError> {
    script(source.as_bytes(), 0..source.len() as u32)
}

fn table(cases: &[(&str, &str)]) {
    for (source, shown) in cases {
        let script = parse(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
        assert_eq!(&show_script(&script), shown, "{source:?}");
    }
}

fn errors(cases: &[(&str, u32, &str)]) {
    for (source, at, message) in cases {
        let error = parse(source).expect_err(source);
        assert_eq!(
            (error.at, error.message.as_str()),
            (*at, *message),
            "{source:?}"
        );
    }
}

#[test]
fn commands_end_at_newlines_and_semicolons() {
    table(&[
        ("", ""),
        (" \t\r\n ;; \n", ""),
        ("a b", "<a> <b>"),
        ("a b\nc d", "<a> <b>; <c> <d>"),
        ("a;b ; c", "<a>; <b>; <c>"),
        ("a\r\nb\r\n", "<a>; <b>"),
        ("a\x0bb\x0cc", "<a> <b> <c>"),
        ("a \\\n  b", "<a> <b>"),
        ("a\\\nb", "<a> <b>"),
        ("a \\\r\n\tb", "<a> <b>"),
        ("a\\\n", "<a>"),
        ("\\\n a", "<a>"),
        ("a \\\n\nb", "<a>; <b>"),
        ("a \\\n;b", "<a>; <b>"),
        ("a }", "<a> <}>"),
        ("}", "<}>"),
        ("a ]b] ]", "<a> <]b]> <]>"),
        ("é", "<Ã©>"),
    ]);
}

#[test]
fn comments_stand_only_where_a_command_begins() {
    table(&[
        ("# a\nb", "<b>"),
        ("#", ""),
        ("  # {\n b", "<b>"),
        ("a # b", "<a> <#> <b>"),
        ("a;# b\nc", "<a>; <c>"),
        ("# a \\\n b\nc", "<c>"),
        ("# a \\\r\n b\nc", "<c>"),
        ("# a \\\\\nb", "<b>"),
        ("# a \\", ""),
        ("[# a ]\nb]", "[<b>]"),
        ("a#b", "<a#b>"),
        ("{#}", "=<#>"),
    ]);
}

#[test]
fn bare_words_are_what_stands_between_blanks() {
    table(&[
        ("a\"b c\"d", "<a\"b> <c\"d>"),
        ("a{b c}d", "<a{b> <c}d>"),
        ("a(b c)", "<a(b> <c)>"),
        ("-1 +2", "<-1> <+2>"),
        ("a\0b", "<a\0b>"),
        ("a\\ b", "<a b>"),
        ("a\\;b", "<a;b>"),
        ("\\{ \\}", "<{> <}>"),
        ("\\\"a", "<\"a>"),
        ("\\", "<\\>"),
        ("a\\", "<a\\>"),
        ("\\#", "<#>"),
    ]);
}

#[test]
fn quotes_keep_blanks_together() {
    table(&[
        ("\"\"", "'<>"),
        ("a \"b c\" d", "<a> '<b c> <d>"),
        ("\"a\nb;c\"", "'<a\nb;c>"),
        ("\"a\\\n   b\"", "'<a b>"),
        ("\"a \\\"b\\\" c\"", "'<a \"b\" c>"),
        ("\"{a\" b", "'<{a> <b>"),
        ("\"[a \"b c\"]\"", "'[<a> '<b c>]"),
        ("\"$a(b\"c)\"", "'$a(<b\"c>)"),
        ("\"a]b\"", "'<a]b>"),
        ("[\"a\"]", "['<a>]"),
        ("\"a\";b", "'<a>; <b>"),
        ("\"a\"\\\nb", "'<a> <b>"),
        ("\"a\"{b}", "'<a> =<b>"),
    ]);
    errors(&[
        ("\"a\"b", 3, "extra characters after close-quote"),
        ("\"a\"\"b\"", 3, "extra characters after close-quote"),
        ("\"a\"]", 3, "extra characters after close-quote"),
        ("\"a\"\\b", 3, "extra characters after close-quote"),
        ("a \"b", 2, "missing \""),
        ("a \"b\\\"", 2, "missing \""),
    ]);
}

#[test]
fn braces_keep_everything_as_it_is() {
    table(&[
        ("{}", "=<>"),
        ("{a b}", "=<a b>"),
        ("{a {b} c}", "=<a {b} c>"),
        ("{$a [b] \\n}", "=<$a [b] \\n>"),
        ("{a\\\n   b}", "=<a b>"),
        ("{a\\\r\n b}", "=<a b>"),
        ("{a\\\\\n b}", "=<a\\\\\n b>"),
        ("{a \\} b}", "=<a \\} b>"),
        ("{a \\{ b}", "=<a \\{ b>"),
        ("{\"}", "=<\">"),
        ("{a\nb}\nc", "=<a\nb>; <c>"),
    ]);
    errors(&[
        ("a {b", 2, "missing close-brace"),
        ("a {b {c}", 2, "missing close-brace"),
        ("a {\\}", 2, "missing close-brace"),
        ("a {b\\", 2, "missing close-brace"),
        ("[a {b]", 3, "missing close-brace"),
    ]);
}

#[test]
fn a_word_may_begin_right_after_a_brace() {
    table(&[
        ("if {a}{b}", "<if> =<a> =<b>"),
        ("if {a} {b}else{c}", "<if> =<a> =<b> <else> =<c>"),
        ("if {a} then{b}", "<if> =<a> <then> =<b>"),
        (
            "if {a} {b} elseif{c} {d}",
            "<if> =<a> =<b> <elseif> =<c> =<d>",
        ),
        ("if {a} {b}\nelse{c}", "<if> =<a> =<b> <else> =<c>"),
        ("if {a} {b};else{c}", "<if> =<a> =<b>; <else{c}>"),
        ("a {b} else{c}", "<a> =<b> <else{c}>"),
        ("if {a} {b}else {c}", "<if> =<a> =<b> <else> =<c>"),
        ("a {b}\"c\"", "<a> =<b> '<c>"),
        ("a {b}$c", "<a> =<b> $c"),
        ("a {b}[c]", "<a> =<b> [<c>]"),
        ("[a {b}]", "[<a> =<b>]"),
        ("a {b};c", "<a> =<b>; <c>"),
        ("a {*} b", "<a> =<*> <b>"),
        ("[a {*}]", "[<a> =<*>]"),
    ]);
    errors(&[
        ("a {b}}", 5, "extra characters after close-brace"),
        ("a {*}$b", 5, "extra characters after close-brace"),
        ("a {*}{b}", 5, "extra characters after close-brace"),
    ]);
}

#[test]
fn an_else_on_the_next_line_belongs_to_its_if() {
    table(&[
        ("if a {b}\nelse {c}", "<if> <a> =<b> <else> =<c>"),
        (
            "if a {b}\n\n  # why\n else {c}\nd",
            "<if> <a> =<b> <else> =<c>; <d>",
        ),
        (
            "if a {b}\nelseif c {d}\nelse {e}",
            "<if> <a> =<b> <elseif> <c> =<d> <else> =<e>",
        ),
        ("if {a}\nthen {b}", "<if> =<a> <then> =<b>"),
        ("[if a {b}\nelse {c}]", "[<if> <a> =<b> <else> =<c>]"),
        ("if a {b};else {c}", "<if> <a> =<b>; <else> =<c>"),
        ("if a b\nelse {c}", "<if> <a> <b>; <else> =<c>"),
        ("if a {b}\n\"else\" {c}", "<if> <a> =<b>; '<else> =<c>"),
        ("if a {b}\n$else {c}", "<if> <a> =<b>; $else =<c>"),
        ("while a {b}\nelse {c}", "<while> <a> =<b>; <else> =<c>"),
        ("else {c}", "<else> =<c>"),
    ]);
    let joined = parse("if a {b}\nelse {c} ;").unwrap();
    assert_eq!((joined.commands[0].at, joined.commands[0].end), (0, 17));
}

#[test]
fn variables_are_named_by_letters_digits_and_pairs_of_colons() {
    table(&[
        ("$a", "$a"),
        ("$a_9-b", "$a_9<-b>"),
        ("a$b.c", "<a>$b<.c>"),
        ("$a$b", "$a$b"),
        ("$::a", "$::a"),
        ("$static::a", "$static::a"),
        ("$a:b", "$a<:b>"),
        ("$a::", "$a::"),
        ("$a:::b", "$a:::b"),
        ("$:a", "<$:a>"),
        ("$", "<$>"),
        ("$ a", "<$> <a>"),
        ("a$", "<a$>"),
        ("\"$\"", "'<$>"),
        ("$$a", "<$>$a"),
        ("$\\a", "<$\x07>"),
        ("$é", "<$Ã©>"),
        ("${a b}c", "$a b<c>"),
        ("${}", "$"),
        ("${a\\}", "$a\\"),
        ("${a(b c)}", "$a(<b c>)"),
        ("${a()}", "$a(<>)"),
        ("${a(b)c}", "$a(b)c"),
        ("{$a}", "=<$a>"),
        ("\\$a", "<$a>"),
    ]);
    errors(&[
        ("a ${b", 3, "missing close-brace for variable name"),
        ("${", 1, "missing close-brace for variable name"),
    ]);
}

#[test]
fn indices_are_substituted() {
    table(&[
        ("$a(b)", "$a(<b>)"),
        ("$a()", "$a(<>)"),
        ("$(b)", "$(<b>)"),
        ("$a(b c)d", "$a(<b c>)<d>"),
        ("$a($b)", "$a($b)"),
        ("$a($b,$c)", "$a($b<,>$c)"),
        ("$a([b c])", "$a([<b> <c>])"),
        ("$a([b {)}])", "$a([<b> =<)>])"),
        ("$a($b($c))", "$a($b($c))"),
        ("$static::a($b)", "$static::a($b)"),
        ("$a(b\\)c)", "$a(<b)c>)"),
        ("$a(\"{;\n)", "$a(<\"{;\n>)"),
        ("$a(b)(c)", "$a(<b>)<(c)>"),
    ]);
    errors(&[
        ("$a(b", 2, "missing )"),
        ("x [y $a(b]", 7, "missing )"),
        ("$a($b(c)", 2, "missing )"),
    ]);
}

#[test]
fn brackets_hold_scripts() {
    table(&[
        ("a [b c] d", "<a> [<b> <c>] <d>"),
        ("a[b]c", "<a>[<b>]<c>"),
        ("[]", "[]"),
        ("[ ; \n]", "[]"),
        ("[a;b]", "[<a>; <b>]"),
        ("[a [b [c]]]", "[<a> [<b> [<c>]]]"),
        ("[a\n]", "[<a>]"),
        ("[a \"]\"]", "[<a> '<]>]"),
        ("[a {]}]", "[<a> =<]>]"),
        ("[a \\]]", "[<a> <]>]"),
        ("[a]]", "[<a>]<]>"),
        ("\\[a\\]", "<[a]>"),
    ]);
    errors(&[
        ("a [b", 2, "missing close-bracket"),
        ("a [b [c]", 2, "missing close-bracket"),
        ("a [b [c", 5, "missing close-bracket"),
        ("[# a]", 0, "missing close-bracket"),
        ("[a \"]", 3, "missing \""),
    ]);
}

#[test]
fn backslashes_stand_for_bytes() {
    table(&[
        ("\\a\\b\\f\\n\\r\\t\\v", "<\x07\x08\x0c\n\r\t\x0b>"),
        ("\\q\\\\\\ ", "<q\\ >"),
        ("\\0 \\7 \\10 \\101", "<\0> <\x07> <\x08> <A>"),
        ("\\1011 \\400 \\377", "<A1> <\0> <ÿ>"),
        ("\\8 \\18", "<8> <\x018>"),
        ("\\x41 \\x4 \\x4g", "<A> <\x04> <\x04g>"),
        ("\\x \\xg", "<x> <xg>"),
        ("\\x4142 \\xfffff00041", "<B> <A>"),
        ("\\u41 \\u0041 \\u00419", "<A> <A> <A9>"),
        ("\\u \\ug", "<u> <ug>"),
        ("\\u00e9 \\u0e9g", "<é> <ég>"),
        ("\\u20ac", "<\u{e2}\u{82}\u{ac}>"),
        ("\\u0100", "<\u{c4}\u{80}>"),
        ("\\ud800", "<\u{ed}\u{a0}\u{80}>"),
    ]);
}

#[test]
fn offsets_count_from_the_start_of_the_source() {
    let source = b"when A { set b {c $d} ; [e] }";
    let script = script(source, 8..28).unwrap();
    let set = &script.commands[0];
    assert_eq!((set.at, set.end), (9, 21));
    let word = &set.words[2];
    assert_eq!((word.at, word.inner.clone()), (15, Some(16..20)));
    assert_eq!(word.kind, WordKind::Braced);
    let Part::Script(inner) = &script.commands[1].words[0].parts[0] else {
        panic!("a script in brackets");
    };
    assert_eq!((inner.commands[0].at, inner.commands[0].end), (25, 26));
    let body = self::script(source, 16..20).unwrap();
    let Part::Var(var) = &body.commands[0].words[1].parts[0] else {
        panic!("a variable");
    };
    assert_eq!(var.at, 18);
}

#[test]
fn the_end_of_the_range_is_the_end_of_the_text() {
    let source = b"{a} {b}";
    assert!(script(source, 0..2).is_err());
    assert_eq!(show_script(&script(source, 0..3).unwrap()), "=<a>");
    assert!(script(source, 9..99).unwrap().commands.is_empty());
}

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, close: &str, depth: u32| {
        let depth = depth as usize;
        parse(&(open.repeat(depth) + &close.repeat(depth)))
    };
    assert!(nested("[", "]", NESTING).is_ok());
    assert!(nested("$a(", ")", NESTING).is_ok());
    for open in ["[", "$a(", "\"$a(["] {
        for close in ["]", ")", ""] {
            let error = nested(open, close, 30_000).unwrap_err();
            assert_eq!(error.message, "too deeply nested");
        }
    }
    assert!(nested("{", "}", 50_000).is_ok());
}

#[test]
fn hostile_texts_take_linear_time() {
    // Each would take minutes if a part of it were read once for every byte.
    for unit in [
        "{", "\"", "\\", "$", "[a]", "${a}", "$a(b)", "\\\n ", "# \\\n", ";", "}\n", "{} ",
    ] {
        let _ = parse(&unit.repeat(1_000_000 / unit.len()));
        let _ = parse(&format!("\"{}", unit.repeat(1_000_000 / unit.len())));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_script_or_an_error_within_them(
        source in proptest::collection::vec(
            prop_oneof![proptest::sample::select(b"[]{}()\"$\\;\n #a:".to_vec()), any::<u8>()],
            0..200,
        ),
        from in 0_u32..100,
    ) {
        let range = from..source.len() as u32;
        match script(&source, range.clone()) {
            Err(error) => prop_assert!(error.at <= source.len() as u32),
            Ok(script) => {
                let mut end = 0;
                for command in &script.commands {
                    prop_assert!(command.at >= end && command.end > command.at);
                    prop_assert!(!command.words.is_empty());
                    end = command.end;
                }
                prop_assert!(end <= source.len() as u32);
            }
        }
    }

    #[test]
    fn words_written_with_backslashes_read_back(
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 1..6),
    ) {
        let write = |word: &Vec<u8>| -> String {
            word.iter().map(|byte| format!("\\{byte:03o}")).collect()
        };
        let source = words.iter().map(write).collect::<Vec<_>>().join(" ");
        let script = parse(&source).unwrap();
        let read: Vec<_> = script.commands[0].words.iter().map(|word| word.literal().unwrap().to_vec()).collect();
        prop_assert_eq!(read, words);
    }
}
