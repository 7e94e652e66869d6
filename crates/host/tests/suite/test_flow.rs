//! `test`: the rules of host contract 5.3, on stand-ins for runners.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flowcell_host::TestHandler;
use flowcell_host::container::CommandTransport;
use flowcell_host::kernel::flows::error::{Code, StdError};
use flowcell_host::kernel::flows::probe::Reason;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::flows::test::{self, Output};
use flowcell_host::kernel::{
    Answer, Answers, AskKind, Evaluator, EvaluatorError, Handler, HandlerError, PermissionError, Question,
};
use flowcell_host::runner::{Runner, TestRunner};
use serde_json::{Value, json};

use crate::shell::{Shell, gone, processes};
use crate::support::{Result, failure};

/// A judge that answers what it is told to, and keeps what it was asked.
pub(crate) struct Judge {
    answer: std::result::Result<Answers, EvaluatorError>,
    pub(crate) asked: Mutex<Vec<Question>>,
}

impl Judge {
    pub(crate) fn new(value: &str, confidence: f64) -> Arc<Self> {
        let choice =
            Answer::Choice { value: value.to_owned(), confidence, evidence: Some("the proof".to_owned()) };
        let executed = Answer::Boolean { value: true, probability: 0.9, evidence: None };
        let answers = [("attribution".to_owned(), choice), ("executed".to_owned(), executed)];
        Self::saying(Ok(answers.into()))
    }

    /// The exit code is about the tree.
    pub(crate) fn tree() -> Arc<Self> {
        Self::new("tree", 0.95)
    }

    pub(crate) fn saying(answer: std::result::Result<Answers, EvaluatorError>) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }
}

#[async_trait]
impl Evaluator for Judge {
    async fn evaluate(&self, question: &Question) -> std::result::Result<Answers, EvaluatorError> {
        self.asked.lock().unwrap().push(question.clone());
        self.answer.clone()
    }
}

pub(crate) async fn run(shell: &Shell, runner: Runner, judge: Arc<Judge>, input: Value) -> Result<Output> {
    let handler = TestHandler::new(Some(Arc::new(runner))).with_processes(processes()).with_evaluator(judge);
    shell.call(handler, test::decl(), input).await
}

/// A workspace whose runner is a script.
fn scripted(script: &str) -> (Shell, Runner) {
    let shell = Shell::new();
    shell.place.put("run.sh", format!("#!/bin/bash\n{script}"));
    shell.place.chmod("run.sh", 0o755);
    (shell, Runner::new("./run.sh"))
}

#[tokio::test]
async fn without_a_runner_nothing_starts() {
    let shell = Shell::new();
    let error = failure(shell.call(TestHandler::default(), test::decl(), json!({})).await);
    assert_eq!(error.code, Code::ProviderUnavailable);
    struct None;
    impl TestRunner for None {
        fn declared(&self) -> std::result::Result<Runner, StdError> {
            Err(StdError::new(Code::ProviderUnavailable, "nobody declared one"))
        }
    }
    let error = failure(
        shell
            .call(TestHandler::new(Some(Arc::new(None))).with_processes(processes()), test::decl(), json!({}))
            .await,
    );
    assert_eq!((error.code, error.message.as_str()), (Code::ProviderUnavailable, "nobody declared one"));
}

#[tokio::test]
async fn a_run_is_read() {
    let (shell, runner) = scripted(
        "printf '%s|' \"$#\" \"$@\" >args; echo 'FAILED a.py::t - x'; echo '1 failed, 41 passed in 1.2s'; exit 1",
    );
    let runner = Runner { env: [("TOKEN".to_owned(), "hidden".to_owned())].into(), ..runner };
    let out = run(&shell, runner, Judge::tree(), json!({"selection": ["a.py::t[x y]", "$(id)", "-k"]}))
        .await
        .unwrap();
    assert_eq!(shell.place.text("args"), "3|a.py::t[x y]|$(id)|-k|");
    let outcome = &out.outcome;
    assert_eq!((outcome.exit_code, outcome.passed, outcome.parsed), (1, 41, true));
    assert_eq!(outcome.failed, ["a.py::t"]);
    assert_eq!(outcome.command, "bash -lc ./run.sh \"$@\" ./run.sh a.py::t[x y] $(id) -k");
    assert_eq!(outcome.tail, "FAILED a.py::t - x\n1 failed, 41 passed in 1.2s\n");
    assert!(!outcome.tail_truncated && outcome.tail_dropped_bytes == 0 && outcome.invalid_probe.is_none());
    let json = serde_json::to_value(&out).unwrap();
    for absent in ["base", "introduced", "preexisting", "fixed", "invalidProbe"] {
        assert!(json.get(absent).is_none(), "{absent}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_left_as_its_tail() {
    let (shell, runner) = scripted("echo 'Segmentation fault' >&2; exit 139");
    let out = run(&shell, runner, Judge::tree(), json!({"against": "workspace"})).await.unwrap().outcome;
    assert_eq!((out.exit_code, out.passed, out.parsed, out.failed.len()), (139, 0, false, 0));
    assert_eq!(out.tail, "Segmentation fault\n");
    let (shell, runner) = scripted("echo out; echo err >&2");
    let out = run(&shell, runner, Judge::tree(), json!({})).await.unwrap().outcome;
    assert_eq!(out.tail, "out\n\nerr\n");
}

#[tokio::test]
async fn the_tail_is_the_end_of_what_both_streams_say() {
    // 29,999 digits, a two-byte character over the cut, 29,999 digits more.
    let (shell, runner) = scripted("printf '%029999d' 0; printf 'é'; printf '%029999d' 0");
    let out = run(&shell, runner, Judge::tree(), json!({})).await.unwrap().outcome;
    assert_eq!((out.tail.len(), out.tail_dropped_bytes, out.tail_truncated), (29_999, 30_001, true));
    let (shell, runner) = scripted("printf '%030000d' 0");
    let out = run(&shell, runner, Judge::tree(), json!({})).await.unwrap().outcome;
    assert_eq!((out.tail.len(), out.tail_dropped_bytes, out.tail_truncated), (30_000, 0, false));
    // What the capture lost counts too, and the report at the end is read.
    let (shell, runner) =
        scripted("head -c 8000100 /dev/zero | tr '\\0' x; echo; echo '3 passed in 1s'; echo e >&2");
    let out = run(&shell, runner, Judge::tree(), json!({})).await.unwrap().outcome;
    let printed = 8_000_100 + 1 + 15 + 2;
    assert_eq!(out.tail_dropped_bytes, printed + 1 - 30_000, "one more byte is between the streams");
    assert!(out.parsed && out.passed == 3);
}

#[tokio::test]
async fn timeouts_of_a_run() {
    let (shell, runner) = scripted("trap '' TERM; echo begun; sleep 60.61");
    let start = Instant::now();
    let declared = Runner { timeout_ms: Some(60_000.0), ..runner.clone() };
    let error = failure(run(&shell, declared, Judge::tree(), json!({"timeoutMs": 200})).await);
    assert!(start.elapsed() < Duration::from_millis(2_700));
    assert_eq!(error.code, Code::Timeout);
    assert!(
        error.message.contains("200 milliseconds") && error.message.ends_with("begun\n"),
        "{}",
        error.message
    );
    let declared = Runner { timeout_ms: Some(150.0), ..runner.clone() };
    let error = failure(run(&shell, declared, Judge::tree(), json!({})).await);
    assert!(error.message.contains("150 milliseconds"), "{}", error.message);
    assert!(gone("sleep 60.61"));
    let error = failure(run(&shell, runner, Judge::tree(), json!({"timeoutMs": 0})).await);
    assert_eq!(error.code, Code::InvalidInput);
    assert_eq!(test::DEFAULT_TIMEOUT_MS, 600_000);
}

#[tokio::test]
async fn the_judge_is_asked_about_what_the_call_returns() {
    let (shell, runner) = scripted("head -c 31000 /dev/zero | tr '\\0' '\\377'; exit 4");
    let judge = Judge::new("unknown-test", 0.7);
    let out = run(&shell, runner, Arc::clone(&judge), json!({"selection": ["nope"]})).await.unwrap().outcome;
    let probe = out.invalid_probe.unwrap();
    assert_eq!((probe.reason, probe.evidence.as_str()), (Reason::UnknownTest, "the proof"));
    assert!(probe.message.contains("unknown-test"), "{}", probe.message);
    let asked = judge.asked.lock().unwrap();
    let [question] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(question.id, "probe/attribution");
    assert_eq!(question.state["command"], out.command);
    assert_eq!(question.state["exitCode"], 4);
    // 30,000 bytes that are no text are 90,000 of U+FFFD, of which the judge is shown the last.
    assert_eq!(out.tail.len(), 90_000);
    let shown = question.state["output"].as_str().unwrap();
    assert!(shown.len() <= 32_768 && shown.len() > 32_764 && out.tail.ends_with(shown), "{}", shown.len());
    let names: Vec<&str> = question.ask.iter().map(|ask| ask.name.as_str()).collect();
    assert_eq!(names, ["attribution", "executed"]);
    let options =
        ["tree", "unknown-command", "unknown-test", "unknown-path", "unknown-module", "unknown-environment"];
    assert_eq!(question.ask[0].kind, AskKind::Choice { options: options.map(str::to_owned).to_vec() });
    assert_eq!(question.ask[1].kind, AskKind::Boolean);
}

#[tokio::test]
async fn what_an_answer_does() {
    let (shell, runner) = scripted("exit 1");
    for (value, confidence, expected) in [
        ("tree", 0.99, None),
        ("unknown-command", 0.69, None),
        ("unknown-command", 0.7, Some(Reason::UnknownCommand)),
        ("unknown-path", 1.0, Some(Reason::UnknownPath)),
        ("unknown-module", 0.8, Some(Reason::UnknownModule)),
        ("unknown-environment", 0.8, Some(Reason::UnknownEnvironment)),
    ] {
        let out = run(&shell, runner.clone(), Judge::new(value, confidence), json!({})).await.unwrap();
        assert_eq!(out.outcome.invalid_probe.map(|probe| probe.reason), expected, "{value} {confidence}");
    }
    for judge in [
        Judge::new("something", 0.9),
        Judge::new("tree", 1.5),
        Judge::new("tree", f64::NAN),
        Judge::saying(Ok(Answers::new())),
        Judge::saying(Ok([(
            "attribution".to_owned(),
            Answer::Boolean { value: true, probability: 1.0, evidence: None },
        )]
        .into())),
    ] {
        let error = failure(run(&shell, runner.clone(), judge, json!({})).await);
        assert_eq!(error.code, Code::RequestFailed, "{error:?}");
    }
    for (error, code) in [
        (EvaluatorError::Unreachable, Code::ProviderUnavailable),
        (EvaluatorError::Refused, Code::ProviderUnavailable),
        (EvaluatorError::Empty, Code::ProviderUnavailable),
        (EvaluatorError::Timeout, Code::Timeout),
        (EvaluatorError::InvalidAnswer, Code::RequestFailed),
        (EvaluatorError::InvalidQuestion, Code::RequestFailed),
    ] {
        let answer = failure(run(&shell, runner.clone(), Judge::saying(Err(error)), json!({})).await);
        assert_eq!(answer.code, code, "{error}");
    }
    let unjudged = shell
        .call(TestHandler::new(Some(Arc::new(runner))).with_processes(processes()), test::decl(), json!({}))
        .await;
    assert_eq!(failure(unjudged).code, Code::ProviderUnavailable);
}

/// A report that names its failures and its end says itself that the command ran: a host without a judge answers it.
#[tokio::test]
async fn a_run_that_shows_what_failed_needs_no_judge() {
    let shell = Shell::new();
    let handler =
        |command: &str| TestHandler::new(Some(Arc::new(Runner::new(command)))).with_processes(processes());
    let shown = "printf 'ok 1 - a\nnot ok 2 - b\n1..2\n'; exit 1";
    let output: Output =
        shell.call(handler(&format!("f() {{ {shown}; }}; f")), test::decl(), json!({})).await.unwrap();
    let output = serde_json::to_value(&output).unwrap();
    assert_eq!(output["exitCode"], json!(1));
    assert_eq!((&output["failed"], &output["parsed"]), (&json!(["b"]), &json!(true)));
    assert!(output.get("invalidProbe").is_none());
    // Cut short, it proves nothing.
    let cut = "printf 'ok 1 - a\nnot ok 2 - b\n'; exit 1";
    let unjudged = shell.call(handler(&format!("f() {{ {cut}; }}; f")), test::decl(), json!({})).await;
    assert_eq!(failure(unjudged).code, Code::ProviderUnavailable);
}

#[tokio::test]
async fn what_the_judge_is_not_asked() {
    for (code, evidence) in
        [(0, None), (126, Some("the command exited 126")), (127, Some("the command exited 127"))]
    {
        let (shell, runner) = scripted(&format!("exit {code}"));
        let judge = Judge::saying(Err(EvaluatorError::Refused));
        let out = run(&shell, runner, Arc::clone(&judge), json!({})).await.unwrap().outcome;
        assert_eq!(out.exit_code, code);
        let probe = out.invalid_probe.map(|probe| (probe.reason, probe.evidence));
        assert_eq!(probe, evidence.map(|text| (Reason::UnknownCommand, text.to_owned())));
        assert!(judge.asked.lock().unwrap().is_empty());
    }
    let shell = Shell::new();
    let out =
        run(&shell, Runner::new("no-such-runner-here"), Judge::tree(), json!({})).await.unwrap().outcome;
    assert_eq!((out.exit_code, out.invalid_probe.unwrap().reason), (127, Reason::UnknownCommand));
}

#[tokio::test]
async fn permissions_of_a_run() {
    let shell = Shell::with_rules(&[(Effect::Deny, "proc:spawn:rm *")]);
    let error = failure(run(&shell, Runner::new("rm -rf x"), Judge::tree(), json!({})).await);
    assert!(error.code == Code::CommandFailed && error.message.contains("denied by policy"), "{error:?}");
    match run(&shell, Runner::new("make"), Judge::tree(), json!({"selection": ["a b"]})).await {
        Err(HandlerError::Permission(PermissionError::Required(required))) => {
            assert_eq!(required.capability.resource(), r#"bash -lc 'make "$@"' make 'a b'"#);
        }
        other => panic!("{other:?}"),
    }
    let runner = Runner { cwd: Some("none".to_owned()), ..Runner::new("rm") };
    assert_eq!(failure(run(&Shell::new(), runner, Judge::tree(), json!({})).await).code, Code::CommandFailed);
}

#[tokio::test]
async fn a_junit_file_is_read_when_the_run_wrote_it() {
    const XML: &str = r#"<testsuite tests="2" failures="1"><testcase classname="c" name="a"/><testcase classname="c" name="b"><failure/></testcase></testsuite>"#;
    let (shell, runner) = scripted("[ -n \"$1\" ] && cat in.xml >report.xml; echo '5 passed in 1s'; exit 1");
    shell.place.put("in.xml", XML);
    let runner = Runner { report: Some("report.xml".to_owned()), ..runner };
    let short = async |input: Value| {
        let out = run(&shell, runner.clone(), Judge::tree(), input).await.unwrap().outcome;
        (out.passed, out.failed.join(" "), out.parsed)
    };
    assert_eq!(short(json!({"selection": ["x"]})).await, (1, "c.b".to_owned(), true));
    // The file is still there, and is not this run's.
    assert_eq!(short(json!({})).await, (5, String::new(), true));
    shell.place.put("in.xml", XML.replace("\"a\"", "\"z\""));
    assert_eq!(short(json!({"selection": ["x"]})).await, (1, "c.b".to_owned(), true));
    shell.place.put("in.xml", "not xml");
    assert_eq!(short(json!({"selection": ["x"]})).await, (5, String::new(), true));
}

#[tokio::test]
async fn a_runner_in_a_container() {
    let (mut shell, runner) = scripted("pwd; echo \"$A\"; echo '3 passed'");
    shell.program("docker", "#!/bin/bash\nprintf '%s\\n' \"$@\" >\"$(dirname \"$0\")/../.log\"\nwhile [ \"$1\" != -- ]; do [ \"$1\" = -w ] && cd \"$2\"; shift; done; shift 2; exec \"$@\"\n");
    let cwd = shell.root();
    let runner = Runner {
        container: Some("box".to_owned()),
        cwd: Some(cwd.clone()),
        env: [("A".to_owned(), "1".to_owned())].into(),
        ..runner
    };
    let error = failure(run(&shell, runner.clone(), Judge::tree(), json!({})).await);
    assert_eq!(error.code, Code::ProviderUnavailable);
    let handler = TestHandler::new(Some(Arc::new(runner)))
        .with_processes(processes())
        .with_container(Arc::new(CommandTransport::docker()));
    let out = shell.call(handler, test::decl(), json!({"selection": ["x"]})).await.unwrap().outcome;
    assert_eq!((out.passed, out.tail), (3, format!("{cwd}\n1\n3 passed\n")));
    assert_eq!(out.command, "bash -lc ./run.sh \"$@\" ./run.sh x");
    let words = shell.place.text(".log").replace("-e\nFLOWCELL_CALL\n", "");
    assert_eq!(words, format!("exec\n-w\n{cwd}\n-e\nA\n--\nbox\nbash\n-lc\n./run.sh \"$@\"\n./run.sh\nx\n"));
}

#[tokio::test]
async fn a_cancelled_run_leaves_nothing_running() {
    let (shell, runner) = scripted("sleep 60.62");
    let cx = shell.context(&test::decl()).await;
    let cancel = cx.cancel.clone();
    let handler = TestHandler::new(Some(Arc::new(runner))).with_processes(processes());
    let (result, ()) = tokio::join!(handler.run(&cx, test::Input::default()), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(HandlerError::Cancelled)), "{result:?}");
    assert!(gone("sleep 60.62"));
}
