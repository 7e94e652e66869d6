//! Mock flows: bindings from a JSON document, for testing cells without their world (CLI contract 4).
//!
//! A mock is a real binding: it is journaled, gated and replayed like any other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::flows::capability::Capability;
use crate::kernel::{Meta, PermissionError};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::binding::{Binding, Body, BodyError, Invocation};
use crate::error::HarnessError;
use crate::flows::canonical;
use crate::flows::descriptor::Declared;
use crate::flows::effects::{Effects, Tier};
use crate::flows::error::{Code, StdError};
use crate::flows::schema::SchemaDoc;

/// The longest `delay_ms`: an hour.
pub const MAX_DELAY_MS: u64 = 3_600_000;

/// A document of mocks that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mock {flow:?}: {message}")]
pub struct MockError {
    /// The flow whose mock is at fault; empty for the document.
    pub flow: String,
    /// What is wrong.
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    tier: Option<Tier>,
    input: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    returns: Option<Value>,
    fails: Option<String>,
    code: Option<Code>,
    #[serde(default)]
    ident: bool,
    counter: Option<PathBuf>,
    delay_ms: Option<u64>,
    #[serde(default)]
    never: bool,
    permission: Option<String>,
    #[serde(default)]
    engine_error: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The bindings of a document of mocks, sorted by name.
///
/// # Errors
/// [`MockError`] for a document that is no object of mocks, for an unknown member, a capability that does not parse,
/// more than one answer (`returns`, `fails`, `ident`, `never`, `permission`, `engine_error`), an empty name, or a delay
/// over [`MAX_DELAY_MS`]. A `counter` goes with any of them: it counts, and is the answer where there is no other.
pub fn mocks(document: &Value) -> Result<Vec<Binding>, MockError> {
    let Value::Object(flows) = document else {
        return Err(MockError { flow: String::new(), message: "the document is not a JSON object".into() });
    };
    flows.iter().map(|(name, spec)| mock(name, spec)).collect()
}

fn mock(name: &str, spec: &Value) -> Result<Binding, MockError> {
    let wrong = |message: String| MockError { flow: name.to_owned(), message };
    if name.is_empty() {
        return Err(wrong("a flow has a name".into()));
    }
    let source = canonical::to_string(spec).map_err(|error| wrong(error.to_string()))?;
    let spec = Spec::deserialize(spec).map_err(|error| wrong(error.to_string()))?;
    let answers = [
        spec.returns.is_some(),
        spec.fails.is_some(),
        spec.ident,
        spec.never,
        spec.permission.is_some(),
        spec.engine_error,
    ];
    if answers.iter().filter(|&&given| given).count() > 1 {
        return Err(wrong("it has more than one answer".into()));
    }
    if spec.code.is_some() && spec.fails.is_none() {
        return Err(wrong("`code` goes with `fails`".into()));
    }
    if spec.delay_ms.is_some_and(|delay| delay > MAX_DELAY_MS) {
        return Err(wrong(format!("`delay_ms` is over {MAX_DELAY_MS}")));
    }
    let permission = match &spec.permission {
        None => None,
        Some(text) => {
            Some(Capability::parse(text).ok_or_else(|| wrong(format!("{text:?} is not a capability")))?)
        }
    };
    let capabilities = permission.iter().map(ToString::to_string).collect();
    let mut effects = Effects::undeclared();
    effects.tier = spec.tier.unwrap_or(effects.tier);
    let input = SchemaDoc::from_document(spec.input.clone().unwrap_or_else(|| Value::Object(Map::new())));
    let declared = Declared {
        name: name.to_owned(),
        description: "Answer as the mock file says.".to_owned(),
        input: input.clone(),
        output: SchemaDoc::from_document(Value::Object(Map::new())),
        effects,
        capabilities,
        flows: Vec::new(),
        model: None,
    };
    let disclosed = spec.code.is_some();
    let body = Mock { input, spec, permission };
    let binding = Binding::of_body(declared, source.as_bytes(), Arc::new(body));
    Ok(if disclosed { binding.with_authored_errors() } else { binding })
}

struct Mock {
    input: SchemaDoc,
    spec: Spec,
    permission: Option<Capability>,
}

#[async_trait]
impl Body for Mock {
    async fn answer(&self, invocation: Invocation<'_>, input: Value) -> Result<Value, BodyError> {
        let input = crate::flows::decode::decode::<Value>(&self.input, &input).map_err(BodyError::Input)?;
        let spec = &self.spec;
        if let Some(capability) = &self.permission {
            match invocation.context.authority.check(capability.clone(), Meta::new()).await {
                Ok(()) => {}
                Err(PermissionError::Denied(denied)) => return Err(BodyError::Refused(denied.to_string())),
                Err(error) => return Err(BodyError::Permission(error)),
            }
        }
        let counted = match &spec.counter {
            Some(file) => Some(count(file).map_err(BodyError::Harness)?),
            None => None,
        };
        if let Some(delay) = spec.delay_ms {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if spec.never {
            std::future::pending::<()>().await;
        }
        if spec.engine_error {
            return Err(BodyError::Harness(HarnessError::engine("the mock fails in the engine channel")));
        }
        if let Some(message) = &spec.fails {
            let code = spec.code.unwrap_or(Code::CommandFailed);
            return Err(BodyError::Flow(StdError::new(code, message.clone())));
        }
        if self.permission.is_some() {
            return Ok(json!({ "granted": true }));
        }
        if spec.ident {
            return Ok(input);
        }
        Ok(match (&spec.returns, counted) {
            (Some(value), _) => value.clone(),
            (None, Some(n)) => json!({ "n": n }),
            (None, None) => Value::Null,
        })
    }
}

/// Adds one to the integer in a file, which is made with 0. The new number is written over the old one at once: a
/// process that is killed leaves the one or the other, and two processes count both.
fn count(file: &std::path::Path) -> Result<u64, HarnessError> {
    use std::io::{Read, Seek, Write};
    let failed = |what: String| HarnessError::engine(format!("the counter {} {what}", file.display()));
    let unwritten = |error: std::io::Error| failed(format!("cannot be written: {error}"));
    let mut open = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(file)
        .map_err(unwritten)?;
    open.lock().map_err(unwritten)?;
    let mut text = String::new();
    open.read_to_string(&mut text).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let n = match text.trim() {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| failed("holds no integer".into()))?,
    };
    let next = n.checked_add(1).ok_or_else(|| failed("is full".into()))?;
    let written = next.to_string();
    open.rewind().and_then(|()| open.write_all(written.as_bytes())).map_err(unwritten)?;
    if text.len() > written.len() {
        open.set_len(written.len() as u64).map_err(unwritten)?;
    }
    Ok(next)
}
