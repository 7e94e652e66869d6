//! The day's work: look around, run the suite, break a function, see what broke, mend it and break another.

use std::fs;
use std::path::Path;
use std::process::Command;

use flowcell_tests::{Exec, call};
use serde_json::{Value, json};

use super::judged;
use super::project::{Break, Project};

/// The least tests of a suite that counts as one.
const LEAST: u64 = 50;
/// Lines of a page.
const PAGE: u64 = 97;

/// Plays all of it.
pub(super) fn play(project: &Project) {
    let passing = look(project);
    assert!(passing >= LEAST, "{}: {passing} tests", project.name);
    edit_and_attribute(project, passing);
    patch_and_attribute(project, passing);
    println!("measured: {}: {passing} tests of its own, one broken twice", project.name);
}

/// Runs a cell in the workspace; answers its output.
fn run(project: &Project, code: &str, parameters: &Value) -> Value {
    let cell = project.cell(&format!("const INPUT = {parameters};\n{code}"));
    let exec = Exec::new(project.root()).unwrap().policy(&project.policy());
    exec.cell(&cell).unwrap().output().unwrap().clone()
}

/// Reads a source page by page, searches, lists, asks the shell, and runs the suite as it was published.
fn look(project: &Project) -> u64 {
    const CELL: &str = r#"
const pages = [];
for (let offset = 1; ; ) {
  const page = await ctx.call("read", { path: INPUT.source, offset, limit: INPUT.page });
  pages.push(page);
  if (page.endLine >= page.totalLines) break;
  offset = page.endLine + 1;
}
const found = await ctx.call("grep", { pattern: INPUT.word, fixedStrings: true, globs: [INPUT.glob] });
const files = await ctx.call("grep", { pattern: INPUT.word, fixedStrings: true, filesWithMatches: true, globs: [INPUT.glob] });
const listed = await ctx.call("bash", { command: "git ls-files | LC_ALL=C sort" });
const counted = await ctx.call("bash", { script: 'wc -l < "$1"; sha256sum "$1"; exit 3', args: [INPUT.source] });
const asked = await ctx.call("shell_command", { command: "git rev-parse HEAD; git status --porcelain" });
const suite = await ctx.call("test", {});
ctx.done({ pages, found, files, listed, counted, asked, suite });
"#;
    let Project { source, glob, word, .. } = *project;
    let out = run(project, CELL, &json!({"source": source, "glob": glob, "word": word, "page": PAGE}));

    // `read`: the pages, one after another, are the file.
    let text = project.text(source);
    let lines: Vec<&str> = text.lines().collect();
    let pages = out["pages"].as_array().unwrap();
    assert!(pages.len() > 2, "{source} is more than a few pages");
    let contents: Vec<&str> = pages.iter().map(|page| page["content"].as_str().unwrap()).collect();
    assert_eq!(contents.join("\n"), lines.join("\n"));
    let mut next = 1;
    for page in pages {
        assert_eq!((&page["startLine"], &page["totalLines"]), (&json!(next), &json!(lines.len())));
        next = page["endLine"].as_u64().unwrap() + 1;
        assert_eq!(page["truncated"], json!(next <= lines.len() as u64), "{page}");
    }
    // The same page by `call`.
    let page = json!({"path": source, "limit": PAGE});
    assert_eq!(call(project.root(), &project.policy(), "read", &page).unwrap(), pages[0]);

    // `grep`: what git's own search finds.
    let grep = project.git(&["grep", "--line-number", "--fixed-strings", "-e", word, "--", glob]);
    let mut expected: Vec<(String, u64, String)> = grep
        .lines()
        .map(|line| {
            let mut parts = line.splitn(3, ':');
            let mut next = || parts.next().unwrap().to_owned();
            (next(), next().parse().unwrap(), next())
        })
        .collect();
    expected.sort();
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    let matches = out["found"]["matches"].as_array().unwrap().iter();
    let mut found: Vec<(String, u64, String)> = matches
        .map(|found| (text_of(&found["file"]), found["line"].as_u64().unwrap(), text_of(&found["text"])))
        .collect();
    found.sort();
    assert!(found.len() > 2 && out["found"]["truncated"] == json!(false), "{}", out["found"]);
    assert_eq!(found, expected);
    let mut files: Vec<String> = out["files"]["files"].as_array().unwrap().iter().map(text_of).collect();
    files.sort();
    expected.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(files, expected.into_iter().map(|(file, ..)| file).collect::<Vec<_>>());

    // `bash`: a pipeline, and a script with an argument and an exit code of its own.
    let mut tracked: Vec<String> =
        project.git(&["ls-files", "-z"]).split_terminator('\0').map(str::to_owned).collect();
    tracked.sort();
    assert_eq!(out["listed"]["stdout"], json!(tracked.join("\n") + "\n"));
    assert_eq!(out["listed"]["exitCode"], json!(0));
    let sum = Command::new("sha256sum").arg(source).current_dir(project.root()).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let ends = text.matches('\n').count();
    assert_eq!(out["counted"]["stdout"], json!(format!("{ends}\n{sum}")));
    assert_eq!((&out["counted"]["exitCode"], &out["counted"]["stderr"]), (&json!(3), &json!("")));

    // `shell_command`: the frame, and in it what git says. Nothing was changed.
    let head = project.git(&["rev-parse", "HEAD"]);
    let (frame, said) = out["asked"]["output"].as_str().unwrap().split_once("\nOutput:\n").unwrap();
    assert!(frame.starts_with("Exit code: 0\nWall time: "), "{frame}");
    assert_eq!(said.trim_end(), head);
    assert_eq!(out["asked"]["exitCode"], json!(0));

    // `test`: the suite as published passes, and is counted as it counts itself.
    let suite = &out["suite"];
    let tail = suite["tail"].as_str().unwrap();
    assert_eq!((&suite["parsed"], &suite["failed"]), (&json!(true), &json!([])), "{tail}");
    let passed = suite["passed"].as_u64().unwrap();
    assert_eq!((passed, suite["tailTruncated"] == json!(false)), (project.tallied(tail), true), "{tail}");
    passed
}

/// Breaks a function by `edit`, and has the suite compared with that of the last commit.
fn edit_and_attribute(project: &Project, passing: u64) {
    let Break { file, from, to, fails } = project.edited;
    let before = project.text(file);
    let mut expected = before.clone();
    apply(&mut expected, from, to);
    let input = json!({"path": file, "oldString": from, "newString": to});
    let out = call(project.root(), &project.policy(), "edit", &input).unwrap();
    assert_eq!(project.text(file), expected);
    let first = before[..before.find(from).unwrap()].matches('\n').count() + 1;
    // The hunk is the region as it now stands, with up to two lines around it.
    let (start, end) = (out["startLine"].as_u64().unwrap(), out["endLine"].as_u64().unwrap());
    let region: Vec<&str> = expected.lines().skip(usize::try_from(start).unwrap() - 1).collect();
    let region = &region[..usize::try_from(end - start).unwrap() + 1];
    assert_eq!(out["hunk"], json!(region.join("\n")), "{out}");
    assert!(start <= first as u64 && first as u64 <= end, "{out}");
    assert_eq!((&out["path"], &out["replacements"]), (&json!(file), &json!(1)));

    const CELL: &str = r#"
const suite = await ctx.call("test", { against: "base" });
const { stdout } = await ctx.call("bash", { command: "git diff --no-color; git status --porcelain; git worktree list --porcelain" });
ctx.done({ suite, stdout });
"#;
    let out = run(project, CELL, &json!({}));
    introduces(project, &out["suite"], passing, fails);
    let own = [
        &["diff", "--no-color"][..],
        &["status", "--porcelain"][..],
        &["worktree", "list", "--porcelain"][..],
    ];
    let said: Vec<String> = own.iter().map(|words| project.git(words)).collect();
    assert_eq!(out["stdout"].as_str().unwrap().trim_end(), said.join("\n").trim_end());
    assert_eq!(said[1], format!(" M {file}"));
    clean(project);
}

/// Takes that back and breaks another function, in one patch.
fn patch_and_attribute(project: &Project, passing: u64) {
    let undone = Break { from: project.edited.to, to: project.edited.from, ..project.edited };
    let breaks = [&undone, &project.patched];
    let mut expected: Vec<(&str, String)> = Vec::new();
    for broken in breaks {
        if expected.iter().all(|(file, _)| *file != broken.file) {
            expected.push((broken.file, project.text(broken.file)));
        }
        let (_, text) = expected.iter_mut().find(|(file, _)| *file == broken.file).unwrap();
        apply(text, broken.from, broken.to);
    }
    let files: Vec<&str> = expected.iter().map(|(file, _)| *file).collect();
    let mut patch = String::from("*** Begin Patch\n");
    for file in &files {
        patch.push_str(&format!("*** Update File: {file}\n"));
        for broken in breaks.iter().filter(|broken| broken.file == *file) {
            patch.push_str(&chunk(broken));
        }
    }
    patch.push_str("*** End Patch\n");

    const CELL: &str = r#"
const patched = await ctx.call("apply_patch", { input: INPUT.patch });
const { stdout } = await ctx.call("bash", { command: "git diff --numstat" });
ctx.done({ patched, stdout });
"#;
    let out = run(project, CELL, &json!({"patch": patch}));
    for (file, text) in &expected {
        assert_eq!(&project.text(file), text, "{file}");
    }
    let patched = &out["patched"];
    assert_eq!(
        (&patched["modified"], &patched["added"], &patched["deleted"]),
        (&json!(files), &json!([]), &json!([]))
    );
    let summary: String = files.iter().map(|file| format!("M {file}\n")).collect();
    assert_eq!(patched["output"], json!(format!("Success. Updated the following files:\n{summary}")));
    // The edit is gone: all that differs is the patch's own break.
    let changed = project.patched.file;
    assert_eq!(out["stdout"], json!(format!("1\t1\t{changed}\n")));
    assert_eq!(project.git(&["diff", "--numstat"]), format!("1\t1\t{changed}"));

    let suite = judged::test(project, if project.twice { "base" } else { "workspace" });
    if project.twice {
        introduces(project, &suite, passing, project.patched.fails);
        assert_eq!(suite["base"]["exitCode"], json!(0), "the base passes");
    } else {
        fails_alone(project, &suite, passing, project.patched.fails);
        assert!(suite.get("base").is_none() && suite.get("introduced").is_none(), "{suite}");
    }
    assert_ne!(suite["exitCode"], json!(0), "the suite's own exit code");
    clean(project);
}

/// Exactly one test fails here and not on the base, and nothing was mended.
fn introduces(project: &Project, suite: &Value, passing: u64, fails: &str) {
    fails_alone(project, suite, passing, fails);
    let lists = [&suite["introduced"], &suite["preexisting"], &suite["fixed"]];
    assert_eq!(lists, [&json!([fails]), &json!([]), &json!([])], "{suite}");
    let base = &suite["base"];
    assert_eq!(
        [&base["parsed"], &base["passed"], &base["failed"], &base["ref"], &base["commit"]],
        [
            &json!(true),
            &json!(passing),
            &json!([]),
            &json!("HEAD"),
            &json!(project.git(&["rev-parse", "HEAD"]))
        ],
        "{}",
        base["tail"]
    );
}

/// One test fails, the rest passes, as the suite's own output says.
fn fails_alone(project: &Project, suite: &Value, passing: u64, fails: &str) {
    let tail = suite["tail"].as_str().unwrap();
    assert_eq!((&suite["parsed"], &suite["failed"]), (&json!(true), &json!([fails])), "{tail}");
    assert_eq!((&suite["passed"], project.tallied(tail)), (&json!(passing - 1), passing - 1), "{tail}");
    assert!(suite.get("invalidProbe").is_none(), "{suite}");
}

/// A comparison leaves no tree and no setting behind.
fn clean(project: &Project) {
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1);
    let scratch = project.path(".flows-test-base");
    assert!(is_empty(&scratch), "{}", scratch.display());
    let version = project.git(&["config", "--local", "--get", "core.repositoryformatversion"]);
    assert_eq!(version, "0");
    assert!(!project.git(&["config", "--local", "--list"]).to_lowercase().contains("relativeworktrees"));
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Replaces the one occurrence.
fn apply(text: &mut String, from: &str, to: &str) {
    assert_eq!(text.matches(from).count(), 1, "{from}");
    *text = text.replacen(from, to, 1);
}

/// A patch's chunk for one break: what both texts begin and end with is context.
fn chunk(broken: &Break) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (broken.from.lines().collect(), broken.to.lines().collect());
    let head = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let rest = (from.len().min(to.len())) - head;
    let tail =
        from.iter().rev().zip(to.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let mut chunk = String::from("@@\n");
    let mut put = |mark: char, lines: &[&str]| {
        for line in lines {
            chunk.push_str(&format!("{mark}{line}\n"));
        }
    };
    put(' ', &from[..head]);
    put('-', &from[head..from.len() - tail]);
    put('+', &to[head..to.len() - tail]);
    put(' ', &from[from.len() - tail..]);
    chunk
}
