//! Commands through the process service, in the three ways that a host has.
#![allow(clippy::disallowed_methods)] // tests read the environment

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flowcell_host::confine::Enforcement;
use flowcell_host::kernel::CallContext;
use flowcell_host::kernel::flows::bash;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::process::{Command, SpawnRequest, Stdin};
use flowcell_host::process::{Capture, Ended, ProcessError, ProcessOptions, ProcessRequest, run};
use flowcell_host::{Confinement, HermeticEnforcement, Supervisor};

use crate::support::Fixture;

/// What a host has set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// No supervisor.
    Direct,
    /// A supervisor.
    Supervised,
    /// A supervisor, and every command confined to the workspace.
    Hermetic,
}

pub(crate) const WAYS: [Way; 3] = [Way::Direct, Way::Supervised, Way::Hermetic];

/// What a host that has a supervisor sets up. Another user runs a copy of it.
pub(crate) fn processes() -> ProcessOptions {
    static SUPERVISOR: LazyLock<Supervisor> = LazyLock::new(|| {
        let built = || env!("CARGO_BIN_EXE_flowcell-supervisor").into();
        Supervisor::new(std::env::var_os("FLOWCELL_SUPERVISOR").unwrap_or_else(built))
    });
    ProcessOptions { supervisor: Some(SUPERVISOR.clone()), ..ProcessOptions::default() }
}

pub(crate) struct World {
    pub(crate) place: Fixture,
    pub(crate) cx: CallContext,
    way: Way,
    /// A variable that every command has, and so every process it leaves.
    mark: String,
}

impl World {
    pub(crate) async fn new(way: Way) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let place = Fixture::with_rules(&[(Effect::Allow, "proc:spawn:*")]);
        let ambient = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin:/usr/sbin:/sbin".to_owned())]);
        let cx = place.context(place.store().await, &bash::decl()).with_environment(ambient);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        World { place, cx, way, mark }
    }

    pub(crate) fn root(&self) -> String {
        self.place.root().to_str().unwrap().to_owned()
    }

    pub(crate) fn request(&self, line: &str) -> ProcessRequest {
        let mut spawn = SpawnRequest::new(Command::Line { line: line.to_owned(), shell: None });
        spawn.env.insert("FLOWCELL_MARK".to_owned(), Some(self.mark.clone()));
        let mut request = ProcessRequest::new(
            spawn,
            Duration::from_secs(20),
            Capture::HeadTail { head: 15_000, tail: 15_000 },
        );
        request.options = self.options();
        if self.way == Way::Hermetic {
            request.confinement = Some(Confinement::new(vec![self.root()], vec![self.root()]));
        }
        request
    }

    fn options(&self) -> ProcessOptions {
        if self.way == Way::Direct { ProcessOptions::default() } else { processes() }
    }

    /// A hermetic command.
    pub(crate) fn hermetic(&self, line: &str, reads: &[&str], writes: &[&str]) -> ProcessRequest {
        let absolute = |paths: &[&str]| paths.iter().map(|path| format!("{}/{path}", self.root())).collect();
        let mut request = self.request(line);
        request.confinement = Some(Confinement::new(absolute(reads), absolute(writes)));
        request.options.hermetic = HermeticEnforcement::BestEffort;
        request
    }

    pub(crate) async fn line(&self, line: &str) -> Out {
        self.run(self.request(line)).await.unwrap()
    }

    pub(crate) async fn fed(&self, line: &str, stdin: &[u8]) -> Out {
        let mut request = self.request(line);
        request.spawn.stdin = Stdin::Bytes(stdin.to_vec());
        self.run(request).await.unwrap()
    }

    pub(crate) async fn run(&self, request: ProcessRequest) -> Result<Out, ProcessError> {
        let begin = Instant::now();
        let ended = run(&self.cx, request).await?;
        let took = begin.elapsed();
        let text = |captured: &flowcell_host::process::Captured| {
            String::from_utf8_lossy(&[captured.head.as_slice(), captured.tail.as_slice()].concat())
                .into_owned()
        };
        let enforcement =
            self.cx.notes.take().remove("enforcement").map(|note| serde_json::from_value(note).unwrap());
        Ok(match &ended {
            Ended::Exited { code, stdout, stderr, .. } => {
                Out { code: Some(*code), stdout: text(stdout), stderr: text(stderr), took, enforcement }
            }
            Ended::TimedOut { stdout, stderr, .. } => {
                Out { code: None, stdout: text(stdout), stderr: text(stderr), took, enforcement }
            }
        })
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// The processes that commands of this world left.
    pub(crate) fn left(&self) -> Vec<String> {
        let wanted = format!("FLOWCELL_MARK={}", self.mark);
        let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
            process.file_name().to_str()?.parse::<u32>().ok()?;
            let env = fs::read(process.path().join("environ")).ok()?;
            env.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes()).then_some(())?;
            let name = fs::read_to_string(process.path().join("cmdline")).ok()?;
            (!name.is_empty()).then(|| format!("{:?} {name:?}", process.file_name()))
        });
        processes.collect()
    }

    /// Ends what commands of this world left, each by its number.
    pub(crate) fn end_left(&self) {
        for process in self.left() {
            let id = process.split('"').nth(1).unwrap().parse().unwrap();
            let id = rustix::process::Pid::from_raw(id).unwrap();
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        }
    }

    /// Nothing is left, at once.
    #[track_caller]
    pub(crate) fn nothing_left(&self, of: &str) {
        let left = self.left();
        assert!(left.is_empty(), "{:?}: {of} left {left:?}", self.way);
    }

    /// Waits for a file that a command makes.
    pub(crate) async fn file(&self, name: &str) -> PathBuf {
        let path = self.place.path(name);
        for _ in 0..1_000 {
            if path.exists() {
                return path;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{name} was not made");
    }
}

#[derive(Debug)]
pub(crate) struct Out {
    /// None: it timed out.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    pub(crate) enforcement: Option<Enforcement>,
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// Runs an ignored test of this program in a process of its own, under another program when `under` names one.
pub(crate) fn alone(test: &str, under: &[&str]) -> std::process::Command {
    let exe = std::env::current_exe().unwrap();
    let mut command = match under.split_first() {
        Some((program, arguments)) => {
            let mut command = std::process::Command::new(program);
            command.args(arguments).arg(exe);
            command
        }
        None => std::process::Command::new(exe),
    };
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

/// The same to its end; it has to pass.
#[track_caller]
pub(crate) fn passes(test: &str, under: &[&str]) {
    let output = alone(test, under).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    for line in text.lines().filter(|line| line.contains("measured: ") || line.contains("skipped: ")) {
        println!("{}", &line[line.find("measured: ").or(line.find("skipped: ")).unwrap()..]);
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
