//! `apply_patch` on trees: host contract 6, preflight and results, and sections 0 and 10 where they touch it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use flowcell_host::kernel::flows::apply_patch::{Output, decl};
use flowcell_host::kernel::flows::capability::{Action, Capability};
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::read::MAX_READ_FILE_BYTES;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{Handler as _, HandlerError, PermissionError};
use flowcell_host::{ApplyPatchHandler, patch};

use crate::support::{Fixture, Result, code, failure, fifo};
use crate::tree::{differing, tree};

/// A patch of these lines between the begin and the end.
fn text(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

async fn apply(fixture: &Fixture, body: &str) -> Result<Output> {
    fixture.patch(&text(body)).await
}

/// The code of a patch that has to fail at `path` and leave the tree alone.
#[track_caller]
fn refused(fixture: &Fixture, path: &str, body: &str) -> impl Future<Output = Code> {
    let before = tree(&fixture.root());
    async move {
        let code = code(path, apply(fixture, body).await);
        assert_eq!(differing(&before, &tree(&fixture.root())), Vec::<std::path::PathBuf>::new(), "{body}");
        code
    }
}

#[tokio::test]
async fn added_files_and_their_parents_get_the_usual_mode() {
    let fixture = Fixture::new();
    fixture.put("usual/f", "");
    let output = apply(&fixture, "*** Add File: new/deep/f\n+x\n*** Add File: new/g").await.unwrap();
    assert_eq!(output.output, "Success. Updated the following files:\nA new/deep/f\nA new/g\n");
    assert_eq!(output.added, ["new/deep/f", "new/g"]);
    assert_eq!((fixture.text("new/deep/f").as_str(), fixture.text("new/g").as_str()), ("x\n", ""));
    assert_eq!(fixture.mode("new/deep/f"), fixture.mode("usual/f"));
    assert_eq!(fixture.mode("new/deep"), fixture.mode("usual"));
    assert_eq!(fixture.names("new/deep"), ["f"], "no temporary file is left");
}

#[tokio::test]
async fn an_added_file_may_be_there() {
    let fixture = Fixture::new();
    fixture.put("f", "old");
    fixture.chmod("f", 0o750);
    let output = apply(&fixture, "*** Add File: f\n+new").await.unwrap();
    assert_eq!((output.added, output.modified), (vec!["f".to_owned()], vec![]));
    assert_eq!((fixture.text("f").as_str(), fixture.mode("f")), ("new\n", 0o750));
    fixture.put("bin", b"\0\xff");
    apply(&fixture, "*** Add File: bin\n+text").await.unwrap();
    assert_eq!(fixture.text("bin"), "text\n", "what is overwritten need be no text");
}

#[tokio::test]
async fn what_is_no_file() {
    let fixture = Fixture::new();
    fixture.put("d/f", "x\n");
    fixture.link("d", "ld");
    fixture.put("f", "x\n");
    fifo(&fixture.path("pipe"));
    let update = |path: &str| format!("*** Update File: {path}\n@@\n-x\n+y");
    for dir in ["d", "ld", ".", "./d", "d/..", "..", "/"] {
        assert_eq!(
            refused(&fixture, dir, &format!("*** Add File: {dir}\n+x")).await,
            Code::InvalidInput,
            "{dir}"
        );
        assert_eq!(refused(&fixture, dir, &update(dir)).await, Code::InvalidInput, "{dir}");
        let moved = format!("*** Update File: f\n*** Move to: {dir}\n@@\n-x\n+y");
        assert_eq!(refused(&fixture, dir, &moved).await, Code::InvalidInput, "{dir}");
        if dir != "ld" {
            let delete = format!("*** Delete File: {dir}");
            assert_eq!(refused(&fixture, dir, &delete).await, Code::InvalidInput, "{dir}");
        }
    }
    assert_eq!(refused(&fixture, "pipe", "*** Delete File: pipe").await, Code::NotFound);
    assert_eq!(refused(&fixture, "pipe", "*** Add File: pipe\n+x").await, Code::CommandFailed);
    assert_eq!(refused(&fixture, "pipe", &update("pipe")).await, Code::CommandFailed);
    for path in ["none", "none/x", "f/x", "d/none"] {
        assert_eq!(refused(&fixture, path, &update(path)).await, Code::NotFound, "{path}");
        assert_eq!(
            refused(&fixture, path, &format!("*** Delete File: {path}")).await,
            Code::NotFound,
            "{path}"
        );
    }
    assert_eq!(refused(&fixture, "f/x", "*** Add File: f/x\n+x").await, Code::CommandFailed);
    for path in ["a\0b", "d/", "new/"] {
        for body in [format!("*** Add File: {path}\n+x"), update(path), format!("*** Delete File: {path}")] {
            assert_eq!(refused(&fixture, path, &body).await, Code::InvalidInput, "{body}");
        }
    }
    let long = "x/".repeat(2_100) + "x";
    assert_eq!(refused(&fixture, &long, &format!("*** Add File: {long}\n+x")).await, Code::CommandFailed);
}

#[tokio::test]
async fn a_grammar_failure_names_no_path() {
    let fixture = Fixture::new();
    for body in ["", "x", "*** Update File: f"] {
        let error = failure(apply(&fixture, body).await);
        assert_eq!((error.code, error.path), (Code::InvalidInput, None));
    }
}

#[tokio::test]
async fn one_path_in_two_sections() {
    let fixture = Fixture::new();
    fixture.put("a", "1\n2\n");
    fixture.link("a", "l");
    fixture.dir("d");
    fixture.link("d", "e");
    let absolute = fixture.path("a").to_str().unwrap().to_owned();
    let update = |path: &str, line: &str| format!("*** Update File: {path}\n@@\n-{line}\n+{line}x");
    for (first, second) in [("a", "./a"), ("a", "d/../a"), ("a", absolute.as_str()), ("a", "l")] {
        let body = format!("{}\n{}", update(first, "1"), update(second, "2"));
        assert_eq!(refused(&fixture, second, &body).await, Code::InvalidInput, "{second}");
    }
    let body = "*** Add File: d/x\n+1\n*** Add File: e/x\n+2";
    assert_eq!(refused(&fixture, "e/x", body).await, Code::InvalidInput, "two names by a link");
    let moved = "*** Update File: a\n*** Move to: b\n@@\n-1\n";
    for (path, rest) in
        [("b", "*** Add File: b\n+x"), ("./b", "*** Delete File: ./b"), ("a", "*** Delete File: a")]
    {
        assert_eq!(refused(&fixture, path, &format!("{moved}{rest}")).await, Code::InvalidInput, "{rest}");
    }
    // A link and what it leads to are two things, when the link goes.
    apply(&fixture, &format!("*** Delete File: l\n{}", update("a", "1"))).await.unwrap();
    assert_eq!(fixture.text("a"), "1x\n2\n");
    assert!(!fixture.path("l").is_symlink());
}

#[tokio::test]
async fn links() {
    let fixture = Fixture::new();
    fixture.put("real", "a\n");
    fixture.link("real", "l");
    fixture.dir("d");
    fixture.link("d/made", "dangling");
    fixture.link("none/made", "lost");
    fixture.link("loop", "loop");
    apply(&fixture, "*** Update File: l\n@@\n-a\n+b").await.unwrap();
    assert_eq!((fixture.text("real").as_str(), fixture.path("l").is_symlink()), ("b\n", true));
    apply(&fixture, "*** Add File: l\n+c\n*** Add File: dangling\n+d").await.unwrap();
    assert_eq!((fixture.text("real").as_str(), fixture.text("d/made").as_str()), ("c\n", "d\n"));
    assert!(fixture.path("l").is_symlink() && fixture.path("dangling").is_symlink());
    assert_eq!(
        refused(&fixture, "lost", "*** Add File: f\n+x\n*** Add File: lost\n+x").await,
        Code::CommandFailed
    );
    assert!(!fixture.path("none").exists());
    assert_eq!(refused(&fixture, "loop", "*** Add File: loop\n+x").await, Code::CommandFailed);
    assert_eq!(refused(&fixture, "lost", "*** Update File: lost\n@@\n-x").await, Code::NotFound);
    // A link goes itself, wherever it leads.
    for link in ["l", "lost", "loop"] {
        let output = apply(&fixture, &format!("*** Delete File: {link}")).await.unwrap();
        assert_eq!(output.deleted, [link]);
        assert!(!fixture.path(link).is_symlink(), "{link}");
    }
    assert_eq!(fixture.text("real"), "c\n");
}

#[tokio::test]
async fn a_move_takes_the_mode_along() {
    let fixture = Fixture::new();
    for (mode, there) in [
        (0o755, None),
        (0o600, None),
        (0o444, None),
        (0o4711, None),
        (0o600, Some(0o644)),
        (0o755, Some(0o600)),
    ] {
        fixture.put("from", "a\n");
        fixture.chmod("from", mode);
        if let Some(there) = there {
            fixture.put("to/f", "old\n");
            fixture.chmod("to/f", there);
        }
        let output = apply(&fixture, "*** Update File: from\n*** Move to: to/f\n@@\n-a\n+b").await.unwrap();
        assert_eq!(output.output, "Success. Updated the following files:\nM to/f\n");
        assert_eq!(
            (output.modified, output.added, output.deleted),
            (vec!["to/f".to_owned()], vec![], vec![])
        );
        assert_eq!(
            (fixture.text("to/f").as_str(), fixture.mode("to/f")),
            ("b\n", mode),
            "{mode:o} over {there:?}"
        );
        assert_eq!(fixture.names("."), ["to"]);
        assert_eq!(fixture.names("to"), ["f"]);
        fs::remove_file(fixture.path("to/f")).unwrap();
    }
    // Over a file of two names, which is split.
    fixture.put("from", "a\n");
    fixture.chmod("from", 0o640);
    fixture.put("one", "old\n");
    fs::hard_link(fixture.path("one"), fixture.path("two")).unwrap();
    apply(&fixture, "*** Update File: from\n*** Move to: two\n@@\n-a\n+b").await.unwrap();
    assert_eq!((fixture.text("one").as_str(), fixture.text("two").as_str()), ("old\n", "b\n"));
    assert_eq!(fixture.mode("two"), 0o640);
}

#[tokio::test]
async fn a_move_to_the_same_path_is_an_update() {
    let fixture = Fixture::new();
    fixture.put("a", "x\n");
    let output = apply(&fixture, "*** Update File: a\n*** Move to: ./a\n@@\n-x\n+y").await.unwrap();
    assert_eq!((output.modified, fixture.text("a")), (vec!["a".to_owned()], "y\n".to_owned()));
    // By a link it is not: the file would replace itself and then go.
    fixture.link("a", "l");
    let body = "*** Update File: a\n*** Move to: l\n@@\n-y\n+z";
    assert_eq!(refused(&fixture, "l", body).await, Code::InvalidInput);
    // A link that moves leaves what it led to.
    apply(&fixture, "*** Update File: l\n*** Move to: b\n@@\n-y\n+z").await.unwrap();
    assert_eq!((fixture.text("a").as_str(), fixture.text("b").as_str()), ("y\n", "z\n"));
    assert_eq!(fixture.names("."), ["a", "b"]);
    // And one that moves to where it leads.
    fixture.link("a", "l");
    apply(&fixture, "*** Update File: l\n*** Move to: a\n@@\n-y\n+w").await.unwrap();
    assert_eq!((fixture.text("a").as_str(), fixture.path("l").is_symlink()), ("w\n", false));
}

#[tokio::test]
async fn a_folder_may_take_a_files_place() {
    let fixture = Fixture::new();
    fixture.put("a", "x\n");
    let output = apply(&fixture, "*** Delete File: a\n*** Add File: a/b\n+y").await.unwrap();
    assert_eq!(output.output, "Success. Updated the following files:\nA a/b\nD a\n");
    assert_eq!(fixture.text("a/b"), "y\n");
}

#[tokio::test]
async fn modes_owners_and_names_of_updated_files() {
    let fixture = Fixture::new();
    fixture.put("run", "old\n");
    fixture.chmod("run", 0o4711);
    fs::hard_link(fixture.path("run"), fixture.path("other")).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(fixture.path("run"), Some(1234), Some(4321)).unwrap();
        fixture.chmod("run", 0o4711);
    }
    apply(&fixture, "*** Update File: run\n@@\n-old\n+new").await.unwrap();
    let meta = fs::metadata(fixture.path("run")).unwrap();
    assert_eq!((fixture.mode("run"), fixture.text("run").as_str(), meta.nlink()), (0o4711, "new\n", 1));
    assert_eq!(fixture.text("other"), "old\n", "the other name keeps the old bytes");
    if root {
        assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
    }
    // What changes nothing writes nothing.
    let output = apply(&fixture, "*** Update File: run\n@@\n new").await.unwrap();
    assert_eq!(output.modified, ["run"]);
    assert_eq!(fs::metadata(fixture.path("run")).unwrap().ino(), meta.ino());
}

#[tokio::test]
async fn the_limit_of_size() {
    let fixture = Fixture::new();
    let make = |name: &str, size: u64| fs::File::create(fixture.path(name)).unwrap().set_len(size).unwrap();
    make("big", MAX_READ_FILE_BYTES + 1);
    make("most", MAX_READ_FILE_BYTES);
    let codes = |body: &'static str, path: &'static str| {
        let fixture = &fixture;
        async move { code(path, apply(fixture, body).await) }
    };
    assert_eq!(codes("*** Update File: big\n@@\n-x", "big").await, Code::ResponseTooLarge);
    assert_eq!(
        codes("*** Update File: most\n@@\n-x", "most").await,
        Code::BinaryFile,
        "NULs, read to the end"
    );
    assert_eq!(codes("*** Add File: big\n+x", "big").await, Code::ResponseTooLarge);
    assert_eq!(codes("*** Delete File: big\n*** Add File: f\n+x", "big").await, Code::ResponseTooLarge);
    // Where nothing comes after it, nothing has to be kept to undo it.
    apply(&fixture, "*** Add File: f\n+x\n*** Delete File: big").await.unwrap();
    assert_eq!(fixture.names("."), ["f", "most"]);
}

#[tokio::test]
async fn endings_and_marks() {
    let fixture = Fixture::new();
    fixture.put("crlf", "\u{feff}one\r\ntwo\r\n");
    apply(&fixture, "*** Update File: crlf\r\n@@\r\n one\r\n+1.5\r\n two\r").await.unwrap();
    assert_eq!(fixture.text("crlf"), "\u{feff}one\r\n1.5\r\ntwo\r\n");
    fixture.put("open", "one\r\ntwo");
    apply(&fixture, "*** Update File: open\n@@\n-one\n+1").await.unwrap();
    assert_eq!(fixture.text("open"), "1\r\ntwo\r\n");
    fixture.put("empty", "");
    apply(&fixture, "*** Update File: empty\n@@\n+a\n+").await.unwrap();
    assert_eq!(fixture.text("empty"), "a\n\n");
    fixture.put("bom", "\u{feff}");
    apply(&fixture, "*** Update File: bom\n@@\n+a").await.unwrap();
    assert_eq!(fixture.text("bom"), "\u{feff}a\n");
    // What is added has the patch's text and LF, whatever else is there.
    apply(&fixture, "*** Add File: crlf\n+\u{feff}x\r").await.unwrap();
    assert_eq!(fixture.text("crlf"), "\u{feff}x\n");
}

#[tokio::test]
async fn additions_without_a_place_go_to_the_end() {
    let fixture = Fixture::new();
    for (before, body, after) in [
        ("a\nb\n", "@@\n+c", "a\nb\nc\n"),
        ("a\nb\n\n", "@@\n+c", "a\nb\nc\n\n"),
        ("a\r\n\r\n", "@@\n+c", "a\r\nc\r\n\r\n"),
        ("a\nb", "@@\n+c", "a\nb\nc\n"),
        ("\n", "@@\n+c", "c\n\n"),
        ("a\nb\n", "@@\n+c\n@@ a\n+d\n@@\n-b\n+B", "a\nB\nc\nd\n"),
        ("a\n\n", "@@\n+c\n@@\n-a\n-\n+b", "c\nb\n"),
    ] {
        fixture.put("f", before);
        apply(&fixture, &format!("*** Update File: f\n{body}")).await.unwrap();
        assert_eq!(fixture.text("f"), after, "{before:?} {body:?}");
    }
}

#[tokio::test]
async fn an_empty_last_line_may_be_missing() {
    let fixture = Fixture::new();
    for (before, body, after) in [
        ("a\nb\n", "@@\n a\n-b\n+c\n", "a\nc\n"),
        ("a\nb\n", "@@\n-b\n\n+c", "a\n\nc\n"),
        ("a\nb\n", "@@\n-b\n-\n+c", "a\nc\n"),
        ("a\nb\n", "@@\n-b\n-\n+c\n+", "a\nc\n"),
        ("a\nb\n", "@@\n\n+c", "\nc\na\nb\n"),
        ("a\n\n\nb\n", "@@\n-a\n\n-\n", "\nb\n"),
    ] {
        fixture.put("f", before);
        apply(&fixture, &format!("*** Update File: f\n{body}")).await.unwrap();
        assert_eq!(fixture.text("f"), after, "{before:?} {body:?}");
    }
}

#[tokio::test]
async fn failures_say_what_was_looked_for() {
    let fixture = Fixture::new();
    fixture.put("f", "a\nb\n");
    let message = |body: &'static str| {
        let fixture = &fixture;
        async move {
            let error = failure(apply(fixture, body).await);
            assert_eq!((error.code, error.path.as_deref()), (Code::NoMatch, Some("./f")));
            error.message
        }
    };
    assert_eq!(
        message("*** Update File: ./f\n@@\n b\n-c\n+d\n e").await,
        "Failed to find expected lines in ./f:\nb\nc\ne"
    );
    assert_eq!(message("*** Update File: ./f\n@@ x y\n-b").await, "Failed to find context 'x y' in ./f");
    assert_eq!(message("*** Update File: ./f\n@@ b\n-b").await, "Failed to find expected lines in ./f:\nb");
    assert_eq!(message("*** Update File: ./f\n-b\n@@\n-a").await, "Failed to find expected lines in ./f:\na");
}

const READ: (Effect, &str) = (Effect::Allow, "fs:read:/**");

#[track_caller]
fn required(result: Result<Output>) -> Capability {
    match result {
        Err(HandlerError::Permission(PermissionError::Required(required))) => required.capability,
        other => panic!("no requirement: {other:?}"),
    }
}

#[tokio::test]
async fn every_permission_comes_before_the_first_write() {
    let rules = [READ, (Effect::Allow, "fs:write:/**"), (Effect::Ask, "fs:write:{root}/k/**")];
    let fixture = Fixture::with_rules(&rules);
    fixture.put("a", "x\n");
    fixture.put("k/f", "x\n");
    let write = |path: &str| Capability::new(Action::FsWrite, fixture.path(path).to_str().unwrap()).unwrap();
    let add = "*** Add File: new/f\n+x\n*** Update File: a\n@@\n-x\n+y\n";
    let before = tree(&fixture.root());
    for (rest, path) in [
        ("*** Update File: k/f\n@@\n-x\n+y", "k/f"),
        ("*** Add File: k/new/g\n+y", "k/new/g"),
        ("*** Delete File: k/f", "k/f"),
        ("*** Update File: k/f\n*** Move to: b\n@@\n-x\n+y", "k/f"),
    ] {
        assert_eq!(required(apply(&fixture, &format!("{add}{rest}")).await), write(path), "{rest}");
        assert_eq!(tree(&fixture.root()), before, "{rest}");
    }
    let moved = "*** Add File: z\n+x\n*** Update File: a\n*** Move to: k/g\n@@\n-x\n+y";
    assert_eq!(required(apply(&fixture, moved).await), write("k/g"));
    assert_eq!(tree(&fixture.root()), before);
    // What fails anyway asks nobody.
    let failing = "*** Update File: k/f\n@@\n-x\n+y\n*** Update File: a\n@@\n-none";
    assert_eq!(code("a", apply(&fixture, failing).await), Code::NoMatch);
}

#[tokio::test]
async fn answers_for_once_serve_the_whole_call() {
    let fixture = Fixture::with_rules(&[]);
    fixture.put("a", "x\n");
    fixture.put("b", "x\n");
    let body = "*** Update File: a\n*** Move to: c/d\n@@\n-x\n+y\n*** Delete File: b";
    let file = |path: &str| fixture.path(path).to_str().unwrap().to_owned();
    let mut once: Vec<Capability> = Vec::new();
    let store = fixture.store().await;
    // One capability after the other is asked for, each of them once.
    let asked = loop {
        let cx = fixture.context(store.clone(), &decl()).admitting(once.clone());
        let input = flowcell_host::kernel::flows::apply_patch::Input { input: text(body) };
        match ApplyPatchHandler.run(&cx, input).await {
            Err(HandlerError::Permission(PermissionError::Required(required))) => {
                assert!(!once.contains(&required.capability), "{required:?}");
                once.push(required.capability);
                assert!(fixture.path("b").exists() && !fixture.path("c").exists());
            }
            outcome => break outcome,
        }
    };
    asked.unwrap();
    let expected = [
        (Action::FsRead, "a"),
        (Action::FsRead, "c/d"),
        (Action::FsRead, "b"),
        (Action::FsWrite, "a"),
        (Action::FsWrite, "c/d"),
        (Action::FsWrite, "b"),
    ];
    let expected = expected.map(|(action, path)| Capability::new(action, file(path)).unwrap());
    assert_eq!(once, expected);
    assert_eq!((fixture.text("c/d").as_str(), fixture.names(".")), ("y\n", vec!["c".to_owned()]));
}

#[tokio::test]
async fn a_denial_is_an_answer() {
    let rules = [
        READ,
        (Effect::Allow, "fs:write:/**"),
        (Effect::Deny, "fs:write:{root}/k/**"),
        (Effect::Deny, "*:{root}/s"),
    ];
    let fixture = Fixture::with_rules(&rules);
    fixture.put("k/f", "x\n");
    fixture.put("s", "x\n");
    fixture.put("a", "x\n");
    let add = "*** Add File: new\n+x\n";
    for (path, body) in [
        ("k/f", "*** Update File: k/f\n@@\n-x\n+y"),
        ("k/f", "*** Delete File: k/f"),
        ("k/n", "*** Add File: k/n\n+x"),
        ("k/n", "*** Update File: a\n*** Move to: k/n\n@@\n-x\n+y"),
        ("s", "*** Update File: s\n@@\n-x\n+y"),
        ("s", "*** Add File: s\n+y"),
        ("s", "*** Delete File: s"),
    ] {
        assert_eq!(refused(&fixture, path, &format!("{add}{body}")).await, Code::PermissionDenied, "{body}");
    }
    // A link of ours that leads there.
    fixture.link("k/f", "l");
    assert_eq!(refused(&fixture, "l", "*** Update File: l\n@@\n-x\n+y").await, Code::PermissionDenied);
    apply(&fixture, "*** Delete File: l").await.unwrap();
}

#[tokio::test]
async fn a_host_may_ask_for_the_paths() {
    let body = "*** Add File: z\n+1\n*** Update File: a\n*** Move to: b/c\n@@\n-x\n+y\n*** Delete File: d";
    let paths = patch::paths(&text(body)).unwrap();
    assert_eq!(paths, ["z", "a", "b/c", "d"]);
    // Writing them and nothing else is enough; reading is asked for as it is everywhere.
    let rules: Vec<String> = paths.iter().map(|path| format!("fs:write:{{root}}/{path}")).collect();
    let mut granted = vec![READ];
    granted.extend(rules.iter().map(|rule| (Effect::Allow, rule.as_str())));
    let fixture = Fixture::with_rules(&granted);
    fixture.put("a", "x\n");
    fixture.put("d", "x\n");
    apply(&fixture, body).await.unwrap();
    assert_eq!(
        (fixture.names("."), fixture.names("b")),
        (vec!["b".to_owned(), "z".to_owned()], vec!["c".to_owned()])
    );
}
