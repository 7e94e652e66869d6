//! `test` against the base commit (host contract 5.3), in real git repositories.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use flowcell_host::TestHandler;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::test::{self, Output};
use flowcell_host::kernel::{EvaluatorError, Handler, HandlerError};
use flowcell_host::runner::Runner;
use serde_json::json;

use crate::shell::{Shell, gone, need, processes};
use crate::support::{Result, failure};
use crate::test_flow::{Judge, run};

const TEST: &str = "test_base";

/// A repository whose runner fails for each name in the file `broken`.
struct Repository {
    shell: Shell,
}

impl Repository {
    fn new() -> Option<Self> {
        need(TEST, "git")?;
        let shell = Shell::new();
        let repository = Self { shell };
        repository.git(&["init", "-q", "-b", "main"]);
        repository.put("run.sh", RUNNER);
        repository.shell.place.chmod("run.sh", 0o755);
        repository.put(".gitignore", ".home\n.bin\n");
        repository.put("broken", "old\nmended\n");
        repository.commit();
        Some(repository)
    }

    fn put(&self, path: &str, text: &str) {
        self.shell.place.put(path, text);
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C", &self.shell.root()]).args(words);
        let out = command.env("HOME", self.shell.place.path(".home")).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn runner(&self) -> Runner {
        Runner { cwd: Some(self.shell.root()), ..Runner::new("./run.sh") }
    }

    async fn base(&self, runner: Runner) -> Result<Output> {
        run(&self.shell, runner, Judge::tree(), json!({"against": "base"})).await
    }

    /// Nothing of a base run is left.
    #[track_caller]
    fn clean(&self) {
        let scratch = self.shell.place.path(".flows-test-base");
        if scratch.exists() {
            let names = self.shell.place.names(".flows-test-base");
            assert!(names.is_empty(), "{names:?}");
        }
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
    }
}

/// Prints TAP: one test for each name, failing when the file `broken` holds it.
const RUNNER: &str = "#!/bin/bash
pwd >>\"${PLACES:-/dev/null}\"
[ -n \"$WAIT\" ] && [[ $PWD == *flows-test-base* ]] && sleep 60.51
n=0; bad=0
for name in fine old mended mine; do
  n=$((n+1))
  if grep -qx $name broken; then echo \"not ok $n - $name\"; bad=1; else echo \"ok $n - $name\"; fi
done
echo 1..$n
exit $bad
";

#[tokio::test]
async fn failures_are_told_from_those_of_the_base() {
    let Some(repository) = Repository::new() else { return };
    let commit = repository.git(&["rev-parse", "HEAD"]);
    repository.put("broken", "mine\nold\n");
    let out = repository.base(repository.runner()).await.unwrap();
    assert_eq!(out.outcome.failed, ["old", "mine"]);
    let base = out.base.unwrap();
    assert_eq!((base.reference.as_str(), base.commit.as_str()), ("HEAD", commit.as_str()));
    assert_eq!(
        (base.outcome.failed.as_slice(), base.outcome.passed),
        (&["old".to_owned(), "mended".to_owned()][..], 2)
    );
    assert_eq!(base.outcome.command, out.outcome.command);
    assert_eq!(out.introduced.unwrap(), ["mine"]);
    assert_eq!(out.preexisting.unwrap(), ["old"]);
    assert_eq!(out.fixed.unwrap(), ["mended"]);
    repository.clean();
    // The user's tree, index and refs are as they were.
    assert_eq!(repository.git(&["status", "--porcelain"]), "M broken");
}

#[tokio::test]
async fn the_base_is_the_declared_ref_or_the_capture_or_head() {
    let Some(repository) = Repository::new() else { return };
    let first = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["update-ref", "refs/flows/capture-base", "HEAD"]);
    repository.put("broken", "mine\n");
    let second = repository.commit();
    let named = async |runner: Runner| {
        let base = repository.base(runner).await.unwrap().base.unwrap();
        (base.reference, base.commit)
    };
    assert_eq!(named(repository.runner()).await, ("refs/flows/capture-base".to_owned(), first.clone()));
    let declared = Runner { base_ref: Some("main".to_owned()), ..repository.runner() };
    assert_eq!(named(declared).await, ("main".to_owned(), second));
    // A declared ref has no fallback.
    let declared = Runner { base_ref: Some("gone".to_owned()), ..repository.runner() };
    let error = failure(repository.base(declared).await);
    assert!(error.code == Code::NotFound && error.message.contains("gone"), "{error:?}");
    repository.clean();
}

#[tokio::test]
async fn a_runner_without_a_repository() {
    let Some(repository) = Repository::new() else { return };
    let places = repository.shell.place.path(".home/places").to_str().unwrap().to_owned();
    let env = [("PLACES".to_owned(), places)].into();
    // Neither root nor cwd: refused after the run.
    let runner = Runner { env, ..Runner::new("./run.sh") };
    let error = failure(repository.base(runner).await);
    assert_eq!(error.code, Code::InvalidInput);
    assert_eq!(repository.shell.place.text(".home/places").lines().count(), 1);
    let bare = Shell::new();
    bare.place.put("run.sh", RUNNER);
    let runner = Runner { cwd: Some(bare.root()), ..Runner::new("bash run.sh") };
    let error = failure(run(&bare, runner, Judge::tree(), json!({"against": "base"})).await);
    assert_eq!(error.code, Code::NotFound);
}

#[tokio::test]
async fn the_runner_runs_in_the_same_place() {
    let Some(repository) = Repository::new() else { return };
    repository.put("sub/run.sh", RUNNER);
    repository.put("sub/broken", "old\n");
    repository.shell.place.chmod("sub/run.sh", 0o755);
    repository.commit();
    let root = repository.shell.root();
    let places = repository.shell.place.path(".home/places").to_str().unwrap().to_owned();
    let env: std::collections::BTreeMap<_, _> = [("PLACES".to_owned(), places)].into();
    for (cwd, root_given, place) in [
        (Some("sub".to_owned()), Some(root.clone()), "/sub"),
        (Some(format!("{root}/sub")), Some(".".to_owned()), "/sub"),
        (None, Some(root.clone()), ""),
        (Some(".".to_owned()), None, ""),
    ] {
        let runner =
            Runner { cwd: cwd.clone(), root: root_given, env: env.clone(), ..Runner::new("./run.sh") };
        let out = repository.base(runner).await.unwrap();
        assert_eq!(out.introduced.unwrap(), Vec::<String>::new(), "{cwd:?}");
        let seen = repository.shell.place.text(".home/places");
        let [.., here, there] = seen.lines().collect::<Vec<_>>()[..] else { panic!("{seen}") };
        assert_eq!(here, format!("{root}{place}"));
        let below = there.strip_prefix(&format!("{root}/.flows-test-base/run-")).unwrap();
        let (uuid, rest) = below.split_at(36);
        assert_eq!(rest, place);
        assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'4' && uuid.split('-').count() == 5, "{uuid}");
    }
    repository.clean();
}

/// A tree of a commit is one of the whole repository, so a runner whose directory is below the repository's top runs below
/// that of the base too.
#[tokio::test]
async fn a_root_below_the_top_of_its_repository() {
    let Some(repository) = Repository::new() else { return };
    repository.put("odd sub/é/run.sh", RUNNER);
    repository.put("odd sub/é/broken", "old\n");
    repository.shell.place.chmod("odd sub/é/run.sh", 0o755);
    repository.commit();
    repository.put("odd sub/é/broken", "old\nmine\n");
    let root = repository.shell.root();
    let places = repository.shell.place.path(".home/places").to_str().unwrap().to_owned();
    let env: std::collections::BTreeMap<_, _> = [("PLACES".to_owned(), places)].into();
    for (cwd, root_given) in [
        ("odd sub/é".to_owned(), None),
        (format!("{root}/odd sub/é/"), Some("odd sub".to_owned())),
        ("odd sub/é".to_owned(), Some("odd sub/é".to_owned())),
    ] {
        let at = if root_given.as_deref() == Some("odd sub") { "odd sub" } else { "odd sub/é" };
        let runner = Runner { cwd: Some(cwd), root: root_given, env: env.clone(), ..Runner::new("./run.sh") };
        let out = repository.base(runner).await.unwrap();
        assert_eq!(out.introduced.unwrap(), ["mine"], "{at}");
        assert_eq!(out.preexisting.unwrap(), ["old"], "{at}");
        let seen = repository.shell.place.text(".home/places");
        let there = seen.lines().last().unwrap();
        let below = there.strip_prefix(&format!("{root}/{at}/.flows-test-base/run-")).unwrap();
        assert_eq!(&below[36..], "/odd sub/é", "{there}");
        assert!(repository.shell.place.names(&format!("{at}/.flows-test-base")).is_empty());
        assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    }
}

#[tokio::test]
async fn settings_that_git_made_for_the_worktree_are_put_back() {
    let Some(repository) = Repository::new() else { return };
    let settings = || {
        let text = repository.shell.place.text(".git/config");
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && *line != "[extensions]")
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let hook = ".git/hooks/post-checkout";
    let before = settings();
    // What a git with relative worktrees does when it makes one, done by a hook of the checkout. One setting at a time: an
    // older git would refuse a repository that has both.
    for setting in ["core.repositoryformatversion 1", "extensions.relativeWorktrees true"] {
        let touch = "touch \"$(git rev-parse --git-common-dir)/hooked\"";
        repository.put(hook, &format!("#!/bin/sh\ngit config {setting}\n{touch}\n"));
        repository.shell.place.chmod(hook, 0o755);
        repository.base(repository.runner()).await.unwrap();
        std::fs::remove_file(repository.shell.place.path(".git/hooked")).unwrap();
        assert_eq!(settings(), before, "{setting}");
    }
    // What was there before stays.
    repository.git(&["config", "extensions.relativeWorktrees", "true"]);
    let before = settings();
    repository.base(repository.runner()).await.unwrap();
    assert_eq!(settings(), before);
    repository.clean();
}

#[tokio::test]
async fn the_base_tree_goes_however_the_call_ends() {
    let Some(repository) = Repository::new() else { return };
    let waiting = Runner { env: [("WAIT".to_owned(), "1".to_owned())].into(), ..repository.runner() };
    let error = failure(repository.base(Runner { timeout_ms: Some(1_500.0), ..waiting.clone() }).await);
    assert_eq!(error.code, Code::Timeout);
    repository.clean();

    let cx = repository.shell.context(&test::decl()).await;
    let cancel = cx.cancel.clone();
    let handler =
        TestHandler::new(Some(Arc::new(waiting))).with_processes(processes()).with_evaluator(Judge::tree());
    let input = test::Input { against: Some(test::Against::Base), ..test::Input::default() };
    let (result, ()) = tokio::join!(handler.run(&cx, input.clone()), async {
        while crate::shell::running("sleep 60.51").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    });
    assert!(matches!(result, Err(HandlerError::Cancelled)), "{result:?}");
    assert!(gone("sleep 60.51"));
    repository.clean();

    // A call that is dropped outright.
    let cx = repository.shell.context(&test::decl()).await;
    {
        let call = handler.run(&cx, input);
        tokio::pin!(call);
        loop {
            tokio::select! {
                result = &mut call => panic!("{result:?}"),
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
            if !crate::shell::running("sleep 60.51").is_empty() {
                break;
            }
        }
    }
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if repository.git(&["worktree", "list"]).lines().count() == 1 {
            break;
        }
    }
    repository.clean();
    assert!(gone("sleep 60.51"));

    // A judge that does not answer fails the call, and the tree is gone all the same.
    repository.put("broken", "");
    let handler = TestHandler::new(Some(Arc::new(repository.runner())))
        .with_evaluator(Judge::saying(Err(EvaluatorError::Unreachable)));
    let out = repository.shell.call(handler, test::decl(), json!({"against": "base"})).await;
    assert_eq!(failure(out).code, Code::ProviderUnavailable);
    repository.clean();
}

/// A run in a view of a checkpoint is compared with the base of the repository, which the view does not hold.
#[tokio::test]
async fn a_view_of_a_checkpoint_is_compared_too() {
    let Some(repository) = Repository::new() else { return };
    let copy = tempfile::tempdir().unwrap();
    for (path, text) in [("run.sh", RUNNER), ("broken", "mine\nold\n")] {
        std::fs::write(copy.path().join(path), text).unwrap();
    }
    std::fs::set_permissions(copy.path().join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut cx = repository.shell.context(&test::decl()).await;
    cx.files = cx.files.over(copy.path()).unwrap();
    cx.workspace = cx.files.workspace().clone();
    cx.spawner = cx.spawner.with_files(cx.files.clone());
    let handler = TestHandler::new(Some(Arc::new(repository.runner())))
        .with_processes(processes())
        .with_evaluator(Judge::tree());
    let input = test::Input { against: Some(test::Against::Base), ..test::Input::default() };
    let out = handler.run(&cx, input).await.unwrap();
    assert_eq!(out.introduced.unwrap(), ["mine"]);
    assert_eq!(
        (out.preexisting.unwrap(), out.fixed.unwrap()),
        (vec!["old".to_owned()], vec!["mended".to_owned()])
    );
    repository.clean();
}

#[tokio::test]
async fn attribution_needs_both_reports() {
    let Some(repository) = Repository::new() else { return };
    repository.put("run.sh", "#!/bin/bash\nif [[ $PWD == *flows-test-base* ]]; then echo '2 failed in 1s'; else echo 'FAILED a.py::x'; echo '1 failed'; fi; exit 1\n");
    repository.commit();
    let out = repository.base(repository.runner()).await.unwrap();
    assert!(out.outcome.parsed && !out.base.as_ref().unwrap().outcome.parsed);
    let json = serde_json::to_value(&out).unwrap();
    assert!(["introduced", "preexisting", "fixed"].iter().all(|key| json.get(key).is_none()));
    assert!(json["base"]["ref"] == "HEAD" && json["base"]["commit"].is_string());
}

#[tokio::test]
async fn two_calls_at_once_take_turns() {
    let Some(repository) = Repository::new() else { return };
    repository.put("broken", "mine\nold\n");
    let calls = (0..3).map(|_| repository.base(repository.runner()));
    for out in futures_util(calls).await {
        assert_eq!(out.unwrap().introduced.unwrap(), ["mine"]);
    }
    repository.clean();
}

/// Runs them all at once.
async fn futures_util<F: Future>(calls: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|context| {
        for (call, done) in &mut calls {
            if done.is_none()
                && let std::task::Poll::Ready(output) = call.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        if calls.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, done)| done).collect()
}
