//! `grants`: what is remembered, and what policy says of one request and which rule says so.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use flowcell_engines::harness::flows::capability::{Action, Capability};
use flowcell_engines::harness::flows::rules::Effect;
use flowcell_engines::harness::kernel::net::accept;
use flowcell_engines::harness::kernel::process::Command;
use flowcell_engines::harness::kernel::{
    FileSystem, FsError, GrantStore, GrantStoreCode, GrantStoreOptions, MemoryPersist, POLICY_RUN,
    PermissionError, Source,
};
use serde::Serialize;
use serde_json::json;

use super::Session;
use crate::args::CheckArgs;
use crate::context::Context;
use crate::errors::{Exit, Failure};
use crate::policy::{Explanation, Policy, explain, explain_command, meant_action};
use crate::render::{line, shell_word};

/// A remembered grant, as `grants list` shows it.
#[derive(Debug, Serialize)]
struct Listed {
    /// What takes it back.
    id: u64,
    /// Always `allow`: what is remembered allows.
    effect: Effect,
    pattern: String,
    /// When it was given, in milliseconds since 1970.
    at_ms: i64,
}

pub(super) async fn list(session: &mut Session<'_, '_>) -> Result<Exit, Failure> {
    let context = session.context()?;
    let listed = remembered(&context).await?;
    let text = match listed.is_empty() {
        true => "nothing is remembered\n".to_owned(),
        false => listed
            .iter()
            .map(|grant| format!("{} {} {}\n", grant.id, grant.effect, line(&grant.pattern)))
            .collect(),
    };
    session.print(&listed, &text)?;
    Ok(Exit::Done)
}

/// The remembered grants that stand, oldest first.
async fn remembered(context: &Context<'_>) -> Result<Vec<Listed>, Failure> {
    let policy = context.policy()?;
    let journal = context.grants().await?;
    let given: HashMap<u64, i64> = context
        .pinned(Arc::clone(&journal))?
        .given(POLICY_RUN)
        .await
        .map_err(|error| Failure::engine(error.message))?
        .into_iter()
        .map(|(event, at)| (event.seq, at))
        .collect();
    let store = context.grant_store(&policy, journal, None, None, false).await?;
    let listed = store.rules().into_iter().filter_map(|(rule, source)| {
        let Source::Remembered { seq: Some(id) } = source else { return None };
        let at_ms = given.get(&id).copied()?;
        Some(Listed { id, effect: rule.effect, pattern: rule.pattern.to_string(), at_ms })
    });
    Ok(listed.collect())
}

pub(super) async fn revoke(session: &mut Session<'_, '_>, id: u64) -> Result<Exit, Failure> {
    let context = session.context()?;
    let unknown = || {
        Failure::usage("not_found", format!("no remembered grant has the id {id}"))
            .hint("`flowcell grants list` shows them.")
    };
    let listed = remembered(&context).await?;
    let patterns: Vec<String> =
        listed.into_iter().filter(|grant| grant.id == id).map(|grant| grant.pattern).collect();
    if patterns.is_empty() {
        return Err(unknown());
    }
    let policy = context.policy()?;
    let journal = context.grants().await?;
    let store = context.grant_store(&policy, Arc::clone(&journal), None, None, false).await?;
    store.revoke(id).await.map_err(|error| match error.code {
        GrantStoreCode::RequestNotFound => unknown(),
        _ => Failure::from(error),
    })?;
    let pinned = context.pinned(journal)?;
    pinned.unpin(POLICY_RUN, id).map_err(|error| Failure::engine(error.message))?;
    let text: String =
        patterns.iter().map(|pattern| format!("{id} allow {} is taken back\n", line(pattern))).collect();
    session.print(&json!({"id": id, "revoked": patterns}), &text)?;
    Ok(Exit::Done)
}

pub(super) async fn check(session: &mut Session<'_, '_>, args: &CheckArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let policy = context.policy()?;
    context.warn(&policy);
    let store = context.grant_store(&policy, context.grants().await?, None, None, false).await?;
    let explanation = match asked(&context, &policy, args).await? {
        Asked::Capabilities(all) => all
            .iter()
            .map(|capability| explain(&policy, &store, capability))
            .reduce(stricter)
            .ok_or_else(|| Failure::engine("nothing was asked"))?,
        Asked::Command(command) => explain_command(&policy, &store, &command),
        Asked::Refused(refused) => refused,
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

/// What is asked of policy.
enum Asked {
    /// All of these.
    Capabilities(Vec<Capability>),
    /// A command, which is judged by its parts too.
    Command(Command),
    /// Something that is refused before any rule.
    Refused(Explanation),
}

async fn asked(context: &Context<'_>, policy: &Policy, args: &CheckArgs) -> Result<Asked, Failure> {
    if let Some(text) = &args.capability {
        let asked = capability(text)?;
        warn_of_relative(context, &asked);
        return Ok(Asked::Capabilities(vec![asked]));
    }
    if let Some(line) = &args.command {
        return Ok(Asked::Command(Command::Line { line: line.clone(), shell: None }));
    }
    if let Some(words) = &args.argv {
        return Ok(Asked::Command(Command::Argv(words.clone())));
    }
    for (operation, path) in
        [(Path::Read, &args.read), (Path::Write, &args.write), (Path::Remove, &args.remove)]
    {
        if let Some(path) = path {
            return path_request(context, policy, operation, path).await;
        }
    }
    for (action, url) in [(Action::NetGet, &args.get), (Action::NetPost, &args.post)] {
        if let Some(url) = url {
            return Ok(url_request(action, url));
        }
    }
    Err(Failure::usage("usage", "name a capability, a command, a path or a URL"))
}

/// Of two answers to one request the one that stands: deny before ask before allow.
fn stricter(first: Explanation, second: Explanation) -> Explanation {
    let rank = |effect| match effect {
        Effect::Deny => 2,
        Effect::Ask => 1,
        Effect::Allow => 0,
    };
    if rank(second.effect) > rank(first.effect) { second } else { first }
}

/// What a request to a URL asks: its origin, and `net:private` where that is known without resolving a name.
fn url_request(action: Action, url: &str) -> Asked {
    match accept(url) {
        Ok(origin) if origin.is_local() => {
            Asked::Capabilities(vec![origin.capability(action), origin.private()])
        }
        Ok(origin) => Asked::Capabilities(vec![origin.capability(action)]),
        Err(why) => Asked::Refused(refused(format!("{action}:{}", without_user(url)), &why.to_string())),
    }
}

/// A URL's text without what stands before its last `@`, which may be a password, its scheme excepted.
fn without_user(url: &str) -> String {
    let Some(end) = url.rfind('@') else { return url.to_owned() };
    let scheme = url[..end].split_once(':').map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
    format!("{}***{}", scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default(), &url[end..])
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

/// An operation on a path.
#[derive(Clone, Copy)]
enum Path {
    Read,
    Write,
    Remove,
}

/// The request that an operation on a path makes, or the refusal that comes before any rule.
///
/// The kernel itself names the request: its operation runs under an authority for which everything is a question, and
/// stops at the question, before it acts.
async fn path_request(
    context: &Context<'_>,
    policy: &Policy,
    operation: Path,
    path: &str,
) -> Result<Asked, Failure> {
    let root = PathBuf::from(context.workspace.logical());
    let options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::default())).unattended();
    let files = context.services(policy, GrantStore::open(options).await?)?.files;
    let (action, stopped) = match operation {
        Path::Read => (Action::FsRead, files.metadata(path).await.map(|_| ())),
        Path::Write => (Action::FsWrite, files.replace(path, b"", None, true).await.map(|_| ())),
        Path::Remove => (Action::FsWrite, files.remove(path).await),
    };
    Ok(match stopped {
        Err(FsError::Permission(PermissionError::Required(required))) => {
            Asked::Capabilities(vec![required.capability])
        }
        Err(FsError::Permission(PermissionError::Denied(denied))) => {
            Asked::Refused(refused(denied.capability.to_string(), &denied.reason))
        }
        Err(error) => Asked::Refused(refused(named(&files, action, path), &error.to_string())),
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
