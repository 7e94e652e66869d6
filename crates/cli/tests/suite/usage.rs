//! The command line itself.

use serde_json::json;

use crate::bench::Bench;

#[test]
fn a_wrong_command_line_is_one_document_too() {
    let bench = Bench::new();
    for words in [
        &["--json"][..],
        &["--json", "explode"],
        &["exec", "--json"],
        &["exec", "--json", "a.js", "-e", "1"],
        &["exec", "--json", "--stop", "end", "-e", "1"],
        &["exec", "--json", "--isolate", "process", "-e", "1"],
        &["show", "--json", "r", "--html", "x"],
        &["runs", "--json", "--colour", "never"],
        &["grants", "revoke", "--json"],
        &["resume", "--json"],
        &["resume", "--json", "-x"],
    ] {
        let answer = bench.run(words);
        assert_eq!(answer.is(2).code(), "usage", "{words:?}");
        assert!(answer.err.starts_with("error: "), "{words:?}: {}", answer.err);
    }
    let between = bench.run(&["grants", "--json", "check", "net:get:a", "--deny", "net:get:a"]);
    assert_eq!(between.is(0).json()["effect"], json!("deny"));
    let plain = bench.run(&["exec", "--color", "always"]);
    assert_eq!(plain.is(2).out, "");
    assert!(!bench.ws().join(".flowcell").exists());
}

#[test]
fn without_a_command_the_help_stands_alone() {
    let bench = Bench::new();
    for (words, about) in
        [(&[][..], "The flowcell binary: run, resume"), (&["grants"], "Ask what policy says")]
    {
        let answer = bench.run(words);
        assert_eq!(answer.is(2).out, "", "{words:?}");
        assert!(answer.err.starts_with(about) && answer.err.contains("Usage: flowcell"), "{}", answer.err);
        assert!(!answer.err.contains("error:"), "{}", answer.err);
    }
}

#[test]
fn help_and_version_are_results() {
    let bench = Bench::new();
    let help = bench.run(&["--help"]);
    for verb in [
        "exec", "resume", "runs", "show", "replay", "call", "flows", "grants", "approve", "deny", "trust",
        "doctor",
    ] {
        assert!(help.is(0).out.contains(&format!("  {verb} ")), "{verb}");
    }
    for absent in ["steer", "egress", "completions", "mcp"] {
        assert!(!help.out.contains(absent), "{absent} is not built");
    }
    for part in [
        "no folder above it is searched",
        "[default: the working folder]",
        "-q, --quiet",
        "-v, --verbose",
        "Exit statuses:",
        "3  suspended",
        "130  interrupted",
    ] {
        assert!(help.out.contains(part), "{part:?} is missing in {}", help.out);
    }
    assert!(bench.run(&["exec", "--help"]).is(0).out.contains("--limit <NAME=VALUE>"));
    assert!(bench.run(&["--version"]).is(0).out.starts_with("flowcell "));
}

#[test]
fn colours_are_on_standard_error_alone_and_can_be_turned_off() {
    let bench = Bench::new();
    let words = |colour: &'static str| ["exec", "--color", colour, "missing.js"];
    assert!(bench.run(&words("always")).is(2).err.starts_with("\u{1b}[31merror: \u{1b}[0m"));
    assert!(bench.run(&words("never")).is(2).err.starts_with("error: "));
    assert!(bench.run(&words("auto")).is(2).err.starts_with("error: "), "there is no terminal");
    assert_eq!(bench.run(&["exec", "--color", "always", "-e", "ctx.done(1)"]).is(0).out, "1\n");
}

#[test]
fn progress_is_shown_when_it_is_asked_for() {
    let bench = Bench::new();
    let cell = "console.log('said'); await ctx.call('ls', {path: '.'}); ctx.done(1)";
    assert_eq!(
        bench.run(&["exec", "-e", cell]).is(0).err,
        "  | said\n",
        "prints are shown without a terminal"
    );
    let shown = bench.run(&["exec", "-v", "-e", cell]);
    for part in ["frame 0: -e", "call 0: ls", "| said", "complete: 1"] {
        assert!(shown.is(0).err.contains(part), "{part:?} is missing in {}", shown.err);
    }
    assert_eq!(bench.run(&["exec", "-v", "-q", "-e", cell]).is(0).err, "");
    let json = bench.run(&["exec", "-v", "--json", "-e", cell]);
    assert_eq!(json.is(0).json()["output"], json!(1), "standard output holds the document alone");
}
