//! Commands inside containers (host contract 5.1), by a stand-in for `docker` and `podman` that records what it is given and
//! runs the command here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_host::container::{CommandTransport, Container, MARK};
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::flows::{bash, decode::decode, test};
use flowcell_host::kernel::{Handler, HandlerError};
use flowcell_host::runner::Runner;
use flowcell_host::{BashHandler, TestHandler, bash::sealed};
use serde_json::{Value, json};

use crate::shell::{Shell, gone, processes, running};
use crate::support::{Result, failure};

/// Records its arguments, one a line, and the values of the variables that it passes on; then runs the command with those
/// variables alone, as a container does.
const CLIENT: &str = r#"#!/bin/bash
log="$(dirname "$0")/../.log"
{ echo "== ${0##*/}"; printf '%s\n' "$@"; } >>"$log"
[ "$1" = exec ] || exit 90
shift
cwd=/; input=/dev/null; env=(PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent)
while :; do
  case "$1" in
    -i) input=; shift ;;
    -w) cwd="$2"; shift 2 ;;
    -e) env+=("$2=${!2}"); echo "-- $2=${!2}" >>"$log"; shift 2 ;;
    --) shift; break ;;
    *) exit 91 ;;
  esac
done
[ "$1" = box ] || { echo "no such container: $1" >&2; exit 1; }
shift
cd "$cwd" || exit 92
if [ -n "$input" ]; then exec env -i "${env[@]}" "$@" </dev/null; fi
exec env -i "${env[@]}" "$@"
"#;

fn shell_with(rules: &[(Effect, &str)]) -> Shell {
    let mut shell = Shell::with_rules(rules);
    shell.program("docker", CLIENT);
    shell.program("podman", CLIENT);
    shell
}

/// What the client was given: calls, each its program and its words.
pub(crate) fn calls(shell: &Shell) -> Vec<Vec<String>> {
    let log = if shell.place.path(".log").exists() { shell.place.text(".log") } else { String::new() };
    let mut calls: Vec<Vec<String>> = Vec::new();
    for line in log.lines() {
        match (line.strip_prefix("== "), calls.last_mut()) {
            (Some(program), _) => calls.push(vec![program.to_owned()]),
            (None, Some(call)) => call.push(line.to_owned()),
            (None, None) => panic!("{log}"),
        }
    }
    calls
}

/// A call's words without its mark.
fn unmarked(call: &[String]) -> String {
    let words: Vec<&str> = call.iter().map(String::as_str).filter(|word| !word.starts_with("-- ")).collect();
    words.join(" ").replace(&format!(" -e {MARK}"), "")
}

fn docker() -> Arc<dyn Container> {
    Arc::new(CommandTransport::docker())
}

async fn bash(shell: &Shell, handler: BashHandler, input: Value) -> Result<bash::Output> {
    shell.call(handler.with_processes(processes()), bash::decl(), input).await
}

#[tokio::test]
async fn a_line_and_a_script_in_a_container() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    let run = async |input: Value| bash(&shell, BashHandler::new(Some(docker())), input).await.unwrap();
    let out = run(json!({"command": "echo $A; cat", "container": "box", "cwd": "/usr", "stdin": "in", "env": {"A": "secret", "B": "2"}})).await;
    assert_eq!((out.exit_code, out.stdout.as_str()), (0, "secret\nin"), "{}", out.stderr);
    let out = run(json!({"script": "echo \"$1\"", "args": ["-x y"], "container": "box"})).await;
    assert_eq!((out.exit_code, out.stdout.as_str()), (0, "-x y\n"), "{}", out.stderr);
    let out = run(json!({"script": "cat", "interpreter": "sh", "container": "box"})).await;
    assert_eq!((out.exit_code, out.stdout.as_str()), (0, ""), "{}", out.stderr);
    let calls = calls(&shell);
    assert_eq!(unmarked(&calls[0]), "docker exec -i -w /usr -e A -e B -- box bash -lc echo $A; cat");
    assert!(calls[0].contains(&"-- A=secret".to_owned()), "{:?}", calls[0]);
    assert_eq!(unmarked(&calls[1]), "docker exec -i -- box bash -lc exec \"$@\" bash bash -s -- -x y");
    assert_eq!(unmarked(&calls[2]), "docker exec -i -- box bash -lc exec \"$@\" bash sh -s --");
    // Values are in no argv.
    assert!(
        calls.iter().all(|call| call.iter().all(|word| word.starts_with("-- ") || !word.contains("secret")))
    );
}

#[tokio::test]
async fn another_program_and_a_container_that_is_not_there() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    let podman: Arc<dyn Container> = Arc::new(CommandTransport::podman());
    let out = bash(&shell, BashHandler::new(Some(podman)), json!({"command": "pwd", "container": "box"}))
        .await
        .unwrap();
    assert_eq!(out.stdout, "/\n");
    let out = bash(&shell, BashHandler::new(Some(docker())), json!({"command": "pwd", "container": "other"}))
        .await
        .unwrap();
    assert_eq!((out.exit_code, out.stderr.as_str()), (1, "no such container: other\n"));
    let calls = calls(&shell);
    assert_eq!((calls[0][0].as_str(), calls[1][0].as_str()), ("podman", "docker"));
}

#[tokio::test]
async fn what_a_transport_refuses() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    for (input, code) in [
        (json!({"command": "a", "container": ""}), Code::InvalidInput),
        (json!({"command": "a", "container": "--rm"}), Code::InvalidInput),
        (json!({"command": "a", "container": "box", "env": {"DOCKER_HOST": "x"}}), Code::InvalidInput),
        (json!({"command": "a", "container": "box", "env": {"A=B": "x"}}), Code::InvalidInput),
        (json!({"command": "a", "container": "box", "timeoutMs": 0}), Code::InvalidInput),
    ] {
        let error = failure(bash(&shell, BashHandler::new(Some(docker())), input.clone()).await);
        assert_eq!(error.code, code, "{input}");
    }
    let error =
        failure(bash(&shell, BashHandler::new(None), json!({"command": "a", "container": "box"})).await);
    assert_eq!(error.code, Code::ProviderUnavailable);
    assert!(calls(&shell).is_empty());
    let bare = Shell::new();
    let missing: Arc<dyn Container> = Arc::new(CommandTransport::new("no-such-client"));
    let input = json!({"command": "make it", "container": "box"});
    let error = failure(bash(&bare, BashHandler::new(Some(missing)), input).await);
    assert_eq!(error.code, Code::CommandFailed);
    assert!(error.message.contains("`make it`") && !error.message.contains("exec"), "{}", error.message);
}

/// A container has a tree of its own; what it says of that is no answer about a checkpoint.
#[tokio::test]
async fn a_container_holds_no_checkpoint() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    let copy = tempfile::tempdir().unwrap();
    let mut cx = shell.context(&bash::decl()).await;
    cx.files = cx.files.over(copy.path()).unwrap();
    cx.workspace = cx.files.workspace().clone();
    cx.spawner = cx.spawner.with_files(cx.files.clone());
    let input = decode(&bash::decl().input, &json!({"command": "pwd", "container": "box"})).unwrap();
    let error = failure(BashHandler::new(Some(docker())).run(&cx, input).await);
    assert_eq!(error.code, Code::ProviderUnavailable);
    let runner = Runner { container: Some("box".to_owned()), ..Runner::new("true") };
    let handler = TestHandler::new(Some(Arc::new(runner))).with_container(docker());
    let error = failure(handler.run(&cx, test::Input::default()).await);
    assert_eq!(error.code, Code::ProviderUnavailable);
    assert!(calls(&shell).is_empty());
}

#[tokio::test]
async fn a_sealed_shell_stays_in_its_container() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    let run = async |input: Value| bash(&shell, sealed("box", docker()), input).await;
    assert_eq!(run(json!({"command": "pwd", "container": "box"})).await.unwrap().stdout, "/\n");
    // Before any other check.
    for input in [
        json!({"command": "pwd"}),
        json!({"command": "pwd", "container": "other"}),
        json!({"command": "a", "script": "b", "timeoutMs": -1}),
        json!({"mode": "hermetic", "reads": [], "writes": [], "command": "cat /etc/passwd"}),
    ] {
        assert_eq!(failure(run(input.clone()).await).code, Code::OutsideContainer, "{input}");
    }
    assert_eq!(calls(&shell).len(), 1);
}

#[tokio::test]
async fn deny_rules_see_the_command_as_meant_and_the_transport() {
    let rules = [
        (Effect::Allow, "proc:spawn:docker *"),
        (Effect::Deny, "proc:spawn:rm *"),
        (Effect::Deny, "proc:spawn:python3 *"),
    ];
    let shell = shell_with(&rules);
    let run = async |input: Value| bash(&shell, BashHandler::new(Some(docker())), input).await;
    assert_eq!(run(json!({"command": "echo hi", "container": "box"})).await.unwrap().stdout, "hi\n");
    for input in [
        json!({"command": "echo hi; rm -rf /x", "container": "box"}),
        json!({"script": "print(1)", "interpreter": "python3", "args": ["a"], "container": "box"}),
    ] {
        let error = failure(run(input.clone()).await);
        assert!(
            error.code == Code::CommandFailed && error.message.contains("denied by policy"),
            "{input}: {error:?}"
        );
    }
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*"), (Effect::Deny, "proc:spawn:docker *")]);
    let error = failure(
        bash(&shell, BashHandler::new(Some(docker())), json!({"command": "ls", "container": "box"})).await,
    );
    assert!(error.code == Code::CommandFailed && error.message.contains("denied by policy"), "{error:?}");
    assert!(calls(&shell).is_empty());
}

#[tokio::test]
async fn what_runs_inside_is_killed_when_the_call_ends_before_it() {
    // The kill needs no grant of its own: only commands with the mark are allowed.
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:docker exec -e FLOWCELL_CALL -- box bash -lc *")]);
    let start = Instant::now();
    let input = json!({"command": "sleep 60.91", "container": "box", "timeoutMs": 300});
    let error = failure(bash(&shell, BashHandler::new(Some(docker())), input).await);
    assert_eq!(error.code, Code::Timeout);
    assert!(error.message.contains("`sleep 60.91`"), "{}", error.message);
    assert!(start.elapsed() < Duration::from_millis(2_800), "{:?}", start.elapsed());
    let log = calls(&shell);
    let mark = log[0].iter().find_map(|word| word.strip_prefix("-- FLOWCELL_CALL=")).unwrap();
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[1].last().unwrap(), &format!("FLOWCELL_CALL={mark}"));
    assert!(gone("sleep 60.91"));

    let cx = shell.context(&bash::decl()).await;
    let cancel = cx.cancel.clone();
    let input = json!({"command": "sleep 60.92", "container": "box"});
    let input = decode(&bash::decl().input, &input).unwrap();
    let handler = BashHandler::new(Some(docker())).with_processes(processes());
    let (result, ()) = tokio::join!(handler.run(&cx, input), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(HandlerError::Cancelled)), "{result:?}");
    assert_eq!(calls(&shell).len(), 4);
}

#[tokio::test]
async fn a_client_that_hangs_does_not_hold_the_call() {
    let mut shell = Shell::new();
    let client = "#!/bin/bash\ntrap '' TERM\necho \"$@\" >>\"$(dirname \"$0\")/../.log\"\nwhile :; do sleep 60.96; done\n";
    shell.program("docker", client);
    let start = Instant::now();
    let input = json!({"command": "x", "container": "box", "timeoutMs": 300});
    let error = failure(bash(&shell, BashHandler::new(Some(docker())), input).await);
    assert_eq!(error.code, Code::Timeout);
    assert!(start.elapsed() < Duration::from_millis(2_800), "{:?}", start.elapsed());
    assert_eq!(shell.place.text(".log").lines().count(), 2);
}

#[tokio::test]
async fn a_dropped_call_has_what_it_left_killed() {
    let shell = shell_with(&[(Effect::Allow, "proc:spawn:*")]);
    let cx = shell.context(&bash::decl()).await;
    let input = decode(&bash::decl().input, &json!({"command": "sleep 60.97", "container": "box"})).unwrap();
    let handler = BashHandler::new(Some(docker())).with_processes(processes());
    let call = tokio::time::timeout(Duration::from_millis(400), handler.run(&cx, input)).await;
    assert!(call.is_err());
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if calls(&shell).len() == 2 {
            break;
        }
    }
    assert!(calls(&shell)[1].last().unwrap().starts_with("FLOWCELL_CALL="));
    assert!(gone("sleep 60.97"));
}

/// The kill finds what carries the mark although the client is long gone, forks included, and nothing else.
#[test]
fn the_kill_of_the_transport_reaches_what_the_client_left() {
    let mark = format!("test-{}", std::process::id());
    let start = |env: &str, line: &str| {
        let mut command = std::process::Command::new("setsid");
        command.args(["sh", "-c", line]).env(MARK, env);
        command.spawn().unwrap()
    };
    let mut marked = start(&mark, "sleep 60.93 & sleep 60.94; true");
    let mut other = start("another", "exec sleep 60.95");
    while running("sleep 60.9").len() < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut request = flowcell_host::container::Request::new("box", "sh", ["-c"]);
    request.mark = Some(mark);
    let plan = CommandTransport::docker().kill(&request).unwrap();
    let inside = &plan.args[3..];
    let status = std::process::Command::new(&inside[0]).args(&inside[1..]).status().unwrap();
    assert!(status.success());
    marked.wait().unwrap();
    assert!(gone("sleep 60.93") && gone("sleep 60.94"));
    assert_eq!(running("sleep 60.95").len(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
}
