//! `grants check`: what policy says of one request, and which rule says so.

use std::path::PathBuf;
use std::sync::Arc;

use flowcell_engines::harness::flows::capability::{Action, Capability};
use flowcell_engines::harness::flows::rules::Effect;
use flowcell_engines::harness::kernel::{
    FileSystem, FsError, GrantStore, GrantStoreOptions, MemoryPersist, PermissionError,
};

use super::Session;
use crate::args::CheckArgs;
use crate::context::Context;
use crate::errors::{Exit, Failure};
use crate::policy::{Explanation, Policy, explain, meant_action};
use crate::render::{line, shell_word};

pub(super) async fn check(session: &mut Session<'_, '_>, args: &CheckArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let policy = context.policy()?;
    context.warn(&policy);
    let store = context.grant_store(&policy, context.grants().await?, None, None).await?;
    let asked = match (&args.capability, &args.read, &args.write) {
        (Some(text), _, _) => {
            let asked = capability(text)?;
            warn_of_relative(&context, &asked);
            Ok(asked)
        }
        (None, Some(path), _) => path_request(&context, &policy, Action::FsRead, path).await?,
        (None, None, Some(path)) => path_request(&context, &policy, Action::FsWrite, path).await?,
        (None, None, None) => {
            return Err(Failure::usage("usage", "name a capability, --read PATH or --write PATH"));
        }
    };
    let explanation = match asked {
        Ok(capability) => explain(&policy, &store, &capability),
        Err(refused) => refused,
    };
    let rule = match &explanation.rule {
        Some(rule) => format!("\n  rule {} {} from {}", rule.effect, line(&rule.pattern), line(&rule.source)),
        None => String::new(),
    };
    let text = format!(
        "{} {}{rule}\n  why {}\n",
        explanation.effect,
        line(&explanation.capability),
        explanation.why
    );
    session.print(&explanation, &text)?;
    Ok(Exit::Done)
}

/// Paths are absolute, so a relative one is that of no request.
fn warn_of_relative(context: &Context<'_>, asked: &Capability) {
    let flag = match asked.action() {
        Action::FsRead => "--read",
        Action::FsWrite => "--write",
        _ => return,
    };
    if !asked.resource().starts_with('/') {
        context.messages.warn(&format!(
            "a path is absolute, so no request is {}; `flowcell grants check {flag} {}` asks for the path in the \
             workspace",
            line(&asked.to_string()),
            shell_word(asked.resource())
        ));
    }
}

fn capability(text: &str) -> Result<Capability, Failure> {
    Capability::parse(text).ok_or_else(|| {
        let actions: Vec<&str> = Action::ALL.into_iter().map(Action::as_str).collect();
        let meant = meant_action(text).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        Failure::usage("invalid_input", format!("{text:?} is no capability{meant}"))
            .at("CAPABILITY")
            .hint(format!("A capability is one of {}, a colon, and what it is for.", actions.join(", ")))
    })
}

/// The request that an operation on a path makes, or the refusal that comes before any rule.
///
/// The kernel itself names the request: its operation runs under an authority for which everything is a question, and
/// stops at the question, before it acts.
async fn path_request(
    context: &Context<'_>,
    policy: &Policy,
    action: Action,
    path: &str,
) -> Result<Result<Capability, Explanation>, Failure> {
    let root = PathBuf::from(context.workspace.logical());
    let all_asked =
        GrantStore::open(GrantStoreOptions::new(root, Arc::new(MemoryPersist::default())).unattended()).await?;
    let files = context.services(policy, all_asked)?.files;
    let stopped = match action {
        Action::FsWrite => files.replace(path, b"", None, true).await.map(|_| ()),
        _ => files.metadata(path).await.map(|_| ()),
    };
    Ok(match stopped {
        Err(FsError::Permission(PermissionError::Required(required))) => Ok(required.capability),
        Err(FsError::Permission(PermissionError::Denied(denied))) => {
            Err(refused(denied.capability.to_string(), &denied.reason))
        }
        Err(error) => Err(refused(named(&files, action, path), &error.to_string())),
        Ok(()) => {
            return Err(Failure::engine(format!(
                "the kernel did not ask for {}",
                named(&files, action, path)
            )));
        }
    })
}

fn named(files: &FileSystem, action: Action, path: &str) -> String {
    format!("{action}:{}", files.absolute(path))
}

fn refused(capability: String, why: &str) -> Explanation {
    Explanation {
        effect: Effect::Deny,
        capability,
        rule: None,
        why: format!("refused before any rule: {why}"),
    }
}
