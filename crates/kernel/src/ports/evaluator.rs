//! Questions to a judge.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A set of questions about one state (kernel contract 6.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Names the question's purpose, `probe/attribution` for one.
    pub id: String,
    /// What the questions are about: any JSON.
    pub state: Value,
    /// The questions, answered together.
    pub ask: Vec<Ask>,
}

/// One question of a [`Question`]. On the wire the kind's own members stand beside `name` and `text`:
/// `{"name": .., "text": .., "kind": "choice", "options": [..]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The key of its answer.
    pub name: String,
    /// The question in words.
    pub text: String,
    /// What kind of answer it wants.
    #[serde(flatten)]
    pub kind: AskKind,
}

/// The kind of answer that a question wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum AskKind {
    /// Yes or no.
    Boolean,
    /// One of the options.
    Choice {
        /// The options; an answer is one of these texts.
        options: Vec<String>,
    },
    /// A number of a closed range.
    Score {
        /// The least score.
        min: f64,
        /// The greatest score.
        max: f64,
    },
}

/// One answer. Probability and confidence are numbers of `0..=1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// To a boolean question.
    Boolean {
        /// The answer.
        value: bool,
        /// How probable `true` is.
        probability: f64,
        /// What the judge went by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
    },
    /// To a score question.
    Score {
        /// The score.
        value: f64,
        /// How sure the judge is.
        confidence: f64,
        /// What the judge went by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
    },
    /// To a choice question.
    Choice {
        /// The chosen option.
        value: String,
        /// How sure the judge is.
        confidence: f64,
        /// What the judge went by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
    },
}

/// Answers by the name of their question.
pub type Answers = BTreeMap<String, Answer>;

/// Why a judge gave no answers. The text is the code of kernel contract 6.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum EvaluatorError {
    /// No connection to the judge.
    #[error("unreachable")]
    Unreachable,
    /// The judge declined.
    #[error("refused")]
    Refused,
    /// An answer with nothing in it.
    #[error("empty")]
    Empty,
    /// No answer in time.
    #[error("timeout")]
    Timeout,
    /// An answer that does not fit the question.
    #[error("invalid_answer")]
    InvalidAnswer,
    /// A question that cannot be asked.
    #[error("invalid_question")]
    InvalidQuestion,
}

/// Answers questions about a state (kernel contract 6.4).
#[async_trait]
pub trait Evaluator: Send + Sync {
    /// Answers every question of the set, or fails as a whole.
    async fn evaluate(&self, question: &Question) -> Result<Answers, EvaluatorError>;
}
