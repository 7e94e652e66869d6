//! What mode bits stop. A process with the capabilities of root is stopped by none, so the test runs itself again without
//! two of them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use flowcell_host::kernel::flows::error::Code;
use serde_json::json;

use crate::support::{Fixture, code, failure, fifo};

const CHILD: &str = "unprivileged::as_the_owner";

#[test]
fn mode_bits_are_respected() {
    let exe = std::env::current_exe().unwrap();
    let run = ["--exact", CHILD, "--ignored", "--nocapture"];
    let mut command = if rustix::process::geteuid().is_root() {
        let mut setpriv = Command::new("setpriv");
        setpriv.arg("--bounding-set=-dac_override,-dac_read_search").arg(exe);
        setpriv
    } else {
        Command::new(exe)
    };
    match command.args(run).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
        Err(error) => println!("skipped: mode_bits_are_respected: setpriv: {error}"),
    }
}

#[tokio::test]
#[ignore = "run by mode_bits_are_respected, without the capabilities of root"]
async fn as_the_owner() {
    let fixture = Fixture::new();
    fixture.put("ro", "old\n");
    fixture.chmod("ro", 0o444);
    fixture.put("secret", "x\n");
    fixture.chmod("secret", 0o000);
    fixture.put("listed/f", "x\n");
    fixture.put("closed/f", "x\n");
    fixture.put("search/f", "x\n");

    // A read-only file is not overwritten, although its directory would let it be renamed over.
    assert_eq!(code("ro", fixture.write("ro", "new").await), Code::PermissionDenied);
    let input = json!({"path": "ro", "oldString": "old", "newString": "new"});
    assert_eq!(code("ro", fixture.edit(input).await), Code::PermissionDenied);
    assert_eq!((fixture.text("ro").as_str(), fixture.mode("ro")), ("old\n", 0o444));
    assert!(fixture.read(json!({"path": "ro"})).await.is_ok());

    // Nor by a patch, whose earlier writes are taken back.
    fixture.put("plain", "old\n");
    fixture.chmod("plain", 0o640);
    let before = crate::tree::tree(&fixture.root());
    let begin = "*** Begin Patch\n*** Add File: new/f\n+x\n*** Update File: plain\n@@\n-old\n+new\n";
    for (path, rest) in [
        ("ro", "*** Update File: ro\n@@\n-old\n+new"),
        ("ro", "*** Add File: ro\n+new"),
        ("secret", "*** Update File: secret\n@@\n-x\n+y"),
    ] {
        let patch = format!("{begin}{rest}\n*** End Patch");
        assert_eq!(code(path, fixture.patch(&patch).await), Code::PermissionDenied);
        assert_eq!(crate::tree::tree(&fixture.root()), before, "{rest}");
    }

    assert_eq!(code("secret", fixture.read(json!({"path": "secret"})).await), Code::PermissionDenied);
    let input = json!({"path": "secret", "oldString": "x", "newString": "y"});
    assert_eq!(code("secret", fixture.edit(input).await), Code::PermissionDenied);

    // No sibling can be made: an existing file is written in place, a new one is refused.
    let before = fs::metadata(fixture.path("listed/f")).unwrap().ino();
    fixture.chmod("listed", 0o555);
    assert!(!fixture.write("listed/f", "new").await.unwrap().created);
    assert_eq!(fixture.text("listed/f"), "new");
    assert_eq!(fs::metadata(fixture.path("listed/f")).unwrap().ino(), before);
    assert_eq!(code("listed/g", fixture.write("listed/g", "x").await), Code::PermissionDenied);
    assert_eq!(code("listed/d/g", fixture.write("listed/d/g", "x").await), Code::PermissionDenied);
    // What can only be written in place is written back in place, and what cannot be removed ends the patch.
    let update = "*** Update File: listed/f\n@@\n-new\n+newer\n";
    fixture.chmod("listed", 0o755);
    fixture.put("listed/i", "x\n");
    fixture.chmod("listed", 0o555);
    fixture.put("ro2", "x\n");
    fixture.chmod("ro2", 0o444);
    let before = crate::tree::tree(&fixture.root());
    for (path, rest) in [
        ("listed/g", "*** Add File: listed/g\n+x"),
        ("listed/g", "*** Delete File: ro2\n*** Add File: listed/g\n+x"),
        ("listed/h", "*** Update File: plain\n*** Move to: listed/h\n@@\n-old\n+new"),
        ("listed/i", "*** Delete File: listed/i"),
    ] {
        let patch = format!("*** Begin Patch\n{update}{rest}\n*** End Patch");
        assert_eq!(code(path, fixture.patch(&patch).await), Code::PermissionDenied, "{rest}");
        assert_eq!(crate::tree::tree(&fixture.root()), before, "{rest}");
    }

    fixture.chmod("closed", 0o000);
    assert_eq!(code("closed", fixture.ls(json!({"path": "closed"})).await), Code::PermissionDenied);
    assert_eq!(code("closed/f", fixture.read(json!({"path": "closed/f"})).await), Code::PermissionDenied);
    assert_eq!(code("closed/f", fixture.write("closed/f", "x").await), Code::PermissionDenied);

    // What may not be opened is still told apart from a file that may not be read.
    assert_eq!(code("closed", fixture.read(json!({"path": "closed"})).await), Code::IsDirectory);
    fifo(&fixture.path("pipe"));
    fixture.chmod("pipe", 0o000);
    assert_eq!(code("pipe", fixture.read(json!({"path": "pipe"})).await), Code::NotFound);
    assert_eq!(code("pipe", fixture.ls(json!({"path": "pipe"})).await), Code::NotADirectory);
    assert_eq!(code("secret", fixture.ls(json!({"path": "secret"})).await), Code::NotADirectory);

    // A directory that may be searched and not listed gives no listing.
    fixture.chmod("search", 0o111);
    let error = failure(fixture.read(json!({"path": "search/none"})).await);
    assert_eq!((error.code, error.message.as_str()), (Code::NotFound, "File not found: search/none."));
    for path in ["listed", "closed", "search"] {
        fixture.chmod(path, 0o755);
    }
}
