//! `test` on real runners: unittest, pytest, libtest, Node's TAP and JUnit. Each breaks one test and gets exactly it.
#![allow(clippy::disallowed_methods)] // tests read the environment

use flowcell_host::kernel::flows::test::Output;
use flowcell_host::runner::Runner;
use serde_json::{Value, json};

use crate::shell::{Shell, need, python, skip};
use crate::test_flow::{Judge, run};

/// Makes the workspace a repository with one commit of what is there.
fn commit(shell: &Shell) {
    for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "x"]] {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C", &shell.root()]).args(words);
        assert!(git.env("HOME", shell.place.path(".home")).status().unwrap().success());
    }
}

async fn attributed(shell: &Shell, runner: Runner) -> Output {
    let runner = Runner { cwd: Some(shell.root()), ..runner };
    run(shell, runner, Judge::tree(), json!({"against": "base"})).await.unwrap()
}

/// What was introduced, what was there before and what was mended.
#[track_caller]
fn check(out: &Output, passed: u64, introduced: &str, preexisting: &str, fixed: &str) {
    let lists = [&out.introduced, &out.preexisting, &out.fixed].map(Option::as_deref);
    assert_eq!(
        lists,
        [introduced, preexisting, fixed]
            .map(|id| Some([id.to_owned()]))
            .each_ref()
            .map(|id| id.as_ref().map(|id| &id[..])),
        "{out:#?}"
    );
    assert!(out.outcome.parsed && out.outcome.passed == passed, "{out:#?}");
}

async fn only(shell: &Shell, runner: Runner, selection: Value) -> (u64, Vec<String>, bool) {
    let runner = Runner { cwd: Some(shell.root()), ..runner };
    let out = run(shell, runner, Judge::tree(), json!({"selection": selection})).await.unwrap().outcome;
    (out.passed, out.failed, out.parsed)
}

const UNITTEST: &str = "import unittest
class T(unittest.TestCase):
    def test_fine(self): pass
    def test_mine(self):
        '''Says what it does.'''
        self.assertEqual(MINE, 1)
    def test_old(self): self.assertEqual(1, 2)
    def test_mended(self): self.assertEqual(MENDED, 1)
    @unittest.skip('why')
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
";

#[tokio::test]
async fn unittest() {
    let Some(python) = python("test_real/unittest") else { return };
    let shell = Shell::new();
    shell.place.put("test_it.py", format!("MINE, MENDED = 1, 2\n{UNITTEST}"));
    commit(&shell);
    shell.place.put("test_it.py", format!("MINE, MENDED = 2, 1\n{UNITTEST}"));
    let runner = || Runner::new(format!("{python} -m unittest"));
    let out = attributed(&shell, runner()).await;
    check(&out, 2, "test_it.T.test_mine", "test_it.T.test_old", "test_it.T.test_mended");
    assert_eq!(only(&shell, runner(), json!(["test_it.T.test_fine"])).await, (1, vec![], true));
    let (_, failed, parsed) = only(&shell, runner(), json!(["-v", "test_it.T.test_mine"])).await;
    assert_eq!((failed, parsed), (vec!["test_it.T.test_mine".to_owned()], true));
    // A module that cannot be imported is an error of its own.
    shell.place.put("test_broken.py", "import no_such_module_here\n");
    let (passed, failed, parsed) = only(&shell, runner(), json!(["discover"])).await;
    assert!(parsed && passed == 2, "{failed:?}");
    assert!(failed.contains(&"unittest.loader._FailedTest.test_broken".to_owned()), "{failed:?}");
}

/// A Python with pytest: the one of `python3 -m venv target/pytest-venv && target/pytest-venv/bin/pip install pytest`, or the
/// machine's.
fn pytest() -> Option<String> {
    let own = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("../pytest-venv/bin/python");
    let candidates = [
        Some(own.to_str()?.to_owned()),
        crate::shell::which("python3").and_then(|path| Some(path.to_str()?.to_owned())),
    ];
    let has = |python: &String| {
        let mut command = std::process::Command::new(python);
        command.args(["-c", "import pytest"]).output().is_ok_and(|out| out.status.success())
    };
    let found = candidates.into_iter().flatten().find(has);
    if found.is_none() {
        skip("test_real/pytest", "no pytest on this machine");
    }
    found
}

const PYTEST: &str = "import pytest
def test_fine(): pass
def test_mine(): assert MINE == 1
def test_mended(): assert MENDED == 1
@pytest.mark.parametrize('x', ['a - b', 'c d', '[e]'])
def test_old(x): assert x != 'a - b'
@pytest.mark.skip(reason='why')
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
";

#[tokio::test]
async fn pytest_runs() {
    let Some(python) = pytest() else { return };
    let shell = Shell::new();
    shell.place.put("test_it.py", format!("MINE, MENDED = 1, 2\n{PYTEST}"));
    commit(&shell);
    shell.place.put("test_it.py", format!("MINE, MENDED = 2, 1\n{PYTEST}"));
    let runner = |more: &str| Runner::new(format!("{python} -m pytest -p no:cacheprovider{more}"));
    let (mine, old, mended) =
        ("test_it.py::test_mine", "test_it.py::test_old[a - b]", "test_it.py::test_mended");
    let out = attributed(&shell, runner("")).await;
    check(&out, 4, mine, old, mended);
    for options in [" -v", " -q", " --color=yes -v", " -rA"] {
        let (passed, mut failed, parsed) = only(&shell, runner(options), json!([])).await;
        failed.sort();
        assert_eq!((passed, failed, parsed), (4, vec![mine.to_owned(), old.to_owned()], true), "{options}");
    }
    // An error while collecting, and one in a fixture.
    shell.place.put("test_broken.py", "import no_such_module_here\n");
    shell.place.put(
        "test_fixture.py",
        "import pytest\n@pytest.fixture\ndef f(): raise ValueError\ndef test_f(f): pass\n",
    );
    let (_, failed, parsed) = only(&shell, runner(""), json!(["test_broken.py"])).await;
    assert_eq!((failed, parsed), (vec!["test_broken.py".to_owned()], true));
    let (_, failed, parsed) = only(&shell, runner(""), json!(["test_fixture.py"])).await;
    assert_eq!((failed, parsed), (vec!["test_fixture.py::test_f".to_owned()], true));
    // A test that is not there is no report.
    let (_, failed, parsed) = only(&shell, runner(""), json!(["test_it.py::test_nope"])).await;
    assert_eq!((failed.len(), parsed), (0, false));
    // pytest's own JUnit file says the same.
    let junit = Runner { report: Some("out.xml".to_owned()), ..runner(" --junit-xml=out.xml") };
    let (passed, failed, parsed) = only(&shell, junit, json!(["test_it.py"])).await;
    assert_eq!((passed, parsed), (4, true));
    assert_eq!(failed, ["test_it.test_mine", "test_it.test_old[a - b]"]);
}

const LIBTEST: &str = "mod m {
    #[test] fn fine() {}
    #[test] fn mine() { assert_eq!(super::MINE, 1); }
    #[test] fn mended() { assert_eq!(super::MENDED, 1); }
    #[test] #[should_panic] fn old() {}
    #[test] #[ignore = \"why\"] fn ignored() {}
}
";

#[tokio::test]
async fn libtest() {
    let Some(rustc) = need("test_real/libtest", "rustc") else { return };
    let shell = Shell::new();
    shell.place.put("it.rs", format!("const MINE: u8 = 1; const MENDED: u8 = 2;\n{LIBTEST}"));
    commit(&shell);
    shell.place.put("it.rs", format!("const MINE: u8 = 2; const MENDED: u8 = 1;\n{LIBTEST}"));
    let home = std::env::var("HOME").unwrap();
    let env: std::collections::BTreeMap<String, String> = [
        ("RUSTUP_HOME", std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{home}/.rustup"))),
        ("CARGO_HOME", std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"))),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let line = format!("{} --edition 2024 -A warnings --test it.rs -o it && ./it", rustc.display());
    let runner = || Runner { env: env.clone(), ..Runner::new(line.clone()) };
    let out = attributed(&shell, runner()).await;
    check(&out, 2, "m::mine", "m::old", "m::mended");
    assert_eq!(only(&shell, runner(), json!(["m::fine", "--exact"])).await, (1, vec![], true));
    // A tree that does not build has no report.
    shell.place.put("it.rs", "broken");
    let (passed, failed, parsed) = only(&shell, runner(), json!([])).await;
    assert_eq!((passed, failed.len(), parsed), (0, 0, false));
}

const NODE: &str = "import test, { describe, it } from 'node:test'; import assert from 'node:assert';
test('is fine', () => {});
test('is mine #1', () => assert.equal(MINE, 1));
test('was old', () => assert.ok(false));
test('is mended', () => assert.equal(MENDED, 1));
test('is skipped', { skip: 'why' }, () => {});
test('is to do', { todo: true }, () => assert.ok(false));
describe('a suite', () => { it('has a leaf', () => {}); });
";

#[tokio::test]
async fn node() {
    let Some(node) = need("test_real/node", "node") else { return };
    let node = node.display();
    let shell = Shell::new();
    shell.place.put("it.test.mjs", format!("const MINE = 1, MENDED = 2;\n{NODE}"));
    commit(&shell);
    shell.place.put("it.test.mjs", format!("const MINE = 2, MENDED = 1;\n{NODE}"));
    let tap = || Runner::new(format!("{node} --test --test-reporter=tap"));
    let out = attributed(&shell, tap()).await;
    check(&out, 3, "is mine #1", "was old", "is mended");
    let (_, failed, parsed) = only(&shell, tap(), json!(["--test-name-pattern", "mine"])).await;
    assert_eq!((failed, parsed), (vec!["is mine #1".to_owned()], true));
    // The same through its JUnit file, where a suite's tests have ids of their own.
    let junit = || Runner {
        report: Some("out.xml".to_owned()),
        ..Runner::new(format!("{node} --test --test-reporter=junit --test-reporter-destination=out.xml"))
    };
    let out = attributed(&shell, junit()).await;
    check(&out, 3, "is mine #1", "was old", "is mended");
    shell.place.put(
        "it.test.mjs",
        format!(
            "const MINE = 2, MENDED = 1;\n{}",
            NODE.replace("leaf', () => {}", "leaf', () => assert.ok(false)")
        ),
    );
    let (_, failed, parsed) = only(&shell, junit(), json!([])).await;
    assert_eq!(
        (failed, parsed),
        (vec!["is mine #1".to_owned(), "was old".to_owned(), "a suite > has a leaf".to_owned()], true)
    );
}
