//! Asking a person on the terminal (CLI contract 3, `attended`).

use std::io::{self, BufRead};

use flowcell_engines::harness::flows::capability::CapabilityPattern;
use flowcell_engines::harness::flows::effects::Tier;
use flowcell_engines::harness::journal::Resolution;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::policy::{Variables, exact_rule, pattern};
use crate::render::{Messages, line};

/// What a person answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// An answer, and for how much.
    Answer(Resolution, Option<CapabilityPattern>),
    /// Not now: the run stays suspended.
    Later,
}

/// What to ask, and which answers make sense.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    /// What asks for it, on one line.
    pub(crate) call: Option<String>,
    /// What is asked for.
    pub(crate) capability: &'a str,
    /// How grave it is.
    pub(crate) tier: Tier,
    /// Whether there is a run that an answer can stand for, and a place where it is remembered.
    pub(crate) lasting: bool,
    /// What patterns are spelled with.
    pub(crate) variables: &'a Variables,
    /// Cancelled when the command is interrupted.
    pub(crate) cancel: &'a CancellationToken,
}

/// Asks until there is an answer. The end of input is [`Reply::Later`], and so is an interruption.
///
/// # Errors
/// When standard input cannot be read.
pub(crate) async fn ask(messages: Messages, ask: &Ask<'_>) -> io::Result<Reply> {
    if let Some(call) = &ask.call {
        messages.say(call);
    }
    messages.say(&format!("may it have {} (tier {})?", line(ask.capability), ask.tier));
    let exact = exact_rule(ask.capability).is_some();
    loop {
        messages.say(&choices(ask.lasting, exact));
        let text = tokio::select! {
            text = read_line() => text?,
            () = ask.cancel.cancelled() => None,
        };
        let Some(text) = text else { return Ok(Reply::Later) };
        match parse(&text, ask, exact) {
            Ok(reply) => return Ok(reply),
            Err(why) => messages.say(&why),
        }
    }
}

fn choices(lasting: bool, exact: bool) -> String {
    let lasting = match (lasting, exact) {
        (false, _) => "",
        (true, true) => ", r for the rest of the run, a always (r and a take a PATTERN)",
        (true, false) => ", r PATTERN for the rest of the run, a PATTERN always",
    };
    format!("o once{lasting}, d deny, s suspend:")
}

fn parse(text: &str, ask: &Ask<'_>, exact: bool) -> Result<Reply, String> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let alone = |reply: Reply| {
        if rest.is_empty() { Ok(reply) } else { Err("that answer stands alone".to_owned()) }
    };
    let grant = |resolution: Resolution| {
        if !ask.lasting {
            return Err("nothing is kept here: o, d or s".to_owned());
        }
        if rest.is_empty() {
            return match exact {
                true => Ok(Reply::Answer(resolution, None)),
                false => Err("no pattern is exactly that request: give one".to_owned()),
            };
        }
        Ok(Reply::Answer(resolution, Some(pattern(rest, ask.variables)?)))
    };
    match word.to_ascii_lowercase().as_str() {
        "o" | "once" => alone(Reply::Answer(Resolution::Once, None)),
        "r" | "run" => grant(Resolution::Run),
        "a" | "always" => grant(Resolution::Remembered),
        "d" | "deny" => alone(Reply::Answer(Resolution::Deny, None)),
        "s" | "suspend" => alone(Reply::Later),
        _ => Err(format!("{:?} is none of the answers", line(word))),
    }
}

/// One line of standard input. The thread that reads is not waited for: a command that is interrupted ends without it.
async fn read_line() -> io::Result<Option<String>> {
    let (give, take) = oneshot::channel();
    std::thread::Builder::new().name("ask".into()).spawn(move || {
        let mut text = String::new();
        let read = io::stdin().lock().read_line(&mut text);
        let _ = give.send(read.map(|read| (read > 0).then_some(text)));
    })?;
    take.await.unwrap_or_else(|_| Err(io::Error::other("nobody reads")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_words_and_patterns() {
        let variables = Variables { workspace: "/ws".into(), data: "/ws/.flowcell".into(), home: None };
        let parsed = |text: &str, lasting: bool, exact: bool| {
            let tier = Tier::Compensable;
            let ask = Ask {
                call: None,
                capability: "fs:write:/ws/a",
                tier,
                lasting,
                variables: &variables,
                cancel: &CancellationToken::new(),
            };
            parse(text, &ask, exact)
        };
        let answer = |resolution, pattern: Option<&str>| {
            Ok(Reply::Answer(resolution, pattern.map(|text| CapabilityPattern::parse(text).unwrap())))
        };
        assert_eq!(parsed(" o \n", true, true), answer(Resolution::Once, None));
        assert_eq!(parsed("ALWAYS", true, true), answer(Resolution::Remembered, None));
        assert_eq!(
            parsed("r fs:write:${workspace}/**\n", true, true),
            answer(Resolution::Run, Some("fs:write:/ws/**"))
        );
        assert_eq!(parsed("d", false, false), answer(Resolution::Deny, None));
        assert_eq!(parsed("s", true, true), Ok(Reply::Later));
        for (text, lasting, exact, why) in [
            ("", true, true, "none of the answers"),
            ("yes", true, true, "none of the answers"),
            ("o fs:write:/x", true, true, "stands alone"),
            ("a", false, true, "nothing is kept"),
            ("a", true, false, "give one"),
            ("a nonsense", true, true, "nonsense"),
            ("a fs:write:${hom}/x", true, true, "no variable"),
        ] {
            let refused = parsed(text, lasting, exact).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(choices(true, true).contains("take a PATTERN") && !choices(false, true).contains("always"));
    }
}
