//! `bash`: the cases of host contract 10 and the rules of 5 and 5.1.

use std::time::{Duration, Instant};

use flowcell_host::BashHandler;
use flowcell_host::kernel::flows::bash;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{HandlerError, PermissionError};
use serde_json::{Value, json};

use crate::shell::{Shell, gone, need, processes};
use crate::support::failure;

fn line(command: &str) -> Value {
    json!({"command": command})
}

#[track_caller]
fn refused(result: crate::support::Result<bash::Output>, code: Code) -> String {
    let error = failure(result);
    assert_eq!(error.code, code, "{error:?}");
    error.message
}

#[tokio::test]
async fn a_line_runs_in_the_workspace_and_its_end_is_a_value() {
    let shell = Shell::new();
    shell.place.put("a.txt", "text\n");
    let out = shell.bash(line("cat a.txt; echo no >&2; exit 3")).await.unwrap();
    assert_eq!((out.exit_code, out.stdout.as_str(), out.stderr.as_str()), (3, "text\n", "no\n"));
    assert!(!out.stdout_truncated && !out.stderr_truncated && out.invalid_probe.is_none());
    assert_eq!(shell.bash(line("kill -9 $$")).await.unwrap().exit_code, 137);
    assert_eq!(shell.bash(line("no-such-command-here")).await.unwrap().exit_code, 127);
    // It is bash where there is one.
    assert_eq!(shell.bash(line("echo ${BASH_VERSION:+bash}")).await.unwrap().stdout, "bash\n");
}

#[tokio::test]
async fn a_stream_over_the_bound_keeps_both_ends() {
    let shell = Shell::new();
    let out = shell.bash(line("printf '%040000d' 0")).await.unwrap();
    assert_eq!((out.stdout_dropped_bytes, out.stdout_truncated), (10_000, true));
    assert_eq!(out.stdout, format!("{0}\n[10000 bytes omitted]\n{0}", "0".repeat(15_000)));
    assert_eq!((out.stderr_dropped_bytes, out.stderr_truncated), (0, false));
    let out = shell.bash(line("printf '%030000d' 0; printf '%030001d' 0 >&2")).await.unwrap();
    assert_eq!((out.stdout.len(), out.stdout_truncated), (30_000, false));
    assert_eq!((out.stderr_dropped_bytes, out.stderr_truncated), (1, true));
    // Characters are not cut: 14,999 bytes, then two-byte ones.
    let out = shell.bash(line("printf '%014999d' 0; for i in {1..20000}; do printf é; done")).await.unwrap();
    assert!(out.stdout.starts_with(&format!("{}\n[", "0".repeat(14_999))), "{}", &out.stdout[14_990..15_030]);
    assert!(!out.stdout.contains('\u{fffd}'));
    assert_eq!(out.stdout_dropped_bytes, 54_999 - 14_999 - 15_000);
    // What is no UTF-8 is shown as such and counted as it is.
    let out = shell.bash(line("printf '\\xff%030000d' 0")).await.unwrap();
    assert_eq!(out.stdout_dropped_bytes, 1);
    assert!(out.stdout.starts_with('\u{fffd}'));
}

#[tokio::test]
async fn a_background_child_neither_holds_a_call_open_nor_outlives_it() {
    let shell = Shell::new();
    for (mark, command) in [
        ("sleep 61.01", "sleep 61.01 & echo hi"),
        ("sleep 61.02", "setsid sleep 61.02 & echo hi"),
        ("sleep 61.03", "(setsid nohup sleep 61.03 >/dev/null 2>&1 &) ; echo hi"),
    ] {
        let start = Instant::now();
        let out = shell.bash(line(command)).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(2), "{command}: {:?}", start.elapsed());
        assert_eq!((out.stdout.as_str(), out.exit_code), ("hi\n", 0), "{command}");
        assert!(gone(mark), "{command}");
    }
}

#[tokio::test]
async fn standard_input_is_what_is_given_and_then_its_end() {
    let shell = Shell::new();
    let start = Instant::now();
    let out = shell.bash(line("cat")).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2) && out.exit_code == 0 && out.stdout.is_empty());
    let out = shell.bash(json!({"command": "wc -c; cat", "stdin": "é\n"})).await.unwrap();
    assert_eq!(out.stdout.trim(), "3");
    // Nobody has to read it.
    let out = shell.bash(json!({"command": "true", "stdin": "x".repeat(1_000_000)})).await.unwrap();
    assert_eq!(out.exit_code, 0);
    let out = shell.bash(json!({"command": "head -c 3", "stdin": "x".repeat(1_000_000)})).await.unwrap();
    assert_eq!(out.stdout, "xxx");
}

#[tokio::test]
async fn a_timeout_holds_although_sigterm_is_trapped() {
    let shell = Shell::new();
    let start = Instant::now();
    let result =
        shell.bash(json!({"command": "trap '' TERM; echo so far; sleep 60.71", "timeoutMs": 200})).await;
    let message = refused(result, Code::Timeout);
    assert!(start.elapsed() < Duration::from_millis(2_700), "{:?}", start.elapsed());
    assert!(message.contains("200 milliseconds") && message.ends_with("so far\n"), "{message}");
    assert!(gone("sleep 60.71"));
    // The message's share of a long output is bounded, and ends with its end.
    let message = refused(
        shell.bash(json!({"command": "printf '%020000d' 0; echo end; sleep 9", "timeoutMs": 300})).await,
        Code::Timeout,
    );
    let (_, printed) = message.split_once('\n').unwrap();
    assert!(printed.len() == 2_000 && printed.ends_with("0end\n"), "{}", printed.len());
}

#[tokio::test]
async fn timeouts_are_finite_numbers_over_zero() {
    let shell = Shell::new();
    for ms in [0.0, -1.0, -0.0] {
        refused(shell.bash(json!({"command": "echo", "timeoutMs": ms})).await, Code::InvalidInput);
    }
    for ms in [f64::NAN, f64::INFINITY] {
        let invocation =
            bash::Invocation { command: Some("echo".into()), timeout_ms: Some(ms), ..Default::default() };
        let input = bash::Input::Unhermetic(bash::Unhermetic { invocation, ..Default::default() });
        let cx = shell.context(&bash::decl()).await;
        let result = flowcell_host::kernel::Handler::run(
            &BashHandler::new(None).with_processes(processes()),
            &cx,
            input,
        )
        .await;
        refused(result, Code::InvalidInput);
    }
    // A fraction is a whole millisecond, a number beyond all clocks is no failure.
    let message = refused(shell.bash(json!({"command": "sleep 5", "timeoutMs": 0.25})).await, Code::Timeout);
    assert!(message.contains("after 1 milliseconds"), "{message}");
    assert_eq!(shell.bash(json!({"command": "echo", "timeoutMs": 1e300})).await.unwrap().exit_code, 0);
}

#[tokio::test]
async fn contradictions_are_refused_in_their_order() {
    let shell = Shell::new();
    let hermetic = |more: Value| {
        let mut input = json!({"mode": "hermetic", "reads": [], "writes": []});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    for (input, says) in [
        (json!({"command": "a", "script": "b", "stdin": "c", "args": [], "interpreter": "x"}), "not both"),
        (json!({}), "command or script"),
        (json!({"stdin": "x", "args": ["y"]}), "command or script"),
        (hermetic(json!({"script": "a", "stdin": "b", "container": "c", "interpreter": "perl"})), "stdin"),
        (hermetic(json!({"command": "a", "args": [], "interpreter": "sh", "container": "c"})), "args"),
        (hermetic(json!({"command": "a", "interpreter": "sh", "container": "c"})), "interpreter"),
        (hermetic(json!({"script": "a", "interpreter": "perl", "container": "c"})), "container"),
        (hermetic(json!({"script": "cat /etc/passwd", "interpreter": "perl"})), "hermetic script"),
        (json!({"script": "a", "interpreter": "awk", "args": ["x"]}), "awk"),
    ] {
        let message = refused(shell.bash(input.clone()).await, Code::InvalidInput);
        assert!(message.contains(says), "{input}: {message}");
    }
}

#[tokio::test]
async fn a_script_is_data_on_standard_input_of_its_interpreter() {
    let mut shell = Shell::new();
    let script = |text: &str, interpreter: Option<&str>, args: Option<&[&str]>| {
        let mut input = json!({"script": text});
        if let Some(interpreter) = interpreter {
            input["interpreter"] = interpreter.into();
        }
        if let Some(args) = args {
            input["args"] = args.into();
        }
        input
    };
    let args: &[&str] = &["-x", "$(echo no)", "a b"];
    let out = shell.bash(script("echo \"$#:$1:$2:$3\"", None, Some(args))).await.unwrap();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("3:-x:$(echo no):a b\n", ""));
    for (interpreter, text) in [
        ("sh", "printf '%s,' \"$@\""),
        ("dash", "printf '%s,' \"$@\""),
        ("python3", "import sys\nprint(''.join(a + ',' for a in sys.argv[1:]), end='')"),
        ("node", "process.stdout.write(process.argv.slice(2).map(a => a + ',').join(''))"),
        ("perl", "print map { \"$_,\" } @ARGV"),
    ] {
        if need(&format!("a_script_is_data/{interpreter}"), interpreter).is_none() {
            continue;
        }
        let out = shell.bash(script(text, Some(interpreter), Some(args))).await.unwrap();
        assert_eq!(out.stdout, "-x,$(echo no),a b,", "{interpreter}: {}", out.stderr);
    }
    let out = shell.bash(script("tr a b", Some("cat"), None)).await.unwrap();
    assert_eq!(out.stdout, "tr a b");
    let out = shell.bash(script("exit 5", None, None)).await.unwrap();
    assert_eq!(out.exit_code, 5);
    // Stand-ins for all of them, which say what they are given.
    for (interpreter, before) in
        [("bash", "-s,--,"), ("zsh", "-s,--,"), ("python", "-,"), ("node", "-,"), ("ruby", "-,")]
    {
        shell.program(interpreter, "#!/bin/sh\nprintf '%s,' \"$@\"; cat\n");
        let out = shell.bash(script("the text", Some(interpreter), Some(args))).await.unwrap();
        assert_eq!(out.stdout, format!("{before}-x,$(echo no),a b,the text"), "{interpreter}");
    }
    let message =
        refused(shell.bash(script("", Some("no-such-interpreter"), None)).await, Code::CommandFailed);
    assert!(message.contains("not found"), "{message}");
}

#[tokio::test]
async fn the_environment_is_built_and_never_inherited() {
    let mut shell = Shell::new();
    shell.env.insert("OWN".to_owned(), "1".to_owned());
    shell.env.insert("LC_TOKEN".to_owned(), "1".to_owned());
    shell.env.insert("LC_TIME".to_owned(), "C".to_owned());
    let out = shell
        .bash(json!({"command": "env | cut -d= -f1 | sort | tr '\\n' ' '", "env": {"API_KEY": "k", "X": ""}}))
        .await
        .unwrap();
    assert_eq!(out.stdout, "API_KEY HOME LANG LC_TIME PATH PWD SHLVL X _ ");
    for env in [json!({"": "x"}), json!({"A=B": "x"}), json!({"A\u{0}": "x"}), json!({"A": "x\u{0}"})] {
        refused(shell.bash(json!({"command": "env", "env": env})).await, Code::InvalidInput);
    }
    refused(shell.bash(line("echo \u{0}")).await, Code::InvalidInput);
}

#[tokio::test]
async fn the_working_directory() {
    let shell = Shell::new();
    shell.place.put("sub/deep/a", "1");
    let at = |cwd: &str| json!({"command": "pwd", "cwd": cwd});
    let root = shell.root();
    assert_eq!(shell.bash(at("sub/../sub/deep")).await.unwrap().stdout, format!("{root}/sub/deep\n"));
    assert_eq!(shell.bash(at("/")).await.unwrap().stdout, "/\n");
    for cwd in ["missing", "sub/deep/a", "sub/deep/a/b"] {
        let message = refused(shell.bash(at(cwd)).await, Code::CommandFailed);
        assert!(message.contains(cwd), "{message}");
    }
    // What is no path at all (0).
    for cwd in ["", "sub\0"] {
        refused(shell.bash(at(cwd)).await, Code::InvalidInput);
        let input = json!({"command": "pwd", "workdir": cwd});
        assert_eq!(failure(shell.shell_command(input).await).code, Code::InvalidInput, "{cwd:?}");
    }
}

#[tokio::test]
async fn permissions_of_a_command() {
    let shell = Shell::with_rules(&[
        (Effect::Allow, "proc:spawn:echo *"),
        (Effect::Deny, "proc:spawn:rm *"),
        (Effect::Allow, "proc:spawn:cat *"),
    ]);
    shell.place.put("a", "1");
    assert_eq!(shell.bash(line("echo hi | cat -")).await.unwrap().stdout, "hi\n");
    let message = refused(shell.bash(line("echo hi && rm a")).await, Code::CommandFailed);
    assert!(message.contains("denied by policy"), "{message}");
    match shell.bash(line("sleep 0")).await {
        Err(HandlerError::Permission(PermissionError::Required(required))) => {
            assert_eq!(required.capability.to_string(), "proc:spawn:sleep 0");
        }
        other => panic!("{other:?}"),
    }
    assert!(shell.place.path("a").exists());
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_running() {
    let shell = Shell::new();
    let cx = shell.context(&bash::decl()).await;
    let cancel = cx.cancel.clone();
    let handler = BashHandler::new(None).with_processes(processes());
    let call =
        flowcell_host::kernel::Handler::run(&handler, &cx, bash::Input::command("sleep 60.72 & sleep 60.73"));
    let (result, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(HandlerError::Cancelled)), "{result:?}");
    assert!(gone("sleep 60.72") && gone("sleep 60.73"));
}

fn hermetic(command: &str, reads: &[&str], writes: &[&str]) -> Value {
    json!({"mode": "hermetic", "command": command, "reads": reads, "writes": writes})
}

#[tokio::test]
async fn a_hermetic_command_names_declared_paths_alone() {
    let shell = Shell::new();
    let root = shell.root();
    shell.place.put("src/a", "1\n");
    shell.place.dir("out");
    for (input, code, path) in [
        (hermetic("cat /etc/passwd", &[], &[]), Code::OutsideDeclaredReads, "/etc/passwd".to_owned()),
        (hermetic("echo x >| out/f", &[], &[]), Code::OutsideDeclaredWrites, format!("{root}/out/f")),
        (
            hermetic("cat src/a > out/f", &["src"], &["src"]),
            Code::OutsideDeclaredWrites,
            format!("{root}/out/f"),
        ),
        (hermetic("cat src/../../x", &["src"], &[]), Code::OutsideDeclaredReads, {
            format!("{}/x", root.rsplit_once('/').unwrap().0)
        }),
    ] {
        let error = failure(shell.bash(input.clone()).await);
        assert_eq!((error.code, error.path), (code, Some(path)), "{input}");
    }
    assert!(!shell.place.path("out/f").exists());
    let mut input = hermetic("true", &["src"], &[]);
    input["cwd"] = "out".into();
    let error = failure(shell.bash(input.clone()).await);
    assert_eq!((error.code, error.path), (Code::OutsideDeclaredReads, Some(format!("{root}/out"))));
    // The workspace root itself needs no declaration, and entries are read against the directory.
    input["cwd"] = ".".into();
    assert_eq!(shell.bash(input.clone()).await.unwrap().exit_code, 0);
    input["cwd"] = "src".into();
    input["command"] = "cat ./a".into();
    input["reads"] = json!(["."]);
    assert_eq!(shell.bash(input).await.unwrap().stdout, "1\n");
    let script = json!({"mode": "hermetic", "script": "cat /etc/passwd", "reads": [], "writes": []});
    assert_eq!(failure(shell.bash(script).await).code, Code::OutsideDeclaredReads);
}

#[tokio::test]
async fn a_hermetic_command_does_what_it_declares() {
    let shell = Shell::new();
    shell.place.put("src/a.txt", "1\n");
    shell.place.put("src/b.md", "2\n");
    shell.place.dir("out/old");
    let run = async |command: &str, reads: &[&str], writes: &[&str]| {
        shell.bash(hermetic(command, reads, writes)).await.unwrap()
    };
    let out = run("cat src/a.txt > out/f; cat out/f; mkdir out/new", &["src/**", "out"], &["out"]).await;
    assert_eq!((out.exit_code, out.stdout.as_str()), (0, "1\n"), "{}", out.stderr);
    assert!(shell.place.path("out/new").is_dir());
    let out = run("cat src/a.txt", &["src/*.txt"], &[]).await;
    assert_eq!((out.exit_code, out.stdout.as_str()), (0, "1\n"), "{}", out.stderr);
    // A file that does not exist yet needs its directory declared.
    let error = failure(shell.bash(hermetic("echo x > made/f", &[], &["made/f"])).await);
    assert_eq!(
        (error.code, error.path),
        (Code::OutsideDeclaredWrites, Some(format!("{}/made/f", shell.root())))
    );
}

#[tokio::test]
async fn what_the_text_does_not_show_is_refused_by_the_host() {
    let shell = Shell::new();
    shell.place.put("secret", "hidden\n");
    shell.place.put("a", "1\n");
    let cx = shell.context(&bash::decl()).await;
    let input = flowcell_host::kernel::flows::decode::decode(
        &bash::decl().input,
        &hermetic("d=secret; cat $d", &["a"], &[]),
    )
    .unwrap();
    let out =
        flowcell_host::kernel::Handler::run(&BashHandler::new(None).with_processes(processes()), &cx, input)
            .await
            .unwrap();
    let notes = Value::from(cx.notes.take());
    if notes["enforcement"]["fs"] == "None" || notes["enforcement"]["fs"].is_null() {
        crate::shell::skip(
            "what_the_text_does_not_show_is_refused_by_the_host",
            "no Landlock on this machine",
        );
        return;
    }
    assert_eq!((out.exit_code, out.stdout.as_str()), (1, ""));
    assert!(out.stderr.contains("Permission denied"), "{}", out.stderr);
    assert!(need("hermetic python", "python3").is_some());
    let out = shell.bash(hermetic("cat secret a; ls", &["a"], &[])).await.unwrap();
    assert!(out.stdout.starts_with("1\n") && !out.stdout.contains("hidden"), "{out:?}");
}

/// In a view of a checkpoint the declared paths are those of the copy.
#[tokio::test]
async fn a_hermetic_command_in_a_view() {
    let shell = Shell::new();
    shell.place.put("a", "now\n");
    let copy = tempfile::tempdir().unwrap();
    std::fs::write(copy.path().join("a"), "then\n").unwrap();
    std::fs::create_dir(copy.path().join("out")).unwrap();
    let mut cx = shell.context(&bash::decl()).await;
    cx.files = cx.files.over(copy.path()).unwrap();
    cx.workspace = cx.files.workspace().clone();
    cx.spawner = cx.spawner.with_files(cx.files.clone());
    let root = shell.root();
    let live = format!("cat a; cp ./a out/b; x={root}; cat $x/a");
    let input = hermetic(&live, &[".", &root], &["out"]);
    let input = flowcell_host::kernel::flows::decode::decode(&bash::decl().input, &input).unwrap();
    let handler = BashHandler::new(None).with_processes(processes());
    let out = flowcell_host::kernel::Handler::run(&handler, &cx, input).await.unwrap();
    assert_eq!(out.stdout, "then\n", "{}", out.stderr);
    assert!(out.stderr.contains("Permission denied"), "{}", out.stderr);
    assert_eq!(std::fs::read(copy.path().join("out/b")).unwrap(), b"then\n");
}

/// A copy has no `.git`. The one of the workspace that the copy lies in is the user's: git does not find it by itself.
#[tokio::test]
async fn git_in_a_view_leaves_the_repository_of_the_user_alone() {
    if need("git at a checkpoint", "git").is_none() {
        return;
    }
    let shell = Shell::new();
    shell.place.put("a", "now\n");
    assert_eq!(shell.bash(json!({"command": "git init -q ."})).await.unwrap().exit_code, 0);
    shell.place.put("data/copies/1/sub/a", "then\n");
    let mut cx = shell.context(&bash::decl()).await;
    cx.files = cx.files.over(shell.place.path("data/copies/1")).unwrap();
    cx.workspace = cx.files.workspace().clone();
    cx.spawner = cx.spawner.with_files(cx.files.clone());
    let run = async |input: Value| {
        let input = flowcell_host::kernel::flows::decode::decode(&bash::decl().input, &input).unwrap();
        let handler = BashHandler::new(None).with_processes(processes());
        flowcell_host::kernel::Handler::run(&handler, &cx, input).await.unwrap()
    };
    for cwd in [".", "sub"] {
        let out = run(json!({"command": "git add -A", "cwd": cwd})).await;
        assert_eq!(out.exit_code, 128, "{cwd}: {out:?}");
    }
    assert!(!shell.place.path(".git/index").exists());
    // Whoever makes a repository there has one, and whoever says otherwise is heard.
    let out = run(json!({"command": "git init -q . && cd sub && git rev-parse --show-prefix"})).await;
    assert_eq!(out.stdout, "sub/\n", "{out:?}");
    let out =
        run(json!({"command": "echo $GIT_CEILING_DIRECTORIES", "env": {"GIT_CEILING_DIRECTORIES": "/x"}}))
            .await;
    assert_eq!(out.stdout, "/x\n");
}
