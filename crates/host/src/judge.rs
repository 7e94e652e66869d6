//! Whether an exit code speaks of the tree or of the command that was tried on it (host contract 5.3).

use serde_json::json;

use crate::capture;
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::flows::probe::{InvalidProbe, Reason};
use crate::kernel::{Answer, Answers, Ask, AskKind, Evaluator, EvaluatorError, Question};

/// The question's id.
pub const QUESTION: &str = "probe/attribution";
/// The name of the choice.
pub const ATTRIBUTION: &str = "attribution";
/// The name of the boolean.
pub const EXECUTED: &str = "executed";
/// Bytes of output that a judge is shown.
pub const MAX_JUDGED_BYTES: usize = 32_768;
/// The least confidence that counts.
pub const MIN_CONFIDENCE: f64 = 0.7;
/// The option that says the exit code is about the tree.
const TREE: &str = "tree";
const REASONS: [Reason; 5] = [
    Reason::UnknownCommand,
    Reason::UnknownTest,
    Reason::UnknownPath,
    Reason::UnknownModule,
    Reason::UnknownEnvironment,
];

/// What an exit code says about the command. 0 says nothing; 126 and 127 are the shell's own answer; the rest is asked.
///
/// # Errors
/// `provider_unavailable` without a judge, and when it is unreachable, refuses or says nothing; `timeout`;
/// `request_failed` when its answer, or the question, is of no use. No guess takes an answer's place.
pub async fn judge(
    evaluator: Option<&dyn Evaluator>,
    command: &str,
    exit_code: i32,
    output: &str,
) -> Result<Option<InvalidProbe>, StdError> {
    match exit_code {
        0 => return Ok(None),
        126 | 127 => {
            let evidence = format!("the command exited {exit_code}");
            return Ok(Some(probe(Reason::UnknownCommand, evidence)));
        }
        _ => {}
    }
    let Some(evaluator) = evaluator else { return Err(unjudged(EvaluatorError::Unreachable)) };
    let answers = evaluator.evaluate(&question(command, exit_code, output)).await.map_err(unjudged)?;
    read(&answers).map_err(unjudged)
}

/// The question about one run.
#[must_use]
pub fn question(command: &str, exit_code: i32, output: &str) -> Question {
    let options = [TREE].into_iter().chain(REASONS.map(Reason::as_str)).map(str::to_owned).collect();
    Question {
        id: QUESTION.to_owned(),
        state: json!({
            "command": command,
            "exitCode": exit_code,
            "output": capture::end(output, MAX_JUDGED_BYTES),
        }),
        ask: vec![
            Ask {
                name: ATTRIBUTION.to_owned(),
                text: "What does the exit code of this test command describe? Answer tree when it is the code under \
                       test: failing tests, a build that breaks, a crash. Answer unknown-command, unknown-test, \
                       unknown-path, unknown-module or unknown-environment when the command itself asked for something \
                       that is not there."
                    .to_owned(),
                kind: AskKind::Choice { options },
            },
            Ask {
                name: EXECUTED.to_owned(),
                text: "Did at least one test run?".to_owned(),
                kind: AskKind::Boolean,
            },
        ],
    }
}

/// What the answers say; an error when they do not fit the question.
fn read(answers: &Answers) -> Result<Option<InvalidProbe>, EvaluatorError> {
    let executed = match answers.get(EXECUTED) {
        Some(Answer::Boolean { probability, .. }) => is_share(*probability),
        _ => false,
    };
    let Some(Answer::Choice { value, confidence, evidence }) = answers.get(ATTRIBUTION) else {
        return Err(EvaluatorError::InvalidAnswer);
    };
    let reason = REASONS.into_iter().find(|reason| reason.as_str() == value);
    if !executed || !is_share(*confidence) || (reason.is_none() && value != TREE) {
        return Err(EvaluatorError::InvalidAnswer);
    }
    let reason = reason.filter(|_| *confidence >= MIN_CONFIDENCE);
    Ok(reason.map(|reason| probe(reason, evidence.clone().unwrap_or_default())))
}

fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

fn probe(reason: Reason, evidence: String) -> InvalidProbe {
    let what = match reason {
        Reason::UnknownCommand => "the command could not be run",
        Reason::UnknownTest => "the selected test does not exist",
        Reason::UnknownPath => "a path of the command does not exist",
        Reason::UnknownModule => "a module that the command needs does not exist",
        Reason::UnknownEnvironment => "the environment lacks what the command needs",
    };
    let message = format!("The exit code says nothing about the tree: {what} ({}).", reason.as_str());
    InvalidProbe { reason, evidence, message }
}

fn unjudged(error: EvaluatorError) -> StdError {
    let code = match error {
        EvaluatorError::Unreachable | EvaluatorError::Refused | EvaluatorError::Empty => {
            Code::ProviderUnavailable
        }
        EvaluatorError::Timeout => Code::Timeout,
        EvaluatorError::InvalidAnswer | EvaluatorError::InvalidQuestion => Code::RequestFailed,
    };
    StdError::new(code, format!("The run was not judged, its judge answered {error}."))
}
