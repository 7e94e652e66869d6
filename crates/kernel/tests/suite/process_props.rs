//! Lines at random, and the seeds of the fuzz target, against the rules about lines.
#![allow(clippy::disallowed_methods, reason = "tests read how much they are to do")]

use std::path::Path;

use flowcell_kernel::flows::rules::Effect;
use flowcell_kernel::process::{Command, Plan, candidates_of_line, is_credential_name, render_argv, scan};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::process_oracle::check;

const CASES: u32 = 256;
const FULL_CASES: u32 = 50_000;

fn cases() -> u32 {
    if std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full") {
        FULL_CASES
    } else {
        CASES
    }
}

fn run<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(strategy, test).unwrap();
}

/// Pieces of lines, those that mean something to a shell more often than their share.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "c", "rm", "cargo", "ls", "x", "publish", "--dry-run", "secret", "-rf"]),
        8 => Just(" "),
        4 => prop::sample::select(vec![";", "&", "&&", "||", "|", "|&", "\n", ";;"]),
        3 => prop::sample::select(vec!["'", "\"", "\\", "`", "$", "$(", "${", "}", "{", "(", ")", "$'", "$((", "))", "$["]),
        2 => prop::sample::select(vec![">", ">>", "<", "<<", "<<-", "<<<", "2>&1", ">/dev/null", ">&", "&>", "<(", "<<E\n", "\nE\n", "<<'E'\n"]),
        2 => prop::sample::select(vec![
            "sudo ", "env ", "bash -c ", "eval ", "if ", "then ", "do ", "case ", " in ", "esac", "xargs ", "find . -exec ",
            "nice -n 5 ", "timeout 5 ", "A=1 ", "#", "!", "{}", "*", "?", "[", "]", "é", "\t", "\r", "\u{1b}",
        ]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

#[test]
fn no_line_is_allowed_beyond_its_commands() {
    run(&soup(), |line| {
        check(&line);
        Ok(())
    });
}

#[test]
fn any_text_is_a_line() {
    run(&"\\PC{0,40}|.{0,40}", |text| {
        check(&text);
        Ok(())
    });
}

#[test]
fn a_rendered_argv_is_one_command_of_the_same_words() {
    let words = prop::collection::vec("[a-z'\"$`\\\\ ;&|<>(){}*?#=!\n\té😀-]{0,8}", 1..6);
    run(&words, |words| {
        let scanned = scan(&render_argv(&words));
        prop_assert_eq!(&scanned.segments, &[words]);
        prop_assert!(!scanned.comment && scanned.nested.is_empty());
        Ok(())
    });
}

#[test]
fn what_is_denied_is_denied_in_every_place() {
    // A command in the middle of anything that runs it is a candidate.
    let place = prop::sample::select(vec![
        "@",
        "true; @",
        "@ | x",
        "x && @",
        "( @ )",
        "{ @; }",
        "$( @ )",
        "`@`",
        "echo \"$( @ )\"",
        "if @; then x; fi",
        "for i in 1; do @; done",
        "A=1 @",
        "sudo @",
        "env A=1 @",
        "nice -n 5 @",
        "bash -c '@'",
        "eval '@'",
        "x <( @ )",
        "f() { @; }",
        "case a in a) @;; esac",
        "find . -exec @ \\;",
        "! @",
        "x\n@",
        "x & @",
        "time @",
        "cat <<E\n$( @ )\nE",
        "x ${y:-$( @ )}",
        "timeout -k 1 5 @",
        "exec @",
        "command @",
        "> out @",
    ]);
    run(&prop::collection::vec(place, 1..5), |places| {
        let mut line = "rm -rf x".to_owned();
        for place in places {
            // Two of the places quote what they hold.
            let inner = if place.contains("'@'") { line.replace('\'', "'\\''") } else { line };
            let inner =
                if place.contains("`@`") { inner.replace('\\', "\\\\").replace('`', "\\`") } else { inner };
            // A place that takes words takes no list.
            let takes_words = ["A=", "sudo", "env", "nice", "find", "timeout", "exec", "command", ">"]
                .iter()
                .any(|start| place.starts_with(start));
            let inner = if takes_words { format!("bash -c {}", render_argv(&[inner])) } else { inner };
            line = place.replace('@', &inner);
        }
        let candidates = candidates_of_line(&line);
        let found =
            candidates.undecidable || candidates.texts.iter().any(|text| text.starts_with("rm -rf x"));
        prop_assert!(found, "{}", line);
        Ok(())
    });
}

#[test]
fn names_are_credentials_as_the_contract_s_expression_says() {
    let expression = concat!(
        "(?i)authorization|api[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|auth[-_]?token|",
        "api[-_]?token|session[-_]?token|bearer|(^|[-_])token$|(^|[-_])key([-_]id)?$|(^|[-_])pat$|secret|credential|",
        "password|passphrase|passwd|signature|x-amz-signature|cookie|set[-_]?cookie|chatgpt[-_]?account[-_]?id",
    );
    let expression = regex_automata::meta::Regex::new(expression).unwrap();
    let piece = prop::sample::select(vec![
        "authorization",
        "api",
        "key",
        "access",
        "token",
        "refresh",
        "id",
        "auth",
        "session",
        "bearer",
        "pat",
        "secret",
        "credential",
        "password",
        "pass",
        "passphrase",
        "passwd",
        "signature",
        "x",
        "amz",
        "cookie",
        "set",
        "chatgpt",
        "account",
        "-",
        "_",
        "-",
        "_",
        "s",
        "A",
        "KEY",
        "Token",
        "\u{212a}ey",
        "\u{17f}ecret",
        "é",
    ]);
    run(&prop::collection::vec(piece, 0..7), |pieces| {
        let name = pieces.concat();
        prop_assert_eq!(is_credential_name(&name), expression.is_match(&name), "{}", name);
        Ok(())
    });
}

#[test]
fn the_fuzz_seeds_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/line");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        check(&String::from_utf8_lossy(&text));
        seeds += 1;
    }
    assert!(seeds > 10, "{seeds}");
}

#[test]
fn long_lines_take_time_in_proportion() {
    // Each of these is quadratic or worse for a reader that goes back.
    for piece in [
        "$(", "`", "\"$(", "${a:-", "<<E ", "'", "\"", "{a,", "$[", "(", "a[", "sudo ", "\\", "eval \"",
        "<(", "${", "$((", "\"`", "<<E\n",
    ] {
        let line = piece.repeat(if cases() == CASES { 20_000 } else { 131_072 } / piece.len());
        let plan = Plan::of(&Command::Line { line, shell: None }, None);
        assert!(
            plan.candidates().texts.len() < 16 && plan.judge(&mut |_| Effect::Ask).effect != Effect::Allow,
            "{piece}"
        );
    }
}
