//! `test`: the declared test runner, its report read, and its failures told from those of the base (host contract 5.3).

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::shell::{Inside, MESSAGE_OUTPUT, combine, fail, failed, tail, timed_out, timeout};
use crate::capture;
use crate::container::{Container, Request};
use crate::judge::judge;
use crate::kernel::flows::bash::MAX_SHELL_OUTPUT_BYTES;
use crate::kernel::flows::error::Code;
use crate::kernel::flows::test::{
    Against, BaseOutcome, DEFAULT_TIMEOUT_MS, Input, MAX_CAPTURE_BYTES, Outcome, Output,
};
use crate::kernel::fs::{is_inside, lexical};
use crate::kernel::process::{Command, SpawnRequest};
use crate::kernel::{CallContext, Evaluator, Handler, HandlerError};
use crate::process::{self, Capture, Ended, ProcessOptions, ProcessRequest};
use crate::report;
use crate::runner::{Runner, TestRunner};
use crate::worktree::{Git, SCRATCH, Worktree};

/// What reading a report file may take.
const REPORT_PATIENCE: Duration = Duration::from_secs(60);

/// Serves `test`.
#[derive(Clone, Default)]
pub struct TestHandler {
    runner: Option<Arc<dyn TestRunner>>,
    container: Option<Arc<dyn Container>>,
    evaluator: Option<Arc<dyn Evaluator>>,
    processes: ProcessOptions,
}

impl TestHandler {
    /// A handler for a runner. Without one every call is `provider_unavailable`.
    #[must_use]
    pub fn new(runner: Option<Arc<dyn TestRunner>>) -> Self {
        TestHandler { runner, ..Self::default() }
    }

    /// The same handler with a way into containers, for a runner that names one.
    #[must_use]
    pub fn with_container(self, container: Arc<dyn Container>) -> Self {
        TestHandler { container: Some(container), ..self }
    }

    /// The same handler with a judge of exit codes. Without one a run that exits with other than 0, 126 or 127 is
    /// `provider_unavailable`: it is not left unjudged.
    #[must_use]
    pub fn with_evaluator(self, evaluator: Arc<dyn Evaluator>) -> Self {
        TestHandler { evaluator: Some(evaluator), ..self }
    }

    /// The same handler with what the host set up for processes.
    #[must_use]
    pub fn with_processes(self, processes: ProcessOptions) -> Self {
        TestHandler { processes, ..self }
    }
}

impl fmt::Debug for TestHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestHandler")
            .field("runner", &self.runner.is_some())
            .field("container", &self.container.is_some())
            .field("evaluator", &self.evaluator.is_some())
            .field("processes", &self.processes)
            .finish()
    }
}

#[async_trait]
impl Handler for TestHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let Some(runner) = &self.runner else {
            return Err(fail(
                Code::ProviderUnavailable,
                "No test runner is declared; the host declares one, as `[test] command` of a policy file.",
            ));
        };
        let runner = runner.declared()?;
        let given = input.timeout_ms.or(runner.timeout_ms);
        let run = Run {
            cx,
            handler: self,
            timeout: timeout(given, DEFAULT_TIMEOUT_MS)?,
            words: words(&runner.command, input.selection.unwrap_or_default()),
            runner,
        };
        let now = run.outcome(Place { cwd: run.runner.cwd.clone(), real: None }).await?;
        if input.against != Some(Against::Base) {
            return Ok(Output { outcome: now, base: None, introduced: None, preexisting: None, fixed: None });
        }
        let base = run.base().await?;
        Ok(compare(now, base))
    }
}

/// The argv of a run: a login shell that hands the selection to the runner as arguments.
fn words(command: &str, selection: Vec<String>) -> Vec<String> {
    let mut words =
        vec!["bash".to_owned(), "-lc".to_owned(), format!("{command} \"$@\""), command.to_owned()];
    words.extend(selection);
    words
}

/// How the run differs from the base, where both could be read.
fn compare(now: Outcome, base: BaseOutcome) -> Output {
    if !now.parsed || !base.outcome.parsed {
        return Output { outcome: now, base: Some(base), introduced: None, preexisting: None, fixed: None };
    }
    let here: HashSet<&str> = now.failed.iter().map(String::as_str).collect();
    let there: HashSet<&str> = base.outcome.failed.iter().map(String::as_str).collect();
    let pick = |ids: &[String], other: &HashSet<&str>, both: bool| {
        ids.iter().filter(|id| other.contains(id.as_str()) == both).cloned().collect::<Vec<_>>()
    };
    let introduced = pick(&now.failed, &there, false);
    let preexisting = pick(&now.failed, &there, true);
    let fixed = pick(&base.outcome.failed, &here, false);
    Output {
        introduced: Some(introduced),
        preexisting: Some(preexisting),
        fixed: Some(fixed),
        outcome: now,
        base: Some(base),
    }
}

/// Where a runner runs: a directory by its name, or one of the host's that no name of the call leads to.
struct Place {
    cwd: Option<String>,
    real: Option<PathBuf>,
}

/// One call.
struct Run<'a> {
    cx: &'a CallContext,
    handler: &'a TestHandler,
    runner: Runner,
    words: Vec<String>,
    timeout: Duration,
}

impl Run<'_> {
    /// Runs the runner in `cwd`, reads its report and has its exit code judged.
    async fn outcome(&self, place: Place) -> Result<Outcome, HandlerError> {
        let before = self.report(&place).await?;
        let ended = self.start(self.words.clone(), &place, self.timeout).await?;
        let command = Command::Argv(self.words.clone());
        let (code, stdout, stderr) = match ended {
            Ended::Exited { code, stdout, stderr, .. } => (code, stdout, stderr),
            Ended::TimedOut { stdout, stderr, .. } => {
                return Err(timed_out(&command, self.timeout, tail(&stdout).0, tail(&stderr).0));
            }
        };
        let after = self.report(&place).await?;
        let ((stdout, lost_out), (stderr, lost_err)) = (tail(&stdout), tail(&stderr));
        let combined = combine(stdout, stderr);
        let kept = capture::last(&combined, MAX_SHELL_OUTPUT_BYTES);
        let dropped = lost_out + lost_err + (combined.len() - kept.len()) as u64;
        // A file that is as it was before is not this run's.
        let written = after.filter(|after| before.as_ref() != Some(after));
        let report = written
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| report::junit(&text))
            .or_else(|| report::read(&capture::text(&combined)));
        let line = self.words.join(" ");
        let shown = capture::text(kept).into_owned();
        let invalid_probe = match &self.handler.evaluator {
            // The runner's own end says which tests failed: that is no command that was tried in vain. A host without a
            // judge answers such a run; a run that shows nothing of the kind stays unjudged, and fails.
            None if report.as_ref().is_some_and(|report| report.parsed && !report.failed.is_empty()) => None,
            None if !matches!(code, 0 | 126 | 127) => {
                let message = format!(
                    "the tests ended with {code}, their output does not say which failed, and this host has no judge to \
                     tell whether the command or the tree is at fault; a runner with a `report` file, or `bash`, says \
                     more. The end of the output:\n{}",
                    capture::end(&shown, MESSAGE_OUTPUT)
                );
                return Err(fail(Code::ProviderUnavailable, message));
            }
            evaluator => judge(evaluator.as_deref(), &line, code, &shown).await?,
        };
        let (passed, failed, parsed) =
            report.map_or((0, Vec::new(), false), |report| (report.passed, report.failed, report.parsed));
        Ok(Outcome {
            command: line,
            exit_code: code,
            passed,
            failed,
            parsed,
            tail: shown,
            tail_truncated: dropped > 0,
            tail_dropped_bytes: dropped,
            invalid_probe,
        })
    }

    /// The bytes of the report file, if the runner declares one and it can be read whole. It is read where the runner runs,
    /// which may be inside a container, so by a program there.
    async fn report(&self, place: &Place) -> Result<Option<Vec<u8>>, HandlerError> {
        let Some(path) = &self.runner.report else { return Ok(None) };
        let words = ["cat", "--", path].map(str::to_owned).to_vec();
        Ok(match self.start(words, place, REPORT_PATIENCE).await? {
            Ended::Exited { code: 0, stdout, .. } if stdout.total == stdout.tail.len() as u64 => {
                Some(stdout.tail)
            }
            _ => None,
        })
    }

    /// Runs an argv where the runner runs.
    async fn start(
        &self,
        words: Vec<String>,
        place: &Place,
        timeout: Duration,
    ) -> Result<Ended, HandlerError> {
        let capture = Capture::Tail { bytes: MAX_CAPTURE_BYTES };
        let command = Command::Argv(words.clone());
        let options = &self.handler.processes;
        if let Some(name) = &self.runner.container {
            let Some(transport) = &self.handler.container else {
                let message = format!("No transport reaches the container {name}.");
                return Err(fail(Code::ProviderUnavailable, message));
            };
            let mut words = words.into_iter();
            let file = words.next().unwrap_or_default();
            let mut request = Request::new(name, file, words);
            request.cwd.clone_from(&place.cwd);
            request.env = self.runner.env.clone();
            let inside = Inside { transport: Arc::clone(transport), request, logical: command, stdin: None };
            return inside.run(self.cx, timeout, capture, options).await;
        }
        let mut spawn = SpawnRequest::new(command.clone());
        spawn.cwd.clone_from(&place.cwd);
        spawn.real_cwd.clone_from(&place.real);
        let env = self.runner.env.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        spawn.env = env.collect::<BTreeMap<_, _>>();
        let request =
            ProcessRequest { options: options.clone(), ..ProcessRequest::new(spawn, timeout, capture) };
        process::run(self.cx, request).await.map_err(|error| failed(&command, error))
    }

    /// The run of the base commit, in a tree of its own.
    async fn base(&self) -> Result<BaseOutcome, HandlerError> {
        let Some(root) = self.runner.root.as_ref().or(self.runner.cwd.as_ref()) else {
            let message = "against: \"base\" needs a runner that declares its repository, root or cwd.";
            return Err(fail(Code::InvalidInput, message));
        };
        let root = self.cx.files.absolute(root);
        let git = Git::new(self.cx, root.clone(), &self.handler.processes);
        let base = git.base(self.runner.base_ref.as_deref()).await?;
        let prefix = git.prefix().await?;
        let worktree = git.add(&base.commit).await?;
        let outcome = match self.place(&root, &prefix, &worktree) {
            Ok(place) => self.outcome(place).await,
            Err(error) => Err(error),
        };
        worktree.remove().await;
        Ok(BaseOutcome { outcome: outcome?, reference: base.reference, commit: base.commit })
    }

    /// Where the runner runs in the base tree: the same place below its own directory. `prefix` is where `root` is in its
    /// repository.
    fn place(&self, root: &str, prefix: &str, worktree: &Worktree) -> Result<Place, HandlerError> {
        let cwd = self.runner.cwd.as_deref();
        if self.runner.container.is_some() {
            let Some(cwd) = cwd else {
                let message = "against: \"base\" in a container needs a runner that declares its cwd there.";
                return Err(fail(Code::InvalidInput, message));
            };
            let cwd = format!("{}/{SCRATCH}/{}/{prefix}", cwd.trim_end_matches('/'), worktree.name);
            let cwd = cwd.trim_end_matches('/').to_owned();
            return Ok(Place { cwd: Some(cwd), real: None });
        }
        let cwd = self.cx.files.absolute(cwd.unwrap_or("."));
        let cwd = if is_inside(root, &cwd) {
            let below = cwd.strip_prefix(root).unwrap_or_default().trim_start_matches('/');
            lexical(&worktree.dir, &format!("{prefix}{below}"))
        } else {
            lexical(&cwd, &format!("{SCRATCH}/{}/{prefix}", worktree.name))
        };
        // In a view of a checkpoint the repository is beside what paths lead to.
        Ok(match self.cx.workspace.live() {
            Some(_) => Place { cwd: None, real: Some(PathBuf::from(cwd)) },
            None => Place { cwd: Some(cwd), real: None },
        })
    }
}
