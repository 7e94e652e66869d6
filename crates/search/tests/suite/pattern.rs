//! The pattern grammar: every refusal of search contract 2 with its offset, and what is accepted.

use crate::support::{Place, assert_code, lines};
use flowcell_kernel::flows::error::Code;
use flowcell_search::{GrepQuery, Pattern};

/// Pattern, offset of the construct, a word of the message, the way out that the message ends with.
const REFUSED: &[(&str, usize, &str, &str)] = &[
    ("aé", 1, "printable ASCII", "."),
    ("a\tb", 1, "printable ASCII", "."),
    ("x(?:a)", 1, "(?:", "fixedStrings: true"),
    ("(?i)a", 0, "(?i", "fixedStrings: true"),
    ("(?=a)", 0, "(?=", "fixedStrings: true"),
    ("(?<n>a)", 0, "(?<", "fixedStrings: true"),
    ("(?P<n>a)", 0, "(?P", "fixedStrings: true"),
    ("a(?", 1, "(?", "fixedStrings: true"),
    ("ab\\d", 2, "\\d", "[0-9]"),
    ("\\w+", 0, "\\w", "[A-Za-z0-9_]"),
    ("\\s", 0, "\\s", "[^!-~]"),
    ("\\bneedle", 0, "\\b", "fixedStrings: true"),
    ("a\\n", 1, "\\n", "fixedStrings: true"),
    ("\\x41", 0, "\\x", "fixedStrings: true"),
    ("(a)\\1", 3, "\\1", "fixedStrings: true"),
    ("\\p{L}", 0, "\\p", "[A-Za-z]"),
    ("[\\d]", 1, "\\d", "[0-9]"),
    ("a\\", 1, "backslash", "fixedStrings: true"),
    ("[a\\", 2, "backslash", "fixedStrings: true"),
    ("\\\"", 0, "\\\"", "fixedStrings: true"),
    ("\\'", 0, "\\'", "fixedStrings: true"),
    ("\\<", 0, "\\<", "fixedStrings: true"),
    ("\\ ", 0, "\\ ", "fixedStrings: true"),
    ("a\\-", 1, "\\-", "fixedStrings: true"),
    ("[[a]", 1, "[", "\\["),
    ("[[:alpha:]]", 1, "[", "[A-Za-z]"),
    ("[]", 0, "empty class", "fixedStrings: true"),
    ("[^]", 0, "empty class", "fixedStrings: true"),
    ("x[]a]", 1, "empty class", "fixedStrings: true"),
    ("[a-z&&b]", 4, "&&", "once"),
    ("[a--b]", 2, "--", "\\-"),
    ("[a~~b]", 2, "~~", "once"),
    ("[z-a]", 1, "z-a", "fixedStrings: true"),
    ("[abc", 0, "\"]\"", "fixedStrings: true"),
    ("x[abc", 1, "\"]\"", "fixedStrings: true"),
    ("{", 0, "{", "fixedStrings: true"),
    ("a}", 1, "}", "fixedStrings: true"),
    ("x]", 1, "]", "fixedStrings: true"),
    ("fn f() {", 7, "{", "fixedStrings: true"),
    ("a{,3}", 1, "{", "fixedStrings: true"),
    ("a{x}", 1, "{", "fixedStrings: true"),
    ("a{2", 1, "{", "fixedStrings: true"),
    ("a{1001}", 1, "1000", "*"),
    ("a{1,1001}", 1, "1000", "*"),
    ("a{1001,}", 1, "1000", "*"),
    ("a{99999999999999999999999}", 1, "1000", "*"),
    ("a{3,2}", 1, "order", "first"),
    ("*a", 0, "nothing to repeat", "fixedStrings: true"),
    ("a**", 2, "nothing to repeat", "fixedStrings: true"),
    ("a{2}{3}", 4, "nothing to repeat", "fixedStrings: true"),
    ("a+??", 3, "nothing to repeat", "fixedStrings: true"),
    ("(|*)", 2, "nothing to repeat", "fixedStrings: true"),
    ("(*)", 1, "nothing to repeat", "fixedStrings: true"),
    ("^*", 1, "nothing to repeat", "fixedStrings: true"),
    ("$+", 1, "nothing to repeat", "fixedStrings: true"),
    ("{2}", 0, "nothing to repeat", "fixedStrings: true"),
    ("foo(", 3, "(", "fixedStrings: true"),
    ("((a)", 0, "(", "fixedStrings: true"),
    ("a)", 1, ")", "fixedStrings: true"),
    ("(a{1000}){9}", 9, "8192", "shorter"),
    ("a{1000}(b{1000}){8}", 16, "8192", "shorter"),
];

#[test]
fn every_refusal_names_its_construct_its_offset_and_the_way_out() {
    for (pattern, offset, construct, way_out) in REFUSED {
        let refusal = Pattern::regex(pattern).unwrap_err();
        assert_eq!(refusal.offset, *offset, "{pattern}: {refusal}");
        let message = refusal.to_string();
        assert!(message.contains(&format!("at byte {offset};")), "{pattern}: {message}");
        assert!(refusal.construct.contains(construct), "{pattern}: {message}");
        assert!(refusal.way_out.contains(way_out), "{pattern}: {message}");
    }
}

#[test]
fn the_refusal_is_the_answer_of_the_call() {
    let place = Place::new();
    for pattern in ["\\bneedle", "(?i)x", "foo(", "{"] {
        let error = assert_code(place.try_grep(lines(pattern)), Code::InvalidPattern);
        assert_eq!(error.message, Pattern::regex(pattern).unwrap_err().to_string());
    }
}

#[test]
fn bytes_and_length_are_checked_for_literals_too() {
    let place = Place::new();
    let literal = |pattern: &str| GrepQuery { fixed_strings: true, ..lines(pattern) };
    assert_code(place.try_grep(literal("é")), Code::InvalidPattern);
    assert_code(place.try_grep(literal("a\tb")), Code::InvalidPattern);
    assert_code(place.try_grep(literal(&"a".repeat(4097))), Code::InvalidPattern);
    place.grep(literal(&"(".repeat(4096)));
    place.grep(lines(&"a".repeat(4096)));
    assert_eq!(Pattern::regex(&"a".repeat(4097)).unwrap_err().offset, 4096);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    Pattern::regex(&nested(128)).unwrap();
    assert_eq!(Pattern::regex(&nested(129)).unwrap_err().offset, 128);
}

#[test]
fn what_is_accepted_compiles_and_matches() {
    let place = Place::new();
    place.write("f", "a\n(?x)\n[^]\na-b{1}\n]\n}\n/\n|\n\\\n$\n");
    for (pattern, want) in [
        ("\\(?x", vec!["f:2"]),
        ("[(?]", vec!["f:2"]),
        ("[\\^]", vec!["f:3"]),
        ("[a\\-]-", vec!["f:4"]),
        ("[a-]b", vec!["f:4"]),
        ("[-x]b", vec!["f:4"]),
        ("^[\\^-b]$", vec!["f:1"]),
        ("^[a-c-]$", vec!["f:1"]),
        ("\\{1\\}$", vec!["f:4"]),
        ("^[\\]]$", vec!["f:5"]),
        ("^[}]$", vec!["f:6"]),
        ("^\\/$", vec!["f:7"]),
        ("^\\|$", vec!["f:8"]),
        ("^\\\\$", vec!["f:9"]),
        ("^\\$$", vec!["f:10"]),
        ("^(a|)$", vec!["f:1"]),
        ("^()a{1,2}?()*$", vec!["f:1"]),
        ("^a+?(^)*$", vec!["f:1"]),
    ] {
        assert_eq!(place.found(lines(pattern)), want, "{pattern}");
    }
}

#[test]
fn the_largest_patterns_compile() {
    let place = Place::new();
    place.write("f", "a\n");
    let deep = format!("{}a{}", "(x|".repeat(128), ")+".repeat(128));
    for pattern in [
        "(.{1000}){8}",
        "([^a]{1000}){8}",
        "((a|b)?(c|d)*){700}",
        "(a{1000}){8}",
        "((a{1000}){9}){0}b",
        deep.as_str(),
    ] {
        for ignore_case in [false, true] {
            place.grep(GrepQuery { ignore_case, ..lines(pattern) });
        }
    }
}

#[test]
fn case_folds_simply() {
    let place = Place::new();
    place.write("f", "K\nk\n\u{212a}\nS\n\u{17f}\nstraße\n");
    let insensitive = |pattern: &str| GrepQuery { ignore_case: true, ..lines(pattern) };
    assert_eq!(place.found(insensitive("^k$")), ["f:1", "f:2", "f:3"]);
    assert_eq!(place.found(insensitive("^[s]$")), ["f:4", "f:5"]);
    assert_eq!(place.found(insensitive("strasse")), Vec::<String>::new());
    assert_eq!(place.found(GrepQuery { fixed_strings: true, ..insensitive("K") }), ["f:1", "f:2", "f:3"]);
    let smart = |pattern: &str| GrepQuery { smart_case: true, ..lines(pattern) };
    assert_eq!(place.found(smart("k")), ["f:1", "f:2", "f:3"]);
    assert_eq!(place.found(smart("K")), ["f:1"]);
    assert_eq!(place.found(smart("[A-Z]k|k")), ["f:2"]);
}
