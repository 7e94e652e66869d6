//! Patches that fail or are interrupted half-way: all of it happens, or nothing did (host contract 6).

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use flowcell_host::ApplyPatchHandler;
use flowcell_host::kernel::flows::apply_patch::{Input, Output, decl};
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{Handler as _, HandlerError};

use crate::support::{Fixture, Result, code, failure, skip};
use crate::tree::{Node, differing, tree};

fn text(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

async fn apply(fixture: &Fixture, body: &str) -> Result<Output> {
    fixture.patch(&text(body)).await
}

/// Steps of every kind, none of which fails by itself.
const STEPS: [&str; 8] = [
    "*** Add File: new/deep/f\n+x\n",
    "*** Update File: up\n@@\n-old\n+new\n",
    "*** Delete File: gone\n",
    "*** Add File: over\n+x\n",
    "*** Update File: from\n*** Move to: to/far/away\n@@\n-old\n+new\n",
    "*** Update File: from2\n*** Move to: there\n@@\n-old\n+new\n",
    "*** Delete File: link\n",
    "*** Update File: through\n@@\n-old\n+new\n",
];
/// A step that preflight takes and the write refuses: its parent is a file by then.
const LATE: &str = "*** Add File: file\n+x\n*** Add File: file/below\n+x";

fn world() -> Fixture {
    let fixture = Fixture::new();
    for (path, mode) in [
        ("up", 0o755),
        ("gone", 0o640),
        ("over", 0o600),
        ("from", 0o700),
        ("from2", 0o444),
        ("there", 0o664),
        ("target", 0o644),
    ] {
        fixture.put(path, "old\r\nkept");
        fixture.chmod(path, mode);
    }
    fixture.dir("to");
    fixture.link("target", "link");
    fixture.link("target", "through");
    fixture
}

#[tokio::test]
async fn a_failing_step_undoes_the_ones_before_it() {
    for from in 0..STEPS.len() {
        for to in from..=STEPS.len() {
            let fixture = world();
            let before = tree(&fixture.root());
            let body = format!("{}{LATE}", STEPS[from..to].concat());
            let error = failure(apply(&fixture, &body).await);
            assert_eq!(
                (error.code, error.path.as_deref()),
                (Code::CommandFailed, Some("file/below")),
                "{error:?}"
            );
            assert!(!error.message.contains("left changed"), "{error:?}");
            assert_eq!(differing(&before, &tree(&fixture.root())), Vec::<PathBuf>::new(), "{body}");
        }
    }
    // And all of them together succeed without the late one.
    let fixture = world();
    apply(&fixture, &STEPS.concat()).await.unwrap();
    assert_eq!(fixture.text("to/far/away"), "new\r\nkept\r\n");
    assert_eq!((fixture.mode("to/far/away"), fixture.mode("there")), (0o700, 0o444));
    assert_eq!(fixture.names("."), ["new", "over", "target", "there", "through", "to", "up"]);
}

#[tokio::test]
async fn directories_that_others_use_by_then_stay() {
    let fixture = Fixture::new();
    let stranger = fixture.path("new/stranger");
    let root = fixture.path("new");
    fixture.during_replace(move || {
        // The parents are there already.
        assert!(root.is_dir());
        fs::write(stranger, "x").unwrap();
    });
    let body = format!("*** Add File: new/deep/f\n+x\n{LATE}");
    assert_eq!(code("file/below", apply(&fixture, &body).await), Code::CommandFailed);
    assert_eq!(fixture.names("."), ["new"]);
    assert_eq!(fixture.names("new"), ["stranger"]);
}

/// A file that changes between the look at it and the write fails the call, and the change stays.
#[tokio::test]
async fn a_file_that_changes_during_the_call() {
    let first = "*** Add File: a\n+x\n";
    for (path, body) in [
        ("up", "*** Update File: up\n@@\n-old\n+new"),
        ("over", "*** Add File: over\n+x"),
        ("gone", "*** Delete File: gone"),
        ("from", "*** Update File: from\n*** Move to: to/f\n@@\n-old\n+new"),
        ("there", "*** Update File: from\n*** Move to: there\n@@\n-old\n+new"),
    ] {
        for replaced in [false, true] {
            let fixture = world();
            let file = fixture.path(path);
            let aside = fixture.path("aside");
            fixture.during_replace(move || {
                if replaced {
                    fs::write(&aside, "theirs").unwrap();
                    fs::rename(&aside, &file).unwrap();
                } else {
                    fs::write(&file, "theirs").unwrap();
                }
            });
            let before = tree(&fixture.root());
            let error = failure(apply(&fixture, &format!("{first}{body}")).await);
            assert_eq!((error.code, error.path.as_deref()), (Code::CommandFailed, Some(path)), "{error:?}");
            assert!(error.message.contains("the file changed during the call"), "{error:?}");
            assert_eq!(fixture.text(path), "theirs");
            assert_eq!(differing(&before, &tree(&fixture.root())), [PathBuf::from(path)], "{body}");
        }
    }
    // What vanishes is as changed as what differs.
    let fixture = world();
    let file = fixture.path("up");
    fixture.during_replace(move || fs::remove_file(file).unwrap());
    let error = failure(apply(&fixture, &format!("{first}*** Update File: up\n@@\n-old\n+new")).await);
    assert_eq!((error.code, error.path.as_deref()), (Code::CommandFailed, Some("up")));
    assert!(!fixture.path("a").exists() && !fixture.path("up").exists());
}

/// A file that somebody makes where the patch adds one is overwritten, as one that was there is; when the patch fails then,
/// nothing can bring it back, and the failure says so.
#[tokio::test]
async fn what_cannot_be_undone_is_named() {
    let fixture = Fixture::new();
    let file = fixture.path("a");
    fixture.during_replace(move || fs::write(file, "theirs").unwrap());
    let error = failure(apply(&fixture, &format!("*** Add File: a\n+x\n*** Add File: b\n+x\n{LATE}")).await);
    assert_eq!((error.code, error.path.as_deref()), (Code::CommandFailed, Some("file/below")));
    assert!(error.message.ends_with(" These paths are left changed: a."), "{error:?}");
    assert_eq!(fixture.names("."), ["a"]);
}

/// A link that went can be made again only where writing what it leads to is permitted.
#[tokio::test]
async fn a_link_to_what_is_denied_is_named() {
    let rules = [
        (Effect::Allow, "fs:read:/**"),
        (Effect::Allow, "fs:write:/**"),
        (Effect::Deny, "fs:write:{root}/k/**"),
    ];
    let fixture = Fixture::with_rules(&rules);
    fixture.put("k/f", "x\n");
    fixture.link("k/f", "l");
    let error = failure(apply(&fixture, &format!("*** Delete File: l\n{LATE}")).await);
    assert!(error.message.ends_with(" These paths are left changed: l."), "{error:?}");
}

#[tokio::test]
async fn a_file_with_another_owner_is_named_when_it_cannot_come_back() {
    const NAME: &str = "a_file_with_another_owner_is_named_when_it_cannot_come_back";
    if !rustix::process::geteuid().is_root() {
        skip(NAME, "only root makes files of other owners");
        return;
    }
    let fixture = Fixture::new();
    for path in ["gone", "up"] {
        fixture.put(path, "x\n");
        std::os::unix::fs::chown(fixture.path(path), Some(1234), Some(1234)).unwrap();
    }
    let before = tree(&fixture.root());
    let error = failure(apply(&fixture, &format!("*** Update File: up\n@@\n-x\n+y\n{LATE}")).await);
    assert!(!error.message.contains("left changed"), "{error:?}");
    let error = failure(apply(&fixture, &format!("*** Delete File: gone\n{LATE}")).await);
    assert!(error.message.ends_with(" These paths are left changed: gone."), "{error:?}");
    assert_eq!(tree(&fixture.root()), before, "the bytes and the mode are back");
}

/// A future of the call that is polled once is over: what is dropped or cancelled later finds nothing half-way.
#[tokio::test]
async fn nothing_waits_between_the_writes() {
    for late in [false, true] {
        let fixture = world();
        let before = tree(&fixture.root());
        let cx = fixture.context(fixture.store().await, &decl());
        let cancel = cx.cancel.clone();
        // Cancelled in the middle of the first write.
        fixture.during_replace(move || cancel.cancel());
        let body = STEPS.concat() + if late { LATE } else { "" };
        let mut call = pin!(ApplyPatchHandler.run(&cx, Input { input: text(&body) }));
        let outcome = match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("the call waits"),
        };
        if late {
            assert_eq!(code("file/below", outcome), Code::CommandFailed);
            assert_eq!(tree(&fixture.root()), before, "it is undone");
        } else {
            assert_eq!(outcome.unwrap().modified.len(), 4);
            assert!(!fixture.path("link").is_symlink(), "it is done to its end");
        }
    }
}

#[tokio::test]
async fn a_cancelled_call_begins_nothing() {
    let fixture = world();
    let before = tree(&fixture.root());
    let cx = fixture.context(fixture.store().await, &decl());
    cx.cancel.cancel();
    let outcome = ApplyPatchHandler.run(&cx, Input { input: text(&STEPS.concat()) }).await;
    assert!(matches!(outcome, Err(HandlerError::Cancelled)), "{outcome:?}");
    assert_eq!(tree(&fixture.root()), before);
}

/// A search through much text stops when the call is cancelled.
#[tokio::test]
async fn a_long_search_is_cancelled() {
    let fixture = Fixture::new();
    fixture.put("f", "a\n".repeat(2_000_000));
    // Each line is found loosely at once, after a look at all of the file.
    let body = format!("*** Update File: f\n{}", "@@\n-a \n".repeat(50_000));
    let cx = fixture.context(fixture.store().await, &decl());
    let cancel = cx.cancel.clone();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        cancel.cancel();
    });
    let outcome = ApplyPatchHandler.run(&cx, Input { input: text(body.trim_end()) }).await;
    assert!(matches!(outcome, Err(HandlerError::Cancelled)), "{outcome:?}");
    timer.join().unwrap();
    assert_eq!(fixture.bytes("f").len(), 4_000_000);
}

/// On a disk that is full: a file system of its own, small and in memory.
#[tokio::test]
async fn a_full_disk() {
    const NAME: &str = "a_full_disk";
    let fixture = Fixture::new();
    fixture.dir("disk");
    let disk = match crate::support::SmallDisk::mount(&fixture.path("disk"), "64k") {
        Ok(disk) => disk,
        Err(why) => return skip(NAME, &why),
    };
    fixture.put("disk/small", "old\n");
    fixture.put("disk/gone", "x".repeat(8_000) + "\n");
    fixture.chmod("disk/gone", 0o640);
    fixture.put("disk/other", "y\n");
    let before = tree(&fixture.root());
    let much = format!("+{}\n", "z".repeat(1_000)).repeat(40);
    let more = format!("+{}\n", "z".repeat(1_000)).repeat(60);
    // The first steps take nearly all of the room, the last one finds too little.
    for last in [
        format!("*** Add File: disk/more\n{more}"),
        format!("*** Update File: disk/other\n@@\n-y\n{more}"),
        format!("*** Update File: disk/other\n*** Move to: disk/deep/er\n@@\n-y\n{more}"),
    ] {
        let body = format!("*** Delete File: disk/gone\n*** Update File: disk/small\n@@\n-old\n{much}{last}");
        let error = failure(apply(&fixture, body.trim_end()).await);
        assert_eq!(error.code, Code::CommandFailed, "{error:?}");
        assert!(error.message.contains("No space left on device"), "{error:?}");
        assert!(!error.message.contains("left changed"), "{error:?}");
        assert_eq!(differing(&before, &tree(&fixture.root())), Vec::<PathBuf>::new());
    }
    // The other flows on the same disk.
    let error = failure(fixture.write("disk/new", &"z".repeat(70_000)).await);
    assert_eq!(error.code, Code::CommandFailed);
    let input = serde_json::json!({"path": "disk/other", "oldString": "y", "newString": "z".repeat(70_000)});
    assert_eq!(failure(fixture.edit(input).await).code, Code::CommandFailed);
    assert_eq!(differing(&before, &tree(&fixture.root())), Vec::<PathBuf>::new());
    assert!(matches!(before.get(&PathBuf::from("disk/gone")), Some(Node::File(0o640, _))));
    drop(disk);
}
