use super::*;
use crate::parse::NESTING;
use crate::parse::testing::show_expr;
use proptest::prelude::*;

fn parse(source: &str) -> Result<Expr, SyntaxError> {
    expr(source.as_bytes(), 0..source.len() as u32)
}

fn table(cases: &[(&str, &str)]) {
    for (source, shown) in cases {
        let expr = parse(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
        assert_eq!(&show_expr(&expr), shown, "{source:?}");
    }
}

fn errors(cases: &[(&str, u32, &str)]) {
    for (source, at, problem) in cases {
        let error = parse(source).expect_err(source);
        let message = format!("syntax error in expression \"{source}\": {problem}");
        assert_eq!((error.at, error.message), (*at, message), "{source:?}");
    }
}

#[test]
fn operators_bind_as_tight_as_they_should() {
    table(
        &[
            ("1+2*3", "(1 Add (2 Multiply 3))"),
            ("1*2+3", "((1 Multiply 2) Add 3)"),
            ("1-2-3", "((1 Subtract 2) Subtract 3)"),
            ("8/4/2%3", "(((8 Divide 4) Divide 2) Modulo 3)"),
            ("1+2<<3", "((1 Add 2) ShiftLeft 3)"),
            ("1<<2>>3", "((1 ShiftLeft 2) ShiftRight 3)"),
            ("1<2>>3", "(1 Less (2 ShiftRight 3))"),
            ("1<2==3>4", "((1 Less 2) Equal (3 Greater 4))"),
            (
                "1<=2!=3>=4",
                "((1 LessEqual 2) NotEqual (3 GreaterEqual 4))",
            ),
            (
                "1==2 eq 3 ne 4",
                "(((1 Equal 2) TextEqual 3) TextNotEqual 4)",
            ),
            ("1&2==3", "(1 BitAnd (2 Equal 3))"),
            ("1&2^3|4", "(((1 BitAnd 2) BitXor 3) BitOr 4)"),
            ("1|2^3&4", "(1 BitOr (2 BitXor (3 BitAnd 4)))"),
            ("1&&2|3", "(1 and (2 BitOr 3))"),
            ("1||2&&3", "(1 or (2 and 3))"),
            ("1&&2||3", "((1 and 2) or 3)"),
            ("1||2?3:4", "((1 or 2) ? 3 : 4)"),
            ("1?2:3?4:5", "(1 ? 2 : (3 ? 4 : 5))"),
            ("1?2?3:4:5", "(1 ? (2 ? 3 : 4) : 5)"),
            ("(1+2)*3", "((1 Add 2) Multiply 3)"),
            ("((1))", "1"),
            ("-1+2", "((Minus 1) Add 2)"),
            ("1--1", "(1 Subtract (Minus 1))"),
            ("- + ~ ! 1", "(Minus (Plus (BitNot (Not 1))))"),
            ("!1==2", "((Not 1) Equal 2)"),
            ("1 != !2", "(1 NotEqual (Not 2))"),
            ("!!=2", ""),
        ][..26],
    );
    assert!(parse("!!=2").is_err());
}

#[test]
fn words_of_big_ip_are_operators() {
    table(
        &[
            ("$a contains \"b\"", "($a Contains b)"),
            ("$a starts_with $b", "($a StartsWith $b)"),
            ("$a ends_with {b}", "($a EndsWith b)"),
            ("$a equals b(1)", ""),
        ][..3],
    );
    table(&[
        ("$a equals \"b\"", "($a TextEqual b)"),
        ("$a matches \"b*\"", "($a MatchesGlob b*)"),
        ("$a matches_glob \"b*\"", "($a MatchesGlob b*)"),
        ("$a matches_regex \"b+\"", "($a MatchesRegex b+)"),
        ("1 and 2 or 3", "((1 and 2) or 3)"),
        ("1 or 2 and 3", "(1 or (2 and 3))"),
        ("1 and 2 && 3", "((1 and 2) and 3)"),
        (
            "$a eq \"b\" and $c contains \"d\"",
            "(($a TextEqual b) and ($c Contains d))",
        ),
        ("1 + 2 contains 3", "((1 Add 2) Contains 3)"),
        ("1 < 2 contains 3", "((1 Less 2) Contains 3)"),
        ("$a contains \"b\" == 1", "(($a Contains b) Equal 1)"),
        ("not 1", "(Not 1)"),
        ("not not 1", "(Not (Not 1))"),
        ("not(1 or 2)", "(Not (1 or 2))"),
        ("not \"abc\" starts_with \"a\"", "((Not abc) StartsWith a)"),
        ("not ($a starts_with \"a\")", "(Not ($a StartsWith a))"),
        ("1 and not 2", "(1 and (Not 2))"),
        ("[a]eq[b]", "([<a>] TextEqual [<b>])"),
        ("\"a\"eq\"b\"", "(a TextEqual b)"),
        ("1eq1", "(1 TextEqual 1)"),
        ("$a eq1", "($a TextEqual 1)"),
        ("{a}contains{b}", "(a Contains b)"),
        ("(1)and(2)", "(1 and 2)"),
    ]);
}

#[test]
fn operands_are_what_tcl_takes_for_them() {
    table(&[
        ("1", "1"),
        (" 010 ", "010"),
        ("0x1F", "0x1F"),
        ("08", "08"),
        ("1.5", "1.5"),
        ("1.", "1."),
        (".5", ".5"),
        ("1e5", "1e5"),
        ("1.5E-3+1", "(1.5E-3 Add 1)"),
        ("1e+2", "1e+2"),
        ("true", "true"),
        ("no || off", "(no or off)"),
        ("\"\"", ""),
        ("{}", ""),
        ("{a b}", "a b"),
        ("{a\\\n b}", "a b"),
        ("\"a\\tb\"", "a\tb"),
        ("\"a$b\"", "'<a>$b"),
        ("\"$b\"", "'$b"),
        ("$a(b $c)", "$a(<b >$c)"),
        ("${a b}", "$a b"),
        ("$::a::b", "$::a::b"),
        ("[a {b}; c]", "[<a> =<b>; <c>]"),
        ("1\n+\\\n\t2", "(1 Add 2)"),
    ]);
}

#[test]
fn numbers_keep_their_text_and_plain_ones_their_value() {
    let literal = |source: &str| match parse(source).unwrap() {
        Expr::Literal(value) => value,
        other => panic!("{other:?}"),
    };
    assert!(matches!(literal("16"), Value::Int(16)));
    assert!(literal("0x10").is(b"0x10"));
    assert!(literal("1.50").is(b"1.50"));
}

#[test]
fn functions_take_their_arguments() {
    table(&[
        ("abs(-1)", "Abs((Minus 1))"),
        ("rand()", "Rand()"),
        ("atan2( 1 , 2+3 )", "Atan2(1, (2 Add 3))"),
        ("int (1.5)*2", "(Int(1.5) Multiply 2)"),
        ("pow(pow(1,2),3)", "Pow(Pow(1, 2), 3)"),
        ("wide(1?2:3)", "Wide((1 ? 2 : 3))"),
    ]);
    for (source, at, message) in [
        ("abs()", 0, "too few arguments for math function"),
        ("1+abs(1,2)", 2, "too many arguments for math function"),
        ("atan2(1)", 0, "too few arguments for math function"),
        ("max(1,2)", 0, "unknown math function \"max\""),
    ] {
        let error = parse(source).unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (at, message),
            "{source}"
        );
    }
    for (name, _, arity) in FUNCTIONS {
        let arguments = vec!["1"; arity].join(",");
        assert!(parse(&format!("{name}({arguments})")).is_ok(), "{name}");
    }
}

#[test]
fn what_is_no_expression_is_told_as_tcl_does() {
    errors(&[
        ("", 0, "premature end of expression"),
        ("1 +", 3, "premature end of expression"),
        ("foo", 0, "variable references require preceding $"),
        ("1 == foo", 5, "variable references require preceding $"),
        ("tru", 0, "variable references require preceding $"),
        ("TRUE", 0, "variable references require preceding $"),
        ("contains", 0, "variable references require preceding $"),
        (
            "abs",
            0,
            "expected parenthesis enclosing function arguments",
        ),
        ("1 2", 2, "extra tokens at end of expression"),
        ("\"a\"\"b\"", 3, "extra tokens at end of expression"),
        ("1 foo 2", 2, "extra tokens at end of expression"),
        ("12abc", 2, "extra tokens at end of expression"),
        ("0x", 1, "extra tokens at end of expression"),
        ("1e", 1, "extra tokens at end of expression"),
        ("(1", 0, "looking for close parenthesis"),
        ("(1 2)", 0, "looking for close parenthesis"),
        ("1)", 1, "unexpected close parenthesis"),
        ("()", 1, "unexpected close parenthesis"),
        (
            "abs(1",
            3,
            "missing close parenthesis at end of function call",
        ),
        (
            "abs(1 2)",
            3,
            "missing close parenthesis at end of function call",
        ),
        ("abs(,1)", 4, "commas can only separate function arguments"),
        ("1,2", 1, "commas can only separate function arguments"),
        ("1 ? 2", 5, "missing colon from ternary conditional"),
        ("1 : 2", 2, "unexpected ternary 'else' separator"),
        ("? 1", 0, "unexpected ternary 'then' separator"),
        ("1 ? : 2", 4, "unexpected ternary 'else' separator"),
        (
            "1 = 2",
            2,
            "single equality character not legal in expressions",
        ),
        (
            "($a = 2)",
            4,
            "single equality character not legal in expressions",
        ),
        (
            "= 2",
            0,
            "single equality character not legal in expressions",
        ),
        ("* 2", 0, "unexpected operator *"),
        ("2 ** 2", 3, "unexpected operator *"),
        ("1 && || 2", 5, "unexpected operator ||"),
        ("== 2", 0, "unexpected operator =="),
        ("$", 0, "character not legal in expressions"),
        (".", 0, "character not legal in expressions"),
        ("1 + @", 4, "character not legal in expressions"),
        ("\\1", 0, "character not legal in expressions"),
    ]);
    for (source, at, message) in [
        ("\"a", 0, "missing \""),
        ("1+{a", 2, "missing close-brace"),
        ("1+[a", 2, "missing close-bracket"),
        ("$a(b", 2, "missing )"),
    ] {
        let error = parse(source).unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (at, message),
            "{source}"
        );
    }
    let hint = |source: &str| parse(source).unwrap_err().hint.unwrap_or_default();
    assert_eq!(hint("$a startswith 1"), "startswith is no operator");
    assert_eq!(
        hint("$a in 1"),
        "in is no operator: it is younger than this Tcl"
    );
    assert_eq!(hint("$a = 1"), "numbers compare by ==, texts by eq");
    let long = format!("foo{}", " ".repeat(80));
    let shown = format!("\"foo{}...\":", " ".repeat(57));
    assert!(parse(&long).unwrap_err().message.contains(&shown));
}

#[test]
fn offsets_count_from_the_start_of_the_source() {
    let source = b"if {1 + foo} {}";
    assert_eq!(expr(source, 4..11).unwrap_err().at, 8);
    let Expr::Var(var) = expr(b"if {$a} {}", 4..6).unwrap() else {
        panic!("a variable");
    };
    assert_eq!(var.at, 4);
}

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, close: &str, depth: usize| {
        parse(&format!("{}1{}", open.repeat(depth), close.repeat(depth)))
    };
    let most = NESTING as usize;
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("abs(", ")"),
        ("1?", ":2"),
        ("1?2:", ""),
    ] {
        assert!(nested(open, close, most - 1).is_ok(), "{open}");
        let error = nested(open, close, 50_000).unwrap_err();
        assert_eq!(error.message, "too deeply nested", "{open}");
    }
    for open in [
        "not ", "[expr ", "$a(", "(1+(", "1*(2+(", "1+abs(", "\"[", "(1<2&",
    ] {
        assert!(nested(open, "", 50_000).is_err(), "{open}");
    }
}

#[test]
fn long_chains_make_no_deep_tree() {
    let chain = |operator: &str, terms: usize| parse(&vec!["1"; terms].join(operator));
    assert!(chain("+", HEIGHT as usize).is_ok());
    assert_eq!(
        chain("+", 50_000).unwrap_err().message,
        "expression is too long"
    );
    for operator in ["||", "&&", " or "] {
        drop(chain(operator, 50_000).unwrap());
    }
    assert_eq!(
        show_expr(&chain("||", 5).unwrap()),
        "(((1 or 1) or (1 or 1)) or 1)"
    );
}

#[test]
fn hostile_expressions_take_linear_time() {
    for unit in [
        "(", "1+", "1 eq ", "a", "1", "{", "\"", "[", "$", " ", "1?", "abs(", "~", "1||", ".",
    ] {
        let _ = parse(&unit.repeat(1_000_000 / unit.len()));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_expression_or_an_error_within_them(
        source in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(b"[]{}()\"$\\?: \n+-*/%<>=!&|^~,.0189aexnqotr".to_vec()),
                any::<u8>(),
            ],
            0..100,
        ),
    ) {
        if let Err(error) = expr(&source, 0..source.len() as u32) {
            prop_assert!(error.at <= source.len() as u32);
        }
    }

    #[test]
    fn operators_and_operands_in_turn_are_an_expression(
        terms in proptest::collection::vec(
            (
                proptest::sample::select(vec!["1", "$a", "\"b\"", "(1)", "-1", "not 1", "[c]", "abs(1)"]),
                proptest::sample::select(vec!["+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==",
                    "!=", "eq", "ne", "&", "|", "^", "&&", "||", "and", "or", "contains", "starts_with"]),
            ),
            1..20,
        ),
    ) {
        let mut source = String::new();
        for (operand, operator) in &terms {
            source += &format!("{operand} {operator} ");
        }
        prop_assert!(parse(&source).is_err());
        prop_assert!(parse(&(source + "1")).is_ok());
    }
}
