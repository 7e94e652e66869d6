//! Starting, feeding, stopping and confining processes (kernel contract 6.2).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_kernel::process::{Child, Command, Exit, Signal, SpawnError, SpawnRequest, Spawner, Stdin};
use flowcell_kernel::{Confine, FsError, PermissionError};

use crate::support::Bench;

const ANY: &[&str] = &["allow proc:spawn:*"];

fn ambient() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())])
}

async fn spawner(bench: &Bench) -> Spawner {
    Spawner::new(bench.files(ANY).await, ambient())
}

fn argv(tokens: &[&str]) -> Command {
    Command::Argv(tokens.iter().map(|token| (*token).to_owned()).collect())
}

fn line(text: &str) -> SpawnRequest {
    SpawnRequest::new(Command::Line { line: text.to_owned(), shell: None })
}

/// Everything a child prints on both streams, and how it ends.
async fn finish(mut child: Child) -> (String, String, Exit) {
    let (mut out, mut err) = (child.take_stdout().unwrap(), child.take_stderr().unwrap());
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let (a, b, exit) = tokio::join!(
        tokio::io::AsyncReadExt::read_to_string(&mut out, &mut stdout),
        tokio::io::AsyncReadExt::read_to_string(&mut err, &mut stderr),
        child.wait()
    );
    a.unwrap();
    b.unwrap();
    (stdout, stderr, exit.unwrap())
}

async fn run(spawner: &Spawner, request: SpawnRequest) -> (String, String, Exit) {
    finish(spawner.spawn(request).await.unwrap()).await
}

async fn output(spawner: &Spawner, request: SpawnRequest) -> String {
    let (stdout, stderr, exit) = run(spawner, request).await;
    assert_eq!((stderr.as_str(), exit), ("", Exit::Code(0)), "{stdout}");
    stdout
}

/// Whether a process runs; one that ended and was not reaped does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Whether there is a process of this id at all, ended or not.
fn exists(pid: &str) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 5 s: {what}");
}

#[tokio::test]
async fn argv_line_and_script_run() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    assert_eq!(
        output(&spawner, SpawnRequest::new(argv(&["printf", "%s|", "a b", "$HOME", "*"]))).await,
        "a b|$HOME|*|"
    );
    assert_eq!(output(&spawner, line("printf '%s' \"$0 ${BASH_VERSION:+bash}\"")).await, "bash bash");
    let named = Command::Line { line: "echo $0".to_owned(), shell: Some(PathBuf::from("/bin/sh")) };
    assert_eq!(output(&spawner, SpawnRequest::new(named)).await, "/bin/sh\n");
    let script = Command::Script {
        argv: ["sh", "-s", "--", "-x"].map(str::to_owned).to_vec(),
        text: "echo \"script $1\"".to_owned(),
    };
    assert_eq!(output(&spawner, SpawnRequest::new(script)).await, "script -x\n");
}

#[tokio::test]
async fn the_environment_is_built() {
    let bench = Bench::new();
    let ambient = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/h"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("LC_ALL", "C"),
        ("FOO", "0"),
        ("LD_PRELOAD", "/evil.so"),
    ];
    let ambient = ambient.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let spawner = Spawner::new(bench.files(ANY).await, ambient);
    let mut request = SpawnRequest::new(argv(&["env"]));
    request.env = [("FOO", Some("1")), ("home", Some("/x")), ("API_KEY", Some("a=b\nc")), ("HOME", None)]
        .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)))
        .into();
    let printed = output(&spawner, request).await;
    assert_eq!(printed, "API_KEY=a=b\nc\nFOO=1\nLC_ALL=C\nPATH=/usr/bin:/bin\nhome=/x\n");
}

#[tokio::test]
async fn no_prefix_grant_carries_a_variable_that_changes_the_command() {
    let bench = Bench::new();
    let rules = &["allow proc:spawn:echo *", "allow proc:spawn:printf x"];
    let spawner = Spawner::new(bench.files(rules).await, ambient());
    std::fs::write(bench.root.join("evil.sh"), "echo evil").unwrap();
    let evil = bench.root.join("evil.sh").to_str().unwrap().to_owned();
    for command in [line("echo a").command, line("echo a; echo b").command, argv(&["echo", "a"])] {
        for (name, value) in [
            ("BASH_ENV", Some(evil.as_str())),
            ("BASH_FUNC_echo%%", Some("() { printf evil; }")),
            ("PATH", Some("/tmp/evil")),
            ("PATH", None),
            ("LD_PRELOAD", Some("/evil.so")),
            ("LC_ALL", Some("zh_CN.GBK")),
        ] {
            let mut request = SpawnRequest::new(command.clone());
            request.env.insert(name.to_owned(), value.map(str::to_owned));
            let refused = spawner.spawn(request).await.unwrap_err();
            assert!(
                matches!(refused, SpawnError::Permission(PermissionError::Required(_))),
                "{command:?} {name}"
            );
        }
        let mut request = SpawnRequest::new(command.clone());
        request.env.insert("RUST_LOG".to_owned(), Some("debug".to_owned()));
        assert!(output(&spawner, request).await.starts_with("a\n"));
    }
    // A person who allowed exactly this saw the names of its variables.
    for command in [line("printf x").command, argv(&["printf", "x"])] {
        let mut request = SpawnRequest::new(command);
        request.env.insert("LC_ALL".to_owned(), Some("C".to_owned()));
        assert_eq!(output(&spawner, request).await, "x");
    }
}

#[tokio::test]
async fn a_child_leads_a_session_and_holds_no_other_descriptor() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    // One that the host left open for its children by mistake.
    let leak = rustix::io::fcntl_dupfd_cloexec(std::fs::File::open("/dev/null").unwrap(), 150).unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    assert!(leak.as_raw_fd() >= 150);
    // `ls` opens the directory itself, as 3.
    assert_eq!(output(&spawner, SpawnRequest::new(argv(&["ls", "/proc/self/fd"]))).await, "0\n1\n2\n3\n");
    let stat =
        output(&spawner, SpawnRequest::new(argv(&["cut", "-d", " ", "-f", "1,5,6,7", "/proc/self/stat"])))
            .await;
    let fields: Vec<&str> = stat.split_whitespace().collect();
    assert_eq!(
        (fields[0], fields[0], "0"),
        (fields[1], fields[2], fields[3]),
        "pid, group, session, terminal"
    );
    drop(leak);
}

#[tokio::test]
async fn standard_input_is_what_is_given_and_ends() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    assert_eq!(output(&spawner, SpawnRequest::new(argv(&["cat"]))).await, "");
    let mut fed = SpawnRequest::new(argv(&["cat"]));
    fed.stdin = Stdin::Bytes(b"a\nb".to_vec());
    assert_eq!(output(&spawner, fed.clone()).await, "a\nb");
    fed.stdin = Stdin::Bytes(Vec::new());
    assert_eq!(output(&spawner, fed).await, "");
    // More than a pipe holds, and a child that reads none of it or little: no error.
    for (command, expected) in [(&["true"][..], ""), (&["head", "-c", "3"], "xxx")] {
        let mut request = SpawnRequest::new(argv(command));
        request.stdin = Stdin::Bytes(vec![b'x'; 1 << 20]);
        assert_eq!(output(&spawner, request).await, expected);
    }
    let mut large = SpawnRequest::new(argv(&["wc", "-c"]));
    large.stdin = Stdin::Bytes(vec![b'x'; 3 << 20]);
    assert_eq!(output(&spawner, large).await.trim(), (3 << 20).to_string());
}

#[tokio::test]
async fn a_child_ends_by_status_or_signal() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    for (text, exit, code) in [
        ("exit 0", Exit::Code(0), 0),
        ("exit 7", Exit::Code(7), 7),
        ("no-such-program-here 2>/dev/null", Exit::Code(127), 127),
        ("kill -9 $$", Exit::Signal(9), 137),
        ("kill -TERM $$", Exit::Signal(15), 143),
        ("kill -PIPE $$", Exit::Signal(13), 141),
    ] {
        let mut child = spawner.spawn(line(text)).await.unwrap();
        assert_eq!(child.wait().await.unwrap(), exit, "{text}");
        assert_eq!(child.wait().await.unwrap().code(), code, "{text}");
        assert_eq!(child.try_wait().unwrap(), Some(exit));
    }
}

#[tokio::test]
async fn a_dropped_child_leaves_no_process() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let mut child = spawner.spawn(line("sleep 1000 & echo $$ $!; trap '' TERM; sleep 1000")).await.unwrap();
    let mut printed = [0; 64];
    let mut stdout = child.take_stdout().unwrap();
    let length = stdout.read(&mut printed).await.unwrap();
    let pids: Vec<String> =
        String::from_utf8_lossy(&printed[..length]).split_whitespace().map(str::to_owned).collect();
    assert_eq!(pids.len(), 2);
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(pids.iter().all(|pid| runs(pid)));
    drop(child);
    eventually("both are gone", || !exists(&pids[0]) && !runs(&pids[1])).await;
    // One that has ended is reaped when it is dropped, and not before: its id is its own until then.
    let mut ended = spawner.spawn(line("true")).await.unwrap();
    let pid = ended.id().to_string();
    ended.wait().await.unwrap();
    assert!(exists(&pid) && !runs(&pid));
    drop(ended);
    assert!(!exists(&pid));
}

#[tokio::test]
async fn a_dropped_start_leaves_no_process() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let mark = format!("9{}", std::process::id());
    for turn in 0..40 {
        let start = spawner.spawn(SpawnRequest::new(argv(&["sleep", &mark])));
        let _ = tokio::time::timeout(Duration::from_micros(turn * 50), start).await;
    }
    let any = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line == format!("sleep\0{mark}\0").as_bytes())
        })
    };
    eventually("no sleep is left", || !any()).await;
}

#[tokio::test]
async fn the_group_outlives_its_leader_and_can_be_killed() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let mut child = spawner.spawn(line("sleep 1000 >/dev/null 2>&1 & echo $!")).await.unwrap();
    let mut stdout = child.take_stdout().unwrap();
    let mut printed = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut printed).await.unwrap();
    let background = printed.trim().to_owned();
    assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
    assert!(runs(&background));
    child.kill_group(Signal::Kill).unwrap();
    eventually("the background process is gone", || !runs(&background)).await;
    child.kill_group(Signal::Kill).unwrap();
    child.kill_group(Signal::Terminate).unwrap();
}

#[tokio::test]
async fn stopping_is_term_then_kill() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    // It obeys: no grace is waited for.
    let mut child = spawner.spawn(line("sleep 1000")).await.unwrap();
    let before = Instant::now();
    assert_eq!(child.stop(Duration::from_secs(60)).await.unwrap(), Exit::Signal(15));
    assert!(before.elapsed() < Duration::from_secs(30));
    // It does not: SIGKILL after the grace.
    let stubborn = "trap '' TERM; echo ready; while true; do sleep 1; done";
    let mut child = spawner.spawn(line(stubborn)).await.unwrap();
    let mut stdout = child.take_stdout().unwrap();
    assert_eq!(stdout.read(&mut [0; 16]).await.unwrap(), 6);
    let before = Instant::now();
    assert_eq!(child.stop(Duration::from_millis(100)).await.unwrap(), Exit::Signal(9));
    assert!(before.elapsed() >= Duration::from_millis(100));
    // The leader goes at once, and who is left in the group has its time still.
    let text = "bash -c 'trap \"sleep 0.2; echo saved; exit\" TERM; echo ready; while true; do sleep 0.05; done' & wait";
    let mut child = spawner.spawn(line(text)).await.unwrap();
    let mut stdout = child.take_stdout().unwrap();
    assert_eq!(stdout.read(&mut [0; 16]).await.unwrap(), 6);
    assert_eq!(child.stop(Duration::from_secs(20)).await.unwrap(), Exit::Signal(15));
    let mut rest = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut rest).await.unwrap();
    assert_eq!(rest, "saved\n");
}

struct NoNewPrivileges;

impl Confine for NoNewPrivileges {
    fn confine(&self) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true).map_err(io::Error::from)
    }
}

struct Refuses;

impl Confine for Refuses {
    fn confine(&self) -> io::Result<()> {
        Err(io::Error::other("no such restriction"))
    }
}

#[tokio::test]
async fn the_hook_restricts_the_child_and_nobody_else() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let status = || SpawnRequest::new(argv(&["grep", "NoNewPrivs", "/proc/self/status"]));
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find(|line| line.starts_with("NoNewPrivs")).unwrap().to_owned();
    assert_eq!(output(&spawner, status()).await.trim(), own);
    let mut confined = status();
    confined.confine = Some(Arc::new(NoNewPrivileges));
    assert_eq!(output(&spawner, confined).await, "NoNewPrivs:\t1\n");
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may be gone by now; the one of the start is.
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let name = status.lines().next().unwrap_or_default().to_owned();
        assert!(status.is_empty() || status.contains(&own) || name.contains("flowcell-spawn"), "{name}");
    }
    assert_eq!(output(&spawner, status()).await.trim(), own);
    let mut refused = status();
    refused.confine = Some(Arc::new(Refuses));
    let error = spawner.spawn(refused).await.unwrap_err();
    assert_eq!(error.to_string(), "confine the child: no such restriction");
}

#[tokio::test]
async fn a_launcher_goes_before_the_argv() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let mut request = SpawnRequest::new(argv(&["printenv", "LAUNCHED"]));
    request.launcher = vec!["/usr/bin/env".into(), "LAUNCHED=yes".into()];
    assert_eq!(output(&spawner, request.clone()).await, "yes\n");
    // It is no part of what is asked.
    let denied = Spawner::new(
        bench.files(&["allow proc:spawn:printenv LAUNCHED", "deny proc:spawn:*env*L*D=*"]).await,
        ambient(),
    );
    assert_eq!(output(&denied, request.clone()).await, "yes\n");
    request.launcher[0] = "env".into();
    assert!(matches!(spawner.spawn(request.clone()).await, Err(SpawnError::InvalidInput { .. })));
    // A descriptor for it, under the number that it has here.
    let (read, write) = io::pipe().unwrap();
    let number = write.as_raw_fd();
    request.launcher = vec![
        "/bin/bash".into(),
        "-c".into(),
        format!("echo told >&{number}; exec {number}>&-; exec \"$@\"").into(),
        "launcher".into(),
    ];
    request.command = argv(&["ls", "/proc/self/fd"]);
    request.inherit = vec![Arc::new(write.into())];
    assert_eq!(output(&spawner, request.clone()).await, "0\n1\n2\n3\n");
    request.launcher.clear();
    assert!(matches!(spawner.spawn(request).await, Err(SpawnError::InvalidInput { .. })));
    assert_eq!(io::read_to_string(read).unwrap(), "told\n");
}

#[tokio::test]
async fn the_working_directory_is_in_the_workspace() {
    let bench = Bench::new();
    bench.put("sub/tool", "#!/bin/sh\necho tool $0 in $(pwd)\n");
    let tool = bench.root.join("sub/tool");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("sub", bench.root.join("link")).unwrap();
    let spawner = spawner(&bench).await;
    let at = |cwd: Option<&str>, command: &[&str]| {
        let mut request = SpawnRequest::new(argv(command));
        request.cwd = cwd.map(str::to_owned);
        request
    };
    let (root, sub) = (bench.text(""), bench.text("sub"));
    assert_eq!(output(&spawner, at(None, &["pwd"])).await.trim(), root.trim_end_matches('/'));
    for cwd in ["sub", "./sub/../sub", "link", &sub] {
        assert_eq!(output(&spawner, at(Some(cwd), &["pwd"])).await.trim(), sub);
    }
    assert_eq!(output(&spawner, at(Some("/"), &["pwd"])).await.trim(), "/");
    // Programs with a slash are named from there, and empty entries of PATH mean it.
    assert_eq!(output(&spawner, at(Some("sub"), &["./tool"])).await, format!("tool ./tool in {sub}\n"));
    let mut empty = at(Some("sub"), &["tool"]);
    empty.env.insert("PATH".to_owned(), Some("/bin:".to_owned()));
    assert_eq!(output(&spawner, empty).await, format!("tool ./tool in {sub}\n"));
    for (cwd, error) in [
        ("missing", FsError::NotFound),
        ("sub/tool", FsError::NotADirectory),
        ("sub/tool/x", FsError::NotFound),
        ("", FsError::InvalidPath("the path is empty".to_owned())),
    ] {
        match spawner.spawn(at(Some(cwd), &["pwd"])).await {
            Err(SpawnError::Cwd { path, error: found }) => assert_eq!((path.as_str(), *found), (cwd, error)),
            other => panic!("{cwd}: {other:?}"),
        }
    }
    assert!(matches!(spawner.spawn(at(Some("/proc/self"), &["pwd"])).await, Err(SpawnError::Cwd { .. })));
    // A host's own directory takes the place of the caller's, which has to be one all the same.
    let real = tempfile::tempdir().unwrap();
    let mut elsewhere = at(Some("sub"), &["pwd"]);
    elsewhere.real_cwd = Some(real.path().to_owned());
    assert_eq!(
        output(&spawner, elsewhere.clone()).await.trim(),
        real.path().canonicalize().unwrap().to_str().unwrap()
    );
    elsewhere.cwd = Some("missing".to_owned());
    assert!(matches!(spawner.spawn(elsewhere).await, Err(SpawnError::Cwd { .. })));
}

#[tokio::test]
async fn programs_are_found_on_the_child_s_own_path() {
    let bench = Bench::new();
    bench.put("bin/mine", "#!/bin/sh\necho mine\n");
    bench.put("plain/mine", "not executable");
    std::fs::create_dir_all(bench.root.join("dir/mine")).unwrap();
    std::fs::set_permissions(
        bench.root.join("bin/mine"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let spawner = spawner(&bench).await;
    let mut request = SpawnRequest::new(argv(&["mine"]));
    assert!(
        matches!(spawner.spawn(request.clone()).await, Err(SpawnError::NotFound { program }) if program == "mine")
    );
    let path = ["plain", "dir", "bin"].map(|dir| bench.text(dir)).join(":");
    request.env.insert("PATH".to_owned(), Some(path));
    assert_eq!(output(&spawner, request.clone()).await, "mine\n");
    request.env.insert("PATH".to_owned(), Some(bench.text("plain")));
    assert!(matches!(spawner.spawn(request.clone()).await, Err(SpawnError::Io { operation: "execute", .. })));
    for (program, found) in [("/bin/no-such", false), ("./bin/mine", true), ("bin/mine/x", false)] {
        let request = SpawnRequest::new(argv(&[program]));
        match spawner.spawn(request).await {
            Ok(_) => assert!(found, "{program}"),
            Err(SpawnError::NotFound { program: named }) => assert!(!found && named == program),
            Err(error) => panic!("{program}: {error}"),
        }
    }
    // Without bash on its PATH a line is for /bin/sh; without a PATH programs are where execvp looks.
    let mut without = line("echo $0");
    without.env.insert("PATH".to_owned(), Some(bench.text("bin")));
    assert_eq!(output(&spawner, without.clone()).await, "/bin/sh\n");
    without.env.insert("PATH".to_owned(), None);
    assert_eq!(output(&spawner, without).await, "bash\n");
}

#[tokio::test]
async fn what_no_process_can_be_started_from_is_invalid() {
    let bench = Bench::new();
    let spawner = Spawner::new(bench.files(&[]).await, ambient());
    let mut requests = vec![
        SpawnRequest::new(argv(&[])),
        SpawnRequest::new(argv(&[""])),
        SpawnRequest::new(argv(&["a", "b\0"])),
        line("a\0"),
    ];
    for (name, value) in
        [("", Some("x")), ("a=b", Some("x")), ("a\0", Some("x")), ("a", Some("x\0")), ("=", None)]
    {
        let mut request = line("true");
        request.env.insert(name.to_owned(), value.map(str::to_owned));
        requests.push(request);
    }
    let script = Command::Script { argv: vec!["sh".to_owned()], text: "true".to_owned() };
    let mut request = SpawnRequest::new(script);
    request.stdin = Stdin::Bytes(Vec::new());
    requests.push(request);
    for request in requests {
        // Before anybody is asked.
        let error = spawner.spawn(request.clone()).await.unwrap_err();
        assert!(matches!(error, SpawnError::InvalidInput { .. }), "{request:?}: {error}");
    }
    assert!(spawner.files().authority().store().list().is_empty());
}

#[tokio::test]
async fn starting_asks_and_shows_no_values() {
    let bench = Bench::new();
    bench.put("sub/x", "");
    let spawner =
        Spawner::new(bench.files(&["deny proc:spawn:rm *", "allow proc:spawn:true"]).await, ambient());
    let mut request = line("touch made; true");
    request.cwd = Some("sub".to_owned());
    request.env = BTreeMap::from([("TOKEN".to_owned(), Some("hidden".to_owned())), ("A".to_owned(), None)]);
    let Err(SpawnError::Permission(PermissionError::Required(required))) =
        spawner.spawn(request.clone()).await
    else {
        panic!("not asked");
    };
    assert_eq!(required.capability.to_string(), "proc:spawn:touch made; true");
    let expected = serde_json::json!({ "cwd": bench.text("sub"), "env": ["A", "TOKEN"] });
    assert_eq!(serde_json::Value::Object(required.meta), expected);
    assert!(!bench.root.join("sub/made").exists());
    let denied = spawner.spawn(line("sudo rm x")).await;
    assert!(matches!(denied, Err(SpawnError::Permission(PermissionError::Denied(_)))), "{denied:?}");
    // What was authorised is that request, and no other.
    let allowed = SpawnRequest::new(argv(&["true"]));
    let authorised = spawner.authorise(&allowed).await.unwrap();
    spawner.start(&authorised, allowed.clone()).await.unwrap();
    let mut other = vec![request, SpawnRequest::new(argv(&["touch", "made"]))];
    other.push(SpawnRequest { env: BTreeMap::from([("A".to_owned(), None)]), ..allowed.clone() });
    for request in other {
        assert!(matches!(spawner.start(&authorised, request).await, Err(SpawnError::InvalidInput { .. })));
    }
    let moved = SpawnRequest { cwd: Some("sub".to_owned()), ..allowed };
    assert!(matches!(spawner.start(&authorised, moved).await, Err(SpawnError::Cwd { .. })));
    let shown = format!("{spawner:?}");
    assert!(shown.contains("PATH") && !shown.contains("/usr/bin"), "{shown}");
}

#[tokio::test]
async fn waiting_holds_no_thread() {
    let bench = Bench::new();
    let spawner = spawner(&bench).await;
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let mut child = spawner.spawn(SpawnRequest::new(argv(&["sleep", "1000"]))).await.unwrap();
        waiting.spawn(async move { child.wait().await });
    }
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("flowcell-")).count()
    };
    // Other tests start processes too, so this is for a moment only.
    eventually("none of the threads of the start is left", || threads() < 10).await;
    waiting.shutdown().await;
    eventually("nor of those that reap", || threads() < 10).await;
}

#[tokio::test]
async fn a_call_starts_processes_as_it_asks() {
    let bench = Bench::new();
    let files = bench.files(&[]).await;
    let clock = Arc::new(flowcell_kernel::SystemClock::new());
    let cx =
        flowcell_kernel::CallContext::new(files, clock, Arc::new(flowcell_kernel::SeededEntropy::new(1)));
    assert!(cx.spawner.ambient().is_empty());
    let cx = cx.with_environment(ambient());
    let request = SpawnRequest::new(argv(&["echo", "a"]));
    assert!(matches!(
        cx.spawner.spawn(request.clone()).await,
        Err(SpawnError::Permission(PermissionError::Required(_)))
    ));
    let cx = cx.admitting(vec![request.command.capability()]);
    assert_eq!(output(&cx.spawner, request.clone()).await, "a\n");
    assert_eq!(cx.spawner.ambient(), &ambient());
    let cx = cx.clone().with_authority(cx.authority.attenuate(&[]));
    assert!(matches!(
        cx.spawner.spawn(request).await,
        Err(SpawnError::Permission(PermissionError::Denied(_)))
    ));
}
