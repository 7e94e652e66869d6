//! `shell_command`: the case of host contract 10 and the rules of 5.4.

use std::time::{Duration, Instant};

use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{HandlerError, PermissionError};
use serde_json::json;

use crate::shell::{Shell, gone};
use crate::support::failure;

/// The output without its wall time, and that.
fn parts(output: &str) -> (String, f32) {
    let lines: Vec<&str> = output.split('\n').collect();
    let seconds = lines[1].strip_prefix("Wall time: ").unwrap().strip_suffix(" seconds").unwrap();
    ([&lines[..1], &lines[2..]].concat().join("\n"), seconds.parse().unwrap())
}

#[tokio::test]
async fn the_result_is_laid_out_as_codex_does() {
    let shell = Shell::new();
    shell.place.put("sub/a", "1\n");
    let out = shell
        .shell_command(json!({"command": "cat a; echo no >&2; exit 3", "workdir": "sub"}))
        .await
        .unwrap();
    let (text, seconds) = parts(&out.output);
    assert_eq!((text.as_str(), out.exit_code), ("Exit code: 3\nOutput:\n1\nno\n", 3));
    assert!((0.0..3.0).contains(&seconds));
    let out = shell.shell_command(json!({"command": "printf x; sleep 0.3; kill -TERM $$"})).await.unwrap();
    let (text, seconds) = parts(&out.output);
    assert_eq!((text.as_str(), out.exit_code), ("Exit code: 143\nOutput:\nx", 143));
    assert!((0.3..3.0).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn a_timeout_is_a_value() {
    let shell = Shell::new();
    let start = Instant::now();
    let out = shell.shell_command(json!({"command": "sleep 5", "timeout_ms": 100})).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(2_600));
    assert_eq!(out.exit_code, 124);
    assert_eq!(parts(&out.output).0, "Exit code: 124\nOutput:\ncommand timed out after 100 milliseconds\n");
    let command = "trap '' TERM; echo so far; sleep 60.81 & sleep 60.82";
    let out = shell.shell_command(json!({"command": command, "timeout_ms": 200})).await.unwrap();
    assert_eq!(
        parts(&out.output).0,
        "Exit code: 124\nOutput:\ncommand timed out after 200 milliseconds\nso far\n"
    );
    assert!(gone("sleep 60.81") && gone("sleep 60.82"));
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let shell = Shell::new();
    let out = shell.shell_command(json!({"command": "seq 1 20000"})).await.unwrap();
    let (text, _) = parts(&out.output);
    let content: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    let dropped = (content.len() - 40_000).div_ceil(4);
    let body =
        format!("{}…{dropped} tokens truncated…{}", &content[..20_000], &content[content.len() - 20_000..]);
    assert_eq!(text, format!("Exit code: 0\nTotal output lines: 20000\nOutput:\n{body}"));
    // What a stream holds over its capture bound is gone from its start.
    let out = shell.shell_command(json!({"command": "yes | head -c 9000000; echo end >&2"})).await.unwrap();
    assert!(out.output.contains("\nTotal output lines: 4000001\n"), "{}", &out.output[..100]);
    assert!(out.output.ends_with("y\nend\n"));
}

#[tokio::test]
async fn what_cannot_start_fails() {
    let shell = Shell::with_rules(&[(Effect::Deny, "proc:spawn:rm *"), (Effect::Allow, "proc:spawn:echo *")]);
    let error = failure(shell.shell_command(json!({"command": "rm -rf x"})).await);
    assert!(error.code == Code::CommandFailed && error.message.contains("denied by policy"), "{error:?}");
    let error = failure(shell.shell_command(json!({"command": "echo x", "workdir": "none"})).await);
    assert_eq!(error.code, Code::CommandFailed);
    for ms in [0.0, -5.0] {
        let error = failure(shell.shell_command(json!({"command": "echo x", "timeout_ms": ms})).await);
        assert_eq!(error.code, Code::InvalidInput);
    }
    let asked = shell.shell_command(json!({"command": "ls"})).await;
    assert!(matches!(asked, Err(HandlerError::Permission(PermissionError::Required(_)))), "{asked:?}");
}
