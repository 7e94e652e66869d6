//! The readers of test reports (host contract 5.3): what each recognises, when a report is whole, and properties.

use flowcell_host::report::{Reader, Report, junit, read};
use proptest::prelude::*;

use crate::exercise_report;

const RULE: &str = "======================================================================";

/// A report in short: `reader passed parsed|partial: ids`.
fn short(report: Option<Report>) -> String {
    report.map_or_else(
        || "nothing".to_owned(),
        |report| {
            let parsed = if report.parsed { "parsed" } else { "partial" };
            format!("{:?} {} {parsed}: {}", report.reader, report.passed, report.failed.join(" "))
        },
    )
}

#[track_caller]
fn case(output: &str, expected: &str) {
    assert_eq!(short(read(output)).trim_end(), expected, "{output}");
}

#[test]
fn unittest_reports() {
    let headed = |heading: &str, end: &str| format!("{RULE}\n{heading}\n----\nTraceback\n\n{end}");
    case("...\nRan 3 tests in 0.001s\n\nOK\n", "Unittest 3 parsed:");
    case("Ran 1 test in 0.001s\n\nOK (skipped=1)\n", "Unittest 0 parsed:");
    case("Ran 5 tests in 1s\n\nOK (skipped=1, expected failures=2)\n", "Unittest 2 parsed:");
    case(
        &headed("FAIL: m (a.b.C)", "Ran 2 tests in 0s\n\nFAILED (failures=1)\n"),
        "Unittest 1 parsed: a.b.C.m",
    );
    case(
        &headed("ERROR: m (a.b.C.m)", "Ran 2 tests in 0s\n\nFAILED (errors=1)\n"),
        "Unittest 1 parsed: a.b.C.m",
    );
    case(
        &headed("UNEXPECTED SUCCESS: m (a.b.C.m)", "Ran 2 tests in 0s\n\nFAILED (unexpected successes=1)\n"),
        "Unittest 1 parsed: a.b.C.m",
    );
    // A method named as the class's last part is a method of it.
    case(
        &headed("FAIL: run (a.rerun)", "Ran 1 test in 0s\n\nFAILED (failures=1)\n"),
        "Unittest 0 parsed: a.rerun.run",
    );
    // The first line of a docstring stands below the heading, a subtest's parameters behind it.
    case(
        &headed("FAIL: m (a.C.m) (i=1)\nWhat it does", "Ran 1 test in 0s\n\nFAILED (failures=1)\n"),
        "Unittest 0 parsed: a.C.m",
    );
    case(
        &headed(
            "FAIL: m (a.C.m) [why] (i=1)\n-\nFAIL: m (a.C.m) [why] (i=2)",
            "Ran 1 test in 0s\n\nFAILED (failures=2)\n",
        ),
        "Unittest 0 partial: a.C.m",
    );
}

#[test]
fn a_unittest_report_that_does_not_agree_is_partial() {
    let one = format!("{RULE}\nFAIL: m (a.C)\n");
    for (output, ids) in [
        (format!("{one}Ran 2 tests in 0s\n\nFAILED (failures=2)\n"), "a.C.m"),
        (format!("{one}Ran 2 tests in 0s\n\nOK\n"), "a.C.m"),
        (format!("{one}Ran 2 tests in 0s\n\nFAILED (failures=1, crashed=1)\n"), "a.C.m"),
        (format!("{one}Ran 2 tests in 0s\n\nFAILED (failures=1, failures=0)\n"), "a.C.m"),
        (format!("{one}Ran 0 tests in 0s\n\nFAILED (failures=1)\n"), "a.C.m"),
        (format!("{one}Ran 2 tests in 0s\n"), "a.C.m"),
        (one, "a.C.m"),
        ("Ran 2 tests in 0s\n\nFAILED\n".to_owned(), ""),
        ("Ran 0 tests in 0s\n\nNO TESTS RAN\n".to_owned(), ""),
        ("OK\nRan 2 tests in 0s\n".to_owned(), ""),
        ("Ran 1 test in 0s\n\nOK\nRan 1 test in 0s\n\nOK\n".to_owned(), ""),
        ("Ran 99999999999999999999 tests in 0s\n\nOK\n".to_owned(), "nothing"),
    ] {
        let expected = if ids == "nothing" { ids.to_owned() } else { format!("Unittest 0 partial: {ids}") };
        case(&output, expected.trim_end());
    }
}

#[test]
fn a_log_line_is_no_heading_where_another_reader_knows_better() {
    case("ERROR: db (sqlite)\n1 failed, 2 passed in 0.1s\nFAILED a.py::t - x\n", "Pytest 2 parsed: a.py::t");
    case("ERROR: db (sqlite)\n", "Unittest 0 partial: sqlite.db");
    case("ERROR: could not find it (from versions: none)\n", "nothing");
}

#[test]
fn pytest_reports() {
    case("== 3 passed in 0.12s ==\n", "Pytest 3 parsed:");
    case("3 passed\n", "Pytest 3 parsed:");
    case("2 passed, 1 skipped, 1 xfailed, 4 warnings in 61.00s (0:01:01)\n", "Pytest 2 parsed:");
    case("FAILED a.py::t - boom\n1 failed, 2 passed in 0.1s\n", "Pytest 2 parsed: a.py::t");
    case(
        "FAILED a.py::t\nERROR b.py - ImportError: x\n==== 1 failed, 1 error in 0.1s ====\n",
        "Pytest 0 parsed: a.py::t b.py",
    );
    case(
        "ERROR a.py::t - x\nERROR a.py::u - x\n1 passed, 2 errors in 0.1s\n",
        "Pytest 1 parsed: a.py::t a.py::u",
    );
    // Verbose lines and the short summary tell the same.
    case(
        "a.py::t FAILED   [ 50%]\na.py::u PASSED   [100%]\n= short test summary info =\nFAILED a.py::t - x\n= 1 failed, 1 passed in 0.1s =\n",
        "Pytest 1 parsed: a.py::t",
    );
    // Parameters may hold blanks and dashes.
    for id in ["a.py::t[x - y]", "a.py::t[a b]", "a.py::t[x]", "a.py::t[[1] - 2]"] {
        for output in [
            format!("FAILED {id} - AssertionError: 1 - 2\n1 failed in 0.1s\n"),
            format!("FAILED {id}\n1 failed in 0.1s\n"),
            format!("{id} FAILED  [100%]\n1 failed in 0.1s\n"),
        ] {
            case(&output, &format!("Pytest 0 parsed: {id}"));
        }
    }
    case(
        "\u{1b}[31mFAILED\u{1b}[0m a.py::\u{1b}[1mt\u{1b}[0m - x\n\u{1b}[31m\u{1b}[1m1 failed\u{1b}[0m, \u{1b}[32m2 passed\u{1b}[0m\u{1b}[31m in 0.1s\u{1b}[0m\n",
        "Pytest 2 parsed: a.py::t",
    );
    case("= 1 failed, 2 subtests passed in 0.1s =\nFAILED a.py::t\n", "Pytest 0 parsed: a.py::t");
}

#[test]
fn a_pytest_report_that_does_not_agree_is_partial() {
    for (output, expected) in [
        ("FAILED a.py::t - x\n", "Pytest 0 partial: a.py::t"),
        ("2 failed, 1 passed in 0.1s\nFAILED a.py::t - x\n", "Pytest 0 partial: a.py::t"),
        ("1 failed in 0.1s\n", "Pytest 0 partial:"),
        ("1 passed in 0.1s\n1 passed in 0.1s\n", "Pytest 0 partial:"),
        ("FAILED a.py::t - x\n1 passed in 0.1s\n", "Pytest 0 partial: a.py::t"),
        ("no tests ran in 0.01s\n", "nothing"),
        ("5 deselected in 0.01s\n", "nothing"),
        ("FAILED (failures=1)\n", "nothing"),
        ("ERROR    root:a.py:3 it broke\n", "nothing"),
        ("ERROR something happened - badly\n", "nothing"),
        ("18446744073709551615 failed, 1 error in 1s\n", "Pytest 0 partial:"),
    ] {
        case(output, expected);
    }
}

#[test]
fn libtest_reports() {
    let run = |lines: &str, end: &str| {
        format!(
            "\nrunning 2 tests\n{lines}\ntest result: {end}; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n"
        )
    };
    let ok = run("test a::b ... ok\ntest c ... ignored, why", "ok. 1 passed; 0 failed");
    let bad = run("test a::b ... ok\ntest a::c ... FAILED", "FAILED. 1 passed; 1 failed");
    case(&ok, "Libtest 1 parsed:");
    case(&bad, "Libtest 1 parsed: a::c");
    case(
        &format!(
            "{ok}{bad}   Doc-tests x\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n"
        ),
        "Libtest 2 parsed: a::c",
    );
    case(
        &run(
            "test s - should panic ... FAILED\ntest src/lib.rs - f (line 3) ... ok",
            "FAILED. 1 passed; 1 failed",
        ),
        "Libtest 1 parsed: s",
    );
    case(
        &run("test src/lib.rs - f (line 3) - compile fail ... FAILED", "FAILED. 1 passed; 1 failed"),
        "Libtest 1 parsed: src/lib.rs - f (line 3)",
    );
    case(&run("test t ... FAILED <0.010s>", "FAILED. 1 passed; 1 failed"), "Libtest 1 parsed: t");
    for (output, expected) in [
        ("running 1 test\ntest a ... FAILED\n".to_owned(), "Libtest 0 partial: a"),
        (format!("{bad}running 3 tests\n"), "Libtest 0 partial: a::c"),
        (bad.replace("1 failed", "2 failed"), "Libtest 0 partial: a::c"),
        (bad.replace("1 passed; 1 failed", "all passed"), "Libtest 0 partial: a::c"),
        // One name in two binaries is one id: what failed cannot be told apart.
        (format!("{bad}{bad}"), "Libtest 0 partial: a::c"),
        ("test a has been running for over 60 seconds\n".to_owned(), "nothing"),
    ] {
        case(&output, expected);
    }
}

#[test]
fn tap_reports() {
    for (output, expected) in [
        ("TAP version 13\nok 1 - a\nnot ok 2 - b c\n1..2\n", "Tap 1 parsed: b c"),
        ("1..2\nok\nok 2\n", "Tap 2 parsed:"),
        (
            "1..4\nok 1 a # SKIP no\nnot ok 2 b # TODO later\nok 3 c # todo\nnot ok 4 d # skip\n",
            "Tap 1 parsed:",
        ),
        (
            "not ok 1 - issue \\#12 \\\\ x # not a directive\n1..1\n",
            "Tap 0 parsed: issue #12 \\ x # not a directive",
        ),
        ("not ok - no number\n1..1 # one\n", "Tap 0 parsed: no number"),
        ("not ok 12monkeys\n1..1\n", "Tap 0 parsed: 12monkeys"),
        ("not ok 1 - -x\n1..1\n", "Tap 0 parsed: -x"),
        // What is indented is a subtest's, or a diagnosis.
        (
            "# Subtest: s\n    not ok 1 - leaf\n    1..1\nnot ok 1 - s\n  ---\n  not ok: 2\n  ...\n1..1\n",
            "Tap 0 parsed: s",
        ),
        ("1..0 # SKIP nothing to do\n", "Tap 0 parsed:"),
        ("ok 1 - a\n", "Tap 0 partial:"),
        ("1..3\nok 1 - a\nnot ok 2 - b\n", "Tap 0 partial: b"),
        ("1..1\nok 1\n1..1\nok 1\n", "Tap 0 partial:"),
        ("1..1\nnot ok 1\n", "Tap 0 partial:"),
        ("1..1\nok 1\nBail out! disk\n", "Tap 0 partial:"),
        ("okay\nnot okay\nok! x\n", "nothing"),
    ] {
        case(output, expected);
    }
}

#[test]
fn the_order_of_the_readers() {
    let tap = "1..1\nok 1 - a\n";
    let libtest = "running 1 test\ntest a ... ok\ntest result: ok. 1 passed; 0 failed\n";
    let pytest = "1 passed in 0.1s\n";
    let unittest = "Ran 1 test in 0s\n\nOK\n";
    let order = [
        (unittest, Reader::Unittest),
        (pytest, Reader::Pytest),
        (libtest, Reader::Libtest),
        (tap, Reader::Tap),
    ];
    for at in 0..order.len() {
        let all: String = order[at..].iter().rev().map(|(text, _)| *text).collect();
        assert_eq!(read(&all).unwrap().reader, order[at].1);
    }
    assert_eq!(read("Segmentation fault\n"), None);
    assert_eq!(read(""), None);
}

#[test]
fn junit_files() {
    let case = |xml: &str, expected: &str| assert_eq!(short(junit(xml)).trim_end(), expected, "{xml}");
    case(
        r#"<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="3" failures="1" errors="0" skipped="1">
        <testcase classname="tests.test_a.T" name="x"/><testcase classname="tests.test_a" name="y[&lt;1&gt;]"><failure message="m">text</failure></testcase>
        <testcase classname="tests.test_a" name="z"><skipped/></testcase></testsuite></testsuites>"#,
        "Junit 1 parsed: tests.test_a.y[<1>]",
    );
    case(
        r#"<testsuites><testcase name="top" classname="test"/><testsuite name="suite" tests="2" failures="1">
        <testcase name="leaf ok" classname="test"/><testcase name="leaf bad" classname="test"><failure/></testcase></testsuite></testsuites>"#,
        "Junit 2 parsed: suite > leaf bad",
    );
    case(r#"<testsuite><testcase name="a"><error/></testcase></testsuite>"#, "Junit 0 parsed: a");
    case("<testsuites/>", "Junit 0 parsed:");
    for (xml, expected) in [
        (r#"<testsuite tests="2"><testcase name="a"/></testsuite>"#, "Junit 0 partial:"),
        (
            r#"<testsuite failures="0"><testcase name="a"><failure/></testcase></testsuite>"#,
            "Junit 0 partial: a",
        ),
        (r#"<testsuite tests="x"><testcase name="a"/></testsuite>"#, "Junit 0 partial:"),
        (
            r#"<testsuite><testcase name="a"><failure/></testcase><testcase name="a"><failure/></testcase></testsuite>"#,
            "Junit 0 partial: a",
        ),
        (r#"<testsuite><testcase name="a"><failure/></testcase>"#, "Junit 0 partial: a"),
        (r#"<testsuite><testcase name="a"></testsuite>"#, "Junit 0 partial:"),
        (r#"<testsuite><testcase name="&own;"/></testsuite>"#, "Junit 0 partial:"),
        (r#"<testsuite><testcase><failure/></testcase></testsuite>"#, "Junit 0 partial:"),
        ("<testsuite/><testsuite/>", "Junit 0 partial:"),
        ("<testsuite/> and more", "Junit 0 partial:"),
        ("<testsuite/>&amp;", "Junit 0 partial:"),
        ("words <testsuite/>", "nothing"),
        ("\u{feff}<testsuite/>\n<!-- end -->\n", "Junit 0 parsed:"),
        ("<html><testsuite/></html>", "nothing"),
        ("not xml", "nothing"),
        ("", "nothing"),
    ] {
        case(xml, expected);
    }
    // Depth is bounded, and an entity that multiplies itself is not resolved.
    assert!(!junit(&"<testsuite>".repeat(100_000)).unwrap().parsed);
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><testsuite><testcase name=\"&b;\"/></testsuite>";
    assert!(!junit(bomb).unwrap().parsed);
}

/// Outcomes of generated tests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Passed,
    Failed,
    Skipped,
}

fn outcomes() -> impl Strategy<Value = Vec<Ends>> {
    prop::collection::vec(prop::sample::select(vec![Ends::Passed, Ends::Failed, Ends::Skipped]), 1..20)
}

fn count(outcomes: &[Ends], of: Ends) -> usize {
    outcomes.iter().filter(|outcome| **outcome == of).count()
}

/// A whole report of these outcomes in a reader's format, and the ids that it names as failing.
fn print(reader: Reader, outcomes: &[Ends]) -> (String, Vec<String>) {
    let failing = |id: &dyn Fn(usize) -> String| -> Vec<String> {
        let failed = outcomes.iter().enumerate().filter(|(_, outcome)| **outcome == Ends::Failed);
        failed.map(|(at, _)| id(at)).collect()
    };
    let [passed, failed, skipped] = [Ends::Passed, Ends::Failed, Ends::Skipped].map(|of| count(outcomes, of));
    let total = outcomes.len();
    match reader {
        Reader::Unittest => {
            let ids = failing(&|at| format!("t.C.test_{at}"));
            let heads: String =
                ids.iter().map(|id| format!("{RULE}\nFAIL: {} ({id})\n---\nboom\n\n", &id[4..])).collect();
            let mut keys = Vec::new();
            if failed > 0 {
                keys.push(format!("failures={failed}"));
            }
            if skipped > 0 {
                keys.push(format!("skipped={skipped}"));
            }
            let list = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
            let word = if failed > 0 { "FAILED" } else { "OK" };
            (format!("{heads}Ran {total} tests in 0.1s\n\n{word}{list}\n"), ids)
        }
        Reader::Pytest => {
            let ids = failing(&|at| format!("t.py::test[{at}]"));
            let heads: String = ids.iter().map(|id| format!("FAILED {id} - assert 1 - 1\n")).collect();
            (format!("{heads}= {failed} failed, {passed} passed, {skipped} skipped in 0.1s =\n"), ids)
        }
        Reader::Libtest => {
            let line = |(at, ends): (usize, &Ends)| {
                let word = match ends {
                    Ends::Passed => "ok",
                    Ends::Failed => "FAILED",
                    Ends::Skipped => "ignored",
                };
                format!("test m::t{at} ... {word}\n")
            };
            let lines: String = outcomes.iter().enumerate().map(line).collect();
            let word = if failed > 0 { "FAILED" } else { "ok" };
            let end = format!("test result: {word}. {passed} passed; {failed} failed; {skipped} ignored\n");
            (format!("running {total} tests\n{lines}\n{end}"), failing(&|at| format!("m::t{at}")))
        }
        Reader::Tap => {
            let line = |(at, ends): (usize, &Ends)| match ends {
                Ends::Passed => format!("ok {} - t{at}\n", at + 1),
                Ends::Failed => format!("not ok {} - t{at}\n", at + 1),
                Ends::Skipped => format!("ok {} - t{at} # SKIP why\n", at + 1),
            };
            let lines: String = outcomes.iter().enumerate().map(line).collect();
            (format!("TAP version 13\n{lines}1..{total}\n"), failing(&|at| format!("t{at}")))
        }
        Reader::Junit => {
            let case = |(at, ends): (usize, &Ends)| {
                let inner = match ends {
                    Ends::Passed => "",
                    Ends::Failed => "<failure/>",
                    Ends::Skipped => "<skipped/>",
                };
                format!("<testcase classname=\"c\" name=\"t{at}\">{inner}</testcase>\n")
            };
            let cases: String = outcomes.iter().enumerate().map(case).collect();
            let counts =
                format!("tests=\"{total}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\"");
            (format!("<testsuite {counts}>{cases}</testsuite>"), failing(&|at| format!("c.t{at}")))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A whole report is read to its last count; without one of its lines it is never taken for whole with another count.
    #[test]
    fn whole_reports_are_read_and_cut_ones_are_not_believed(outcomes in outcomes(), cut in any::<prop::sample::Index>()) {
        for reader in [Reader::Unittest, Reader::Pytest, Reader::Libtest, Reader::Tap, Reader::Junit] {
            let (text, ids) = print(reader, &outcomes);
            let read = |text: &str| if reader == Reader::Junit { junit(text) } else { read(text) };
            let passed = count(&outcomes, Ends::Passed) as u64;
            let whole = Report { reader, passed, failed: ids, parsed: true };
            prop_assert_eq!(read(&text), Some(whole.clone()), "{}", text);
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let without = cut.index(lines.len());
            let part: String = lines.iter().enumerate().filter(|(at, _)| *at != without).map(|(_, line)| *line).collect();
            if let Some(part) = read(&part) {
                // A line that bears no count may be missing: a test that passed, in formats that list only the others.
                let same = part.passed == whole.passed && part.failed == whole.failed;
                let unlisted = reader == Reader::Libtest && part.failed == whole.failed;
                prop_assert!(!part.parsed || same || unlisted, "{:?} of {}", part, text);
            }
        }
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for exercise in EXERCISES {
            exercise(&bytes);
        }
    }

    #[test]
    fn no_words_are_too_much(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..30)) {
        let text = words.concat();
        for exercise in EXERCISES {
            exercise(text.as_bytes());
        }
    }
}

type Exercise = fn(&[u8]);

const EXERCISES: [Exercise; 6] = [
    exercise_report::unittest,
    exercise_report::pytest,
    exercise_report::libtest,
    exercise_report::tap,
    exercise_report::junit,
    exercise_report::hermetic_words,
];

/// Pieces that the readers and the scanner look for.
const WORDS: &[&str] = &[
    "\n",
    " ",
    "FAIL: ",
    "ERROR: ",
    "ERROR ",
    "FAILED ",
    "FAILED",
    "OK",
    " (",
    ")",
    "a.b",
    "m",
    "Ran ",
    " tests",
    " in 1s",
    "1",
    "2",
    " failed",
    " passed",
    ", ",
    "=",
    "==========",
    " short test summary info ",
    "a.py::t",
    "[",
    "]",
    "%]",
    " - ",
    "test ",
    " ... ",
    "ok",
    "running ",
    "test result: ",
    "ok. ",
    "; ",
    "not ok ",
    "1..",
    "# SKIP",
    "#",
    "\\",
    "TAP version 13",
    "\u{1b}[31m",
    "<testsuite>",
    "</testsuite>",
    "<testcase name=\"a\">",
    "</testcase>",
    "<failure/>",
    " tests=\"1\"",
    "<testsuites/>",
    "é",
    "'",
    "\"",
    "$(",
    "`",
    "(",
    ">",
    ">>",
    "<",
    "<<E",
    "E",
    "&",
    "|",
    ";",
    "rm ",
    "cp ",
    "a/b",
    "/",
    "..",
    "env ",
    "x=",
    "-i",
    "--o=",
    "2>&1",
];

#[test]
fn the_kept_corpora_hold() {
    let targets: [(&str, Exercise); 6] = [
        ("report_unittest", exercise_report::unittest),
        ("report_pytest", exercise_report::pytest),
        ("report_libtest", exercise_report::libtest),
        ("report_tap", exercise_report::tap),
        ("report_junit", exercise_report::junit),
        ("hermetic_words", exercise_report::hermetic_words),
    ];
    for (target, exercise) in targets {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            exercise(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 6, "{files} files in the corpus of {target}");
    }
}
