//! A run's progress on standard error, and its end in words.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use flowcell_engines::harness::error::SuspendCode;
use flowcell_engines::harness::exec::{Event, Observer};
use flowcell_engines::harness::realm::BindingReading;
use flowcell_engines::harness::report::{CallReport, FrameOutcome, FrameReport, ReportStatus, RunReport};

use serde_json::Value;

use crate::context::Context;
use crate::policy::exact_rule;
use crate::render::{Messages, count, line, plain, shell_word, short, value};

/// Shows a run while it runs: what its cells print, and with a terminal or `-v` its frames and calls.
#[derive(Debug)]
pub struct Progress {
    messages: Messages,
    prints: bool,
    /// Where the cells of the frames that ran come from, in order.
    names: Mutex<Vec<String>>,
    /// How many frames have been shown to their end.
    shown: AtomicU64,
}

impl Progress {
    /// Progress as the flags want it, with what the cells print.
    pub fn new(messages: Messages) -> Self {
        Self { messages, prints: true, names: Mutex::default(), shown: AtomicU64::new(0) }
    }

    /// Progress without what the cells print, which was shown when they ran.
    pub fn of_replay(messages: Messages) -> Self {
        Self { prints: messages.progress, ..Self::new(messages) }
    }

    /// The run is taken up again in this process: its frames open once more, and what was shown is not shown again.
    pub fn again(&self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn is_new(&self, frame: u64) -> bool {
        frame >= self.shown.load(Ordering::Relaxed)
    }

    /// Where the cell of a frame comes from, when the frame ran in this process.
    pub fn name(&self, frame: u64) -> Option<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(usize::try_from(frame).ok()?).cloned()
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::FrameOpened { frame, name } => {
                self.names.lock().unwrap_or_else(PoisonError::into_inner).push((*name).to_owned());
                if self.is_new(*frame) {
                    self.messages.progress(&format!("frame {frame}: {}", line(name)));
                }
            }
            Event::CallStarted { frame, ordinal, flow } => {
                if self.is_new(*frame) {
                    self.messages.progress(&format!("  call {ordinal}: {} …", line(flow)));
                }
            }
            Event::CallSettled { frame, call } => {
                if self.is_new(*frame) {
                    self.messages.progress(&format!("  {}", call_line(call)));
                }
            }
            Event::FrameClosed { frame } => {
                if !self.is_new(frame.frame) {
                    return;
                }
                self.shown.store(frame.frame.saturating_add(1), Ordering::Relaxed);
                if self.prints {
                    print(self.messages, &frame.prints);
                }
                self.messages.progress(&format!("  {}", outcome_line(frame)));
            }
        }
    }
}

/// What a cell printed, on standard error.
pub fn print(messages: Messages, prints: &str) {
    for printed in prints.lines() {
        messages.note(&format!("  | {printed}"));
    }
}

/// A frame that raised or was rejected, in words: `frame 0 (a.js): raised: TypeError: no`.
pub fn failed_frame(frame: &FrameReport, name: Option<&str>) -> Option<String> {
    let message = frame.message.as_deref().unwrap_or_default();
    let how = match frame.outcome? {
        FrameOutcome::Settled => return None,
        FrameOutcome::Raised => match frame.name.as_deref() {
            Some(name) if !name.is_empty() => format!("raised: {}: {}", line(name), short(message, 400)),
            _ => format!("raised: {}", short(message, 400)),
        },
        FrameOutcome::Rejected => {
            format!("rejected: {}: {}", line(frame.code.as_deref().unwrap_or_default()), plain(message))
        }
    };
    Some(format!("{}: {how}", frame_label(frame, name)))
}

/// A frame and where its cell comes from: `frame 0 (a.js)`.
pub fn frame_label(frame: &FrameReport, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("frame {} ({})", frame.frame, short(name, 200)),
        None => format!("frame {}", frame.frame),
    }
}

/// The call that waits, on one line: what is approved when its permission is.
pub fn parked_line(report: &RunReport) -> Option<String> {
    let parked = report.parked.as_ref()?;
    let waits = match report.suspended.as_ref().and_then(|suspended| suspended.request.as_ref()) {
        Some(request) => format!("waits for {} ({})", line(&request.capability), line(&request.request_id)),
        None => "refused by policy".to_owned(),
    };
    Some(format!(
        "call {}: {} {} -> {waits}",
        parked.ordinal,
        line(&parked.flow),
        short(&brief(&parked.input).to_string(), 320)
    ))
}

/// A settled call on one line.
pub fn call_line(call: &CallReport) -> String {
    let how = match &call.error {
        None => "ok".to_owned(),
        Some(error) => format!("{}: {}", error.code, short(&error.message, 200)),
    };
    let replayed = if call.replayed { ", replayed" } else { "" };
    let at = call.at.as_ref().map(|at| format!(" at {}", line(at))).unwrap_or_default();
    format!(
        "call {}: {} {}{at} -> {how} ({} ms{replayed})",
        call.ordinal,
        line(&call.flow),
        short(&call.input.to_string(), 120),
        call.ms
    )
}

/// An input with its long strings cut, so that none of them hides the members after it.
fn brief(input: &Value) -> Value {
    match input {
        Value::String(text) => Value::String(short_text(text, 80)),
        Value::Array(items) => items.iter().map(brief).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), brief(value))).collect())
        }
        other => other.clone(),
    }
}

fn short_text(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// How a frame ended, on one line.
pub fn outcome_line(frame: &FrameReport) -> String {
    let message = short(frame.message.as_deref().unwrap_or_default(), 400);
    match frame.outcome {
        None => "not ended".to_owned(),
        Some(FrameOutcome::Settled) => {
            let transition = frame.transition.as_deref().unwrap_or("continue");
            match (&frame.output, &frame.reason) {
                (Some(output), _) => format!("{transition}: {}", short(&value(output), 400)),
                (None, Some(reason)) if message.is_empty() => format!("{transition}: {}", line(reason)),
                (None, Some(reason)) => format!("{transition}: {} ({message})", line(reason)),
                (None, None) => transition.to_owned(),
            }
        }
        Some(FrameOutcome::Raised) => match frame.name.as_deref() {
            Some(name) if !name.is_empty() => format!("raised {}: {message}", line(name)),
            _ => format!("raised {message}"),
        },
        Some(FrameOutcome::Rejected) => {
            format!("rejected, {}: {message}", line(frame.code.as_deref().unwrap_or_default()))
        }
    }
}

/// A whole run in words, for `show`.
pub fn run_text(report: &RunReport) -> String {
    let mut text = format!("run {}: {}\n", report.run, status_text(report.status));
    let last = report.frames.last().map(|frame| frame.frame);
    for frame in &report.frames {
        text.push_str(&format!("\nframe {}", frame.frame));
        if let Some(blocks) = frame.blocks {
            text.push_str(&format!(" ({})", count(blocks, "cell block")));
        }
        text.push('\n');
        if let Some(program) = &frame.program {
            indent(&mut text, "    ", program);
        }
        for call in &frame.calls {
            text.push_str(&format!("  {}\n", call_line(call)));
        }
        if last == Some(frame.frame)
            && let Some(parked) = parked_line(report)
        {
            text.push_str(&format!("  {parked}\n"));
        }
        if !frame.prints.is_empty() {
            text.push_str("  prints\n");
            indent(&mut text, "  | ", &frame.prints);
        }
        if !frame.bindings.is_empty() {
            let names: Vec<String> = frame.bindings.iter().map(binding_text).collect();
            text.push_str(&format!("  names {}\n", names.join(", ")));
        }
        if let Some(justification) = &frame.justification {
            text.push_str(&format!("  justification {}\n", line(justification)));
        }
        text.push_str(&format!("  {}\n", outcome_line(frame)));
    }
    if let Some(error) = &report.error {
        text.push_str(&format!("\nerror {}: {}\n", error.code, plain(&error.message)));
    }
    if report.suspended.is_some() {
        text.push_str(&format!("\nwaits for {}\n", waits_for(report)));
    }
    if let Some(result) = &report.text {
        text.push_str("\nresult\n");
        indent(&mut text, "    ", result);
    }
    text
}

/// A name and what it is bound to: `r: object (5 keys)`, `n: number`, `later: undefined`.
fn binding_text(binding: &BindingReading) -> String {
    let name = line(&binding.name);
    let what = match binding.r#type.as_str() {
        "unset" => "undefined".to_owned(),
        other => line(other),
    };
    match binding.size.as_str() {
        "value" => format!("{name}: {what}"),
        size => match size.strip_prefix("1 ").and_then(|things| things.strip_suffix('s')) {
            Some(thing) => format!("{name}: {what} (1 {})", line(thing)),
            None => format!("{name}: {what} ({})", line(size)),
        },
    }
}

fn indent(text: &mut String, with: &str, lines: &str) {
    for part in plain(lines).lines() {
        text.push_str(with);
        text.push_str(part);
        text.push('\n');
    }
}

/// A status as `runs` and `show` print it.
pub fn status_text(status: ReportStatus) -> &'static str {
    match status {
        ReportStatus::Completed => "completed",
        ReportStatus::Failed => "failed",
        ReportStatus::Suspended => "suspended",
        ReportStatus::Exhausted => "exhausted",
        ReportStatus::Running => "running",
        ReportStatus::Interrupted => "interrupted",
    }
}

fn waits_for(report: &RunReport) -> String {
    let Some(suspended) = &report.suspended else { return "nothing".to_owned() };
    let what = match &suspended.request {
        Some(request) => {
            format!(
                "permission for {} ({}, request {})",
                line(&request.capability),
                request.tier,
                request.request_id
            )
        }
        None if suspended.reason == SuspendCode::PermissionRequired => {
            "a permission that policy refuses".to_owned()
        }
        None => suspended.reason.as_str().to_owned(),
    };
    match &suspended.message {
        Some(message) if !message.is_empty() => format!("{what}: {}", line(message)),
        _ => what,
    }
}

/// Why no `--allow` is offered for a capability.
pub const NO_EXACT_RULE: &str =
    "no rule can name this alone, because a pattern cannot spell its `*`, `?` or `${`";

/// The last line of standard error for a suspended run: what it waits for, and the commands that go on.
pub fn suspended_line(context: &Context<'_>, report: &RunReport, mocks: &[std::path::PathBuf]) -> String {
    let run = &report.run;
    let place = context.place_flags();
    let what = waits_for(report);
    let suspended = report.suspended.as_ref();
    let request = suspended.and_then(|suspended| suspended.request.as_ref());
    if context.common.engine.as_deref() == Some("memory:") {
        let again = match request.map(|request| exact_rule(&request.capability)) {
            Some(Some(rule)) => format!("run it again with `--allow {}`", shell_word(&rule)),
            Some(None) => format!(
                "{NO_EXACT_RULE}: run it again without `--engine memory:`, and answer with `flowcell approve RUN --once`"
            ),
            None => "run it again".to_owned(),
        };
        return format!("run {run} waits for {what}; the memory engine keeps nothing; {again}");
    }
    let resume = format!("`flowcell resume {run}{}`", context.resume_flags(mocks));
    let denied = suspended.is_some_and(|suspended| suspended.reason == SuspendCode::PermissionRequired);
    match request {
        None if denied => {
            format!("run {run} waits for {what}; change the rule that refuses it, then go on with {resume}")
        }
        Some(_) => format!(
            "run {run} waits for {what}; allow it with `flowcell approve {run} --once{place}` or refuse it with \
             `flowcell deny {run}{place}`, then go on with {resume}"
        ),
        None => format!("run {run} waits for {what}; go on with {resume}"),
    }
}

#[cfg(test)]
mod tests {
    use flowcell_engines::harness::error::ParkedCall;
    use serde_json::json;

    use super::*;

    fn suspended(suspended: &Value) -> RunReport {
        let document = json!({"run": "r", "status": "suspended", "suspended": suspended, "frames": []});
        let mut report: RunReport = serde_json::from_value(document).unwrap();
        let input = json!({"path": "a\u{202e}\n", "content": "x".repeat(1_000)});
        report.parked = Some(ParkedCall { ordinal: 2, flow: "edit".into(), input });
        report
    }

    #[test]
    fn the_call_that_waits_is_one_short_line() {
        let request = json!({"capability": "fs:write:/a\n", "tier": "compensable", "meta": {}, "request_id": "permission-1"});
        let report = suspended(&json!({"reason": "permission-required", "request": request}));
        let text = parked_line(&report).unwrap();
        assert!(text.starts_with("call 2: edit {\"content\":\"xxx"), "{text}");
        assert!(
            text.ends_with("x…\",\"path\":\"a\\u{202e}\\n\"} -> waits for fs:write:/a\\n (permission-1)"),
            "{text}"
        );
        assert!(text.chars().count() < 200, "{text}");
        // A denial that the handler passed on: there is nothing to answer.
        let mut report = suspended(&json!({"reason": "permission-required"}));
        report.suspended.as_mut().unwrap().message = Some("denied by policy".into());
        assert!(parked_line(&report).unwrap().ends_with("} -> refused by policy"));
        assert_eq!(waits_for(&report), "a permission that policy refuses: denied by policy");
    }

    #[test]
    fn a_frame_that_raised_or_was_rejected_is_named() {
        let frame = |document: Value| -> FrameReport { serde_json::from_value(document).unwrap() };
        let shape = |more: Value| {
            let mut document = json!({"frame": 1, "prints": "", "bindings": [], "calls": []});
            document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            frame(document)
        };
        let raised = shape(json!({"outcome": "raised", "name": "TypeError", "message": "a\nb"}));
        assert_eq!(
            failed_frame(&raised, Some("g.js")).as_deref(),
            Some("frame 1 (g.js): raised: TypeError: a\\nb")
        );
        let rejected = shape(json!({"outcome": "rejected", "code": "no_cell", "message": "m"}));
        assert_eq!(failed_frame(&rejected, None).as_deref(), Some("frame 1: rejected: no_cell: m"));
        assert_eq!(failed_frame(&shape(json!({"outcome": "settled"})), None), None);
        assert_eq!(failed_frame(&shape(json!({})), None), None);
    }
}
