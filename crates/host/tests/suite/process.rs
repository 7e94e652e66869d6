//! The process service: host contract 5, and its cases in section 10.

use std::path::Path;
use std::time::{Duration, Instant};

use flowcell_host::kernel::process::{Command, SpawnError, SpawnRequest};
use flowcell_host::process::{Capture, Ended, ProcessError, ProcessOptions, ProcessRequest, run};
use flowcell_host::{HermeticEnforcement, Supervisor};

use crate::process_world::{WAYS, Way, World, alone, passes, resident};
use crate::support::full_volume;

#[tokio::test]
async fn codes_and_streams() {
    for way in WAYS {
        let world = World::new(way).await;
        for (line, code, stdout, stderr) in [
            ("exit 3", 3, "", ""),
            ("echo out; echo err >&2", 0, "out\n", "err\n"),
            ("kill -9 $$", 137, "", ""),
            ("kill -TERM $$", 143, "", ""),
            ("cat", 0, "", ""),
            ("exec 2>/dev/null; no-such-program", 127, "", ""),
        ] {
            let out = world.line(line).await;
            assert_eq!(
                (out.code, out.stdout.as_str(), out.stderr.as_str()),
                (Some(code), stdout, stderr),
                "{way:?}: {line}"
            );
            assert!(out.took < Duration::from_secs(5), "{line}: {:?}", out.took);
        }
    }
}

#[tokio::test]
async fn input_is_fed_and_then_ends() {
    for way in WAYS {
        let world = World::new(way).await;
        assert_eq!(world.fed("cat; echo end", b"some\n").await.stdout, "some\nend\n");
        assert_eq!(world.fed("wc -c", &vec![b'x'; 1_000_000]).await.stdout.trim(), "1000000");
        // What nobody reads is no failure, and nobody waits for it.
        let out = world.fed("exec 0<&-; echo done", &vec![b'x'; 1_000_000]).await;
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "done\n"), "{way:?}");
        let out = world.fed("head -c 3", &vec![b'x'; 1_000_000]).await;
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "xxx"), "{way:?}");
    }
}

#[tokio::test]
async fn a_command_leads_its_group_and_has_nothing_of_the_host() {
    for way in WAYS {
        let world = World::new(way).await;
        // Pid, group and terminal of the shell.
        let stat = world.line("read -r a < /proc/self/stat; set -- $a; echo $1 $5 $7").await.stdout;
        let fields: Vec<&str> = stat.split_whitespace().collect();
        assert_eq!(fields.len(), 3, "{way:?}: {stat}");
        if way != Way::Hermetic {
            assert_eq!(fields[0], fields[1], "{way:?}");
        }
        assert_eq!(fields[2], "0", "{way:?}");
        // Beside 0 to 2 there is the directory that lists them.
        let fds = world.line("for fd in /proc/self/fd/*; do echo ${fd##*/}; done").await.stdout;
        let open: Vec<&str> = fds.split_whitespace().filter(|fd| *fd != "255").collect();
        assert!(open.len() <= 4 && open[..3] == ["0", "1", "2"], "{way:?}: {open:?}");
        let none =
            world.line("exec 3</dev/null && (true >&3) 2>/dev/null; exec 2>&1; (: <&4) && echo open").await;
        assert!(!none.stdout.contains("open\n"), "{way:?}: {none:?}");
    }
}

#[tokio::test]
async fn a_background_child_neither_holds_a_call_nor_outlives_it() {
    for way in WAYS {
        let world = World::new(way).await;
        for line in [
            "sleep 60 & echo hi",
            "sleep 60 >/dev/null 2>&1 & echo hi",
            "setsid sleep 60 & echo hi",
            "nohup sleep 60 & echo hi",
            "(setsid sleep 60 & ) ; echo hi",
            "setsid sh -c 'trap \"\" TERM HUP INT; sleep 60; sleep 60' & echo hi",
        ] {
            if way == Way::Direct && line.contains("setsid") {
                continue; // What leaves the group is not reached without a supervisor.
            }
            let out = world.line(line).await;
            assert_eq!((out.code, out.stdout.as_str()), (Some(0), "hi\n"), "{way:?}: {line}: {}", out.stderr);
            assert!(out.took < Duration::from_secs(2), "{way:?}: {line}: {:?}", out.took);
            world.nothing_left(line);
        }
    }
}

#[tokio::test]
async fn what_is_still_printed_is_drained_within_bounds() {
    let [direct, supervised, hermetic] = WAYS.map(drain);
    tokio::join!(direct, supervised, hermetic);
}

async fn drain(way: Way) {
    {
        let world = World::new(way).await;
        let out = world.line("(sleep 0.05; echo late) & echo hi").await;
        assert_eq!(out.stdout, "hi\nlate\n", "{way:?}");
        // Silent for longer than is waited.
        let out = world.line("(sleep 0.6; echo late) & echo hi").await;
        assert_eq!(out.stdout, "hi\n", "{way:?}");
        assert!(out.took < Duration::from_secs(2), "{way:?}: {:?}", out.took);
        // Never silent: a second in all.
        let out = world.line("while :; do echo x; sleep 0.02; done & echo hi").await;
        assert_eq!(out.code, Some(0));
        assert!(
            out.took > Duration::from_millis(900) && out.took < Duration::from_secs(3),
            "{way:?}: {:?}",
            out.took
        );
        // And one that never rests at all.
        let out = world.line("yes & echo hi").await;
        assert!(out.took < Duration::from_secs(3), "{way:?}: {:?}", out.took);
        world.nothing_left("drain");
    }
}

/// Commands that do not end by themselves.
const ENDLESS: [&str; 6] = [
    "trap '' TERM; echo begun; sleep 60; sleep 60",
    "trap '' TERM; echo begun; while :; do sleep 0.01; done",
    "trap '' TERM; echo begun; yes",
    "echo begun; sleep 60",
    "echo begun; trap 'echo asked; exit 0' TERM; sleep 60 & wait",
    "echo begun; sleep 60 & sleep 60",
];

#[tokio::test]
async fn a_timeout_is_kept_whatever_the_command_does() {
    let mut most = Duration::ZERO;
    for line in ENDLESS {
        let calls = WAYS.map(|way| async move {
            let world = World::new(way).await;
            let mut request = world.request(line);
            request.timeout = Duration::from_millis(200);
            let out = world.run(request).await.unwrap();
            assert_eq!(out.code, None, "{way:?}: {line}");
            assert!(out.took < Duration::from_millis(2_700), "{way:?}: {line}: {:?}", out.took);
            assert!(out.stdout.starts_with("begun\n"), "{way:?}: {line}: {:?}", out.stdout.lines().next());
            assert_eq!(line.contains("asked"), out.stdout.contains("asked"), "{way:?}: {line}");
            world.nothing_left(line);
            out.took
        });
        let [direct, supervised, hermetic] = calls;
        let took = tokio::join!(direct, supervised, hermetic);
        most = most.max(took.0).max(took.1).max(took.2);
    }
    println!("measured: timeout of 200 ms: {} ms at most", most.as_millis());
    let world = World::new(Way::Direct).await;
    let mut request = world.request("true");
    request.timeout = Duration::ZERO;
    assert!(matches!(world.run(request).await, Err(ProcessError::Spawn(SpawnError::InvalidInput { .. }))));
}

#[tokio::test]
async fn an_interrupted_call_leaves_nothing() {
    let [direct, supervised, hermetic] = WAYS.map(interrupt);
    tokio::join!(direct, supervised, hermetic);
}

async fn interrupt(way: Way) {
    {
        // By its token.
        let world = World::new(way).await;
        let line = "trap '' TERM; sleep 60 & echo > begun; sleep 60; sleep 60";
        let (begin, outcome) = {
            let call = world.run(world.request(line));
            let cancel = async {
                world.file("begun").await;
                world.cx.cancel.cancel();
                Instant::now()
            };
            let (outcome, begin) = tokio::join!(call, cancel);
            (begin, outcome)
        };
        assert!(matches!(outcome, Err(ProcessError::Cancelled)), "{way:?}: {outcome:?}");
        assert!(begin.elapsed() < Duration::from_millis(2_500), "{way:?}: {:?}", begin.elapsed());
        world.nothing_left("a cancelled call");

        // Before it began.
        assert!(matches!(world.run(world.request("echo > never")).await, Err(ProcessError::Cancelled)));
        assert!(!world.place.path("never").exists());

        // By its deadline.
        let mut world = World::new(way).await;
        world.cx.deadline = Some(world.cx.clock.now() + Duration::from_millis(300));
        let begin = Instant::now();
        assert!(matches!(world.run(world.request("sleep 60")).await, Err(ProcessError::Cancelled)));
        assert!(begin.elapsed() < Duration::from_millis(2_800), "{way:?}: {:?}", begin.elapsed());
        world.nothing_left("a call over its deadline");

        // By being dropped.
        let world = World::new(way).await;
        {
            let call = world.run(world.request("setsid sleep 60 & echo > begun; sleep 60"));
            tokio::pin!(call);
            tokio::select! {
                _ = &mut call => panic!("it ended"),
                _ = world.file("begun") => {}
            }
        }
        let begin = Instant::now();
        let mut left = world.left();
        while !left.is_empty() && begin.elapsed() < Duration::from_millis(2_500) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            left = world.left();
        }
        if way == Way::Direct {
            // What left the group is the test's to end.
            world.end_left();
        } else {
            assert!(left.is_empty(), "{way:?}: {left:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_started_says_so() {
    for way in WAYS {
        let world = World::new(way).await;
        let with = |command: Command| {
            let mut request = world.request("true");
            request.spawn = SpawnRequest::new(command);
            request
        };
        let argv = |words: &[&str]| Command::Argv(words.iter().map(|word| (*word).to_owned()).collect());
        let missing = world.run(with(argv(&["no-such-program"]))).await;
        assert!(
            matches!(missing, Err(ProcessError::Spawn(SpawnError::NotFound { .. }))),
            "{way:?}: {missing:?}"
        );
        world.place.put("text", [0x7f, b'E', b'L', b'F', 0, 0]);
        world.place.chmod("text", 0o755);
        world.place.put("plain", "echo plain\n");
        let outcome = world.run(with(argv(&["./plain"]))).await;
        assert!(outcome.is_err(), "{way:?}: {outcome:?}");
        // A script that names an interpreter that is not there.
        world.place.put("script", "#!/no/such/interpreter\n");
        world.place.chmod("script", 0o755);
        let outcome = world.run(with(argv(&["./script"]))).await;
        assert!(outcome.is_err(), "{way:?}: {outcome:?}");
        let mut request = world.request("true");
        request.spawn.cwd = Some("nowhere".to_owned());
        let outcome = world.run(request).await;
        assert!(matches!(outcome, Err(ProcessError::Spawn(SpawnError::Cwd { .. }))), "{way:?}: {outcome:?}");
        world.nothing_left("a failed start");
    }
}

#[tokio::test]
async fn a_program_that_is_no_supervisor_starts_nothing() {
    let world = World::new(Way::Direct).await;
    for program in ["/bin/true", "/bin/cat", "/no/such/program"] {
        let mut request = world.request("echo > made");
        request.options.supervisor = Some(Supervisor::new(program));
        let outcome = world.run(request).await;
        assert!(
            matches!(outcome, Err(ProcessError::Host(_) | ProcessError::Spawn(_))),
            "{program}: {outcome:?}"
        );
        assert!(!world.place.path("made").exists());
    }
    // One that does not answer: the timeout counts from its start.
    world.place.put("mute", "#!/bin/sh\nsleep 60\n");
    world.place.chmod("mute", 0o755);
    let mut request = world.request("echo > made");
    request.timeout = Duration::from_millis(300);
    request.options.supervisor = Some(Supervisor::new(world.place.path("mute")));
    let out = world.run(request).await.unwrap();
    assert!(out.code.is_none() && out.took < Duration::from_millis(2_800), "{out:?}");
    world.nothing_left("a mute supervisor");
}

#[tokio::test]
async fn a_command_that_kills_its_supervisor_is_ended_all_the_same() {
    let world = World::new(Way::Supervised).await;
    let begin = Instant::now();
    // At once, perhaps before the supervisor said that it started it; what is in a group of its own included.
    let outcome = world.run(world.request("set -m; sleep 60 & kill -9 $PPID; sleep 60")).await;
    assert!(matches!(outcome, Err(ProcessError::Host(_))), "{outcome:?}");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    // The group is killed without waiting: it takes the kernel a moment.
    let mut left = world.left();
    while !left.is_empty() && begin.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(5)).await;
        left = world.left();
    }
    assert!(left.is_empty(), "{left:?}");
    // In a namespace of its own it cannot even see it.
    let world = World::new(Way::Hermetic).await;
    let out = world.line("kill -9 $PPID; kill -9 1; kill -9 -1; echo alive").await;
    assert!(out.code.is_some_and(|code| code == 0 || code == 137), "{out:?}");
    world.nothing_left("a hermetic kill");
}

/// Signals that a process may decline reach no supervisor, so a command that signals its parent ends as it would by itself;
/// the command has all of its own.
#[tokio::test]
async fn a_supervisor_declines_what_it_can() {
    let world = World::new(Way::Supervised).await;
    let signals = "for s in TERM HUP INT QUIT USR1 PIPE ALRM; do kill -$s $PPID; done";
    let out = world.line(&format!("setsid sleep 60.79 & {signals}; sleep 0.2; echo alive")).await;
    assert_eq!((out.code, out.stdout.as_str()), (Some(0), "alive\n"), "{out:?}");
    world.nothing_left("a command that signals its supervisor");
    for way in WAYS {
        let world = World::new(way).await;
        let out = world.line("while read -r key value; do case $key in SigBlk:) echo $value;; esac; done </proc/self/status; kill -TERM $$").await;
        assert_eq!((out.code, out.stdout.as_str()), (Some(143), "0000000000000000\n"), "{way:?} {out:?}");
    }
}

#[tokio::test]
async fn large_output_is_kept_at_both_ends() {
    for way in WAYS {
        let world = World::new(way).await;
        let mut request =
            world.request("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last; echo e >&2");
        request.spawn.command = Command::Line {
            line: "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last; echo e >&2".to_owned(),
            shell: None,
        };
        request.capture = Capture::HeadTail { head: 6, tail: 6 };
        let ended = run(&world.cx, request.clone()).await.unwrap();
        let Ended::Exited { code: 0, stdout, stderr, .. } = ended else { panic!("{ended:?}") };
        assert_eq!(
            (stdout.head.as_slice(), stdout.tail.as_slice(), stdout.total),
            (&b"first\n"[..], &b"xlast\n"[..], 3_000_011)
        );
        assert_eq!(
            (stderr.head.as_slice(), stderr.tail.as_slice(), stderr.total),
            (&b"e\n"[..], &b""[..], 2)
        );
        request.capture = Capture::Tail { bytes: 5 };
        let ended = run(&world.cx, request).await.unwrap();
        let Ended::Exited { stdout, .. } = ended else { panic!("{ended:?}") };
        assert_eq!((stdout.head.len(), stdout.tail.as_slice(), stdout.total), (0, &b"last\n"[..], 3_000_011));
    }
}

/// Commands that print, and the bytes they print in all.
const FULL_PRINT: (u32, usize) = (200, 1 << 30);
const CI_PRINT: (u32, usize) = (24, 64 << 20);

#[test]
fn memory_stays_at_the_bound_whatever_is_printed() {
    passes("process::print", &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by memory_stays_at_the_bound_whatever_is_printed, alone in its process"]
async fn print() {
    let (commands, bytes) = if full_volume() { FULL_PRINT } else { CI_PRINT };
    let each = bytes / commands as usize;
    let world = World::new(Way::Supervised).await;
    let request = |of: usize| {
        let mut request =
            world.request(&format!("head -c {} /dev/zero; head -c {} /dev/zero >&2", of - of / 2, of / 2));
        request.timeout = Duration::from_secs(300);
        request
    };
    world.run(request(1_000)).await.unwrap();
    let before = resident();
    let begin = Instant::now();
    let mut most = before;
    let mut running: Vec<_> = (0..commands)
        .map(|_| {
            let (cx, request) = (world.cx.clone(), request(each));
            tokio::spawn(async move { run(&cx, request).await })
        })
        .collect();
    let mut total = 0;
    while let Some(call) = running.pop() {
        while !call.is_finished() {
            most = most.max(resident());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Ended::Exited { code: 0, stdout, stderr, .. } = call.await.unwrap().unwrap() else { panic!() };
        assert_eq!((stdout.head.len(), stdout.tail.len()), (15_000, 15_000));
        total += stdout.total + stderr.total;
    }
    assert_eq!(total, (each * commands as usize) as u64);
    let grown = (most - before) >> 20;
    println!(
        "measured: print: {commands} commands at once, {} MiB in all, {grown} MiB of growth, {:.1} s",
        total >> 20,
        begin.elapsed().as_secs_f64()
    );
    assert!(grown < 64, "{grown} MiB");
}

const FULL_CHILDREN: u32 = 1_000;
const CI_CHILDREN: u32 = 120;

#[test]
fn background_children_are_all_gone() {
    passes("process::leave_behind", &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by background_children_are_all_gone, alone in its process"]
async fn leave_behind() {
    let children = if full_volume() { FULL_CHILDREN } else { CI_CHILDREN };
    let mut counted = 0;
    for way in [Way::Supervised, Way::Hermetic] {
        let world = World::new(way).await;
        // Ten of each kind a command.
        let kinds = [
            "sleep 300 &",
            "setsid sleep 300 &",
            "(setsid sh -c 'sleep 300 & sleep 300' &) &",
            "nohup sleep 300 >/dev/null 2>&1 &",
            "sh -c 'sh -c \"sleep 300 & setsid sleep 300 &\" &'",
        ];
        let mut begun = 0;
        while begun < children / 2 {
            let loops: String =
                kinds.iter().map(|kind| format!("for i in 1 2 3 4 5 6 7 8 9 10; do {kind} done\n")).collect();
            let loops = loops.replace("&' done", "&'; done");
            let out =
                world.line(&format!("{loops}sleep 0.3; ps -e -o args= | grep -c '^sleep 300' || true")).await;
            assert_eq!(out.code, Some(0), "{out:?}");
            world.nothing_left("a command");
            begun += 70;
        }
        counted += begun;
    }
    // Every supervisor has been reaped, and so was all they had.
    let own: String = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default())
        .collect();
    assert_eq!(own.trim(), "", "children of this process are left");
    println!("measured: background children: {counted} started by commands, 0 left");
}

#[test]
fn a_host_that_is_killed_leaves_nothing() {
    use std::io::{BufRead as _, BufReader};
    for way in ["supervised", "hermetic"] {
        let mut host = alone("process::be_killed", &[]);
        let mut host = host.env("FLOWCELL_WAY", way).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        let mark =
            lines.find_map(|line| line.unwrap().split_once("marked ").map(|(_, mark)| mark.to_owned()));
        let mark = mark.unwrap();
        let (mark, private) = mark.split_once(' ').unwrap();
        let wanted = format!("FLOWCELL_MARK={mark}");
        let alive = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            processes
                .filter(|process| {
                    std::fs::read(process.path().join("environ"))
                        .is_ok_and(|env| env.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes()))
                })
                .count()
        };
        assert!(alive() >= 3, "{way}: {}", alive());
        host.kill().unwrap();
        host.wait().unwrap();
        let begin = Instant::now();
        while alive() > 0 && begin.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(alive(), 0, "{way}");
        // The private directory goes too, a moment later.
        while Path::new(private).exists() && begin.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!Path::new(private).exists(), "{way}: {private}");
    }
}

#[tokio::test]
#[ignore = "run by a_host_that_is_killed_leaves_nothing"]
#[allow(clippy::disallowed_methods)]
async fn be_killed() {
    let way =
        if std::env::var("FLOWCELL_WAY").unwrap() == "hermetic" { Way::Hermetic } else { Way::Supervised };
    let world = World::new(way).await;
    let call =
        world.line("setsid sleep 300 & sleep 300 & echo ${TMPDIR:-/none} > new; mv new begun; sleep 300");
    tokio::pin!(call);
    tokio::select! {
        _ = &mut call => panic!("it ended"),
        _ = world.file("begun") => {}
    }
    println!("marked {} {}", world.mark(), world.place.text("begun").trim());
    call.await;
}

#[tokio::test]
async fn what_is_the_services_own_is_not_taken_from_a_request() {
    let world = World::new(Way::Supervised).await;
    let mut request = world.request("echo fine");
    request.spawn.launcher = vec!["/bin/false".into()];
    assert_eq!(world.run(request).await.unwrap().stdout, "fine\n");
    let options = ProcessOptions::default();
    assert_eq!(options.hermetic, HermeticEnforcement::BestEffort);
    let spawn = SpawnRequest::new(Command::Argv(vec!["true".to_owned()]));
    assert!(
        ProcessRequest::new(spawn, Duration::from_secs(1), Capture::Tail { bytes: 1 }).confinement.is_none()
    );
}
