//! Ports: what a host gives the kernel and the handlers instead of the process environment.

mod clock;
mod credentials;
mod entropy;
mod evaluator;

pub use clock::{Clock, SystemClock};
pub use credentials::{Credentials, CredentialsError, Secret};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use evaluator::{Answer, Answers, Ask, AskKind, Evaluator, EvaluatorError, Question};
