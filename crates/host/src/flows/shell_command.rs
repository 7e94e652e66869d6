//! `shell_command`: a script in the default shell, its result laid out as Codex does (host contract 5.4).

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;

use super::shell::{failed, tail, timeout};
use crate::capture;
use crate::kernel::flows::shell_command::{
    DEFAULT_MAX_OUTPUT_TOKENS, DEFAULT_TIMEOUT_MS, Input, MAX_CAPTURE_BYTES, Output, TIMEOUT_EXIT_CODE,
};
use crate::kernel::process::{Command, SpawnRequest};
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::process::{self, Capture, Captured, Ended, ProcessOptions, ProcessRequest};

/// Bytes that count as one token.
const TOKEN_BYTES: usize = 4;

/// Serves `shell_command`.
#[derive(Clone, Debug, Default)]
pub struct ShellCommandHandler {
    processes: ProcessOptions,
}

impl ShellCommandHandler {
    /// A handler with what the host set up for processes.
    #[must_use]
    pub fn new(processes: ProcessOptions) -> Self {
        ShellCommandHandler { processes }
    }
}

#[async_trait]
impl Handler for ShellCommandHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let timeout = timeout(input.timeout_ms, DEFAULT_TIMEOUT_MS)?;
        let command = Command::Line { line: input.command, shell: None };
        let mut spawn = SpawnRequest::new(command.clone());
        spawn.cwd = input.workdir;
        let capture = Capture::Tail { bytes: MAX_CAPTURE_BYTES };
        let options = self.processes.clone();
        let request = ProcessRequest { options, ..ProcessRequest::new(spawn, timeout, capture) };
        let ended = process::run(cx, request).await.map_err(|error| failed(&command, error))?;
        let (exit_code, duration, content) = match ended {
            Ended::Exited { code, stdout, stderr, duration } => (code, duration, aggregate(&stdout, &stderr)),
            Ended::TimedOut { stdout, stderr, duration } => {
                let so_far = aggregate(&stdout, &stderr);
                let content =
                    format!("command timed out after {} milliseconds\n{so_far}", timeout.as_millis());
                (TIMEOUT_EXIT_CODE, duration, content)
            }
        };
        Ok(Output { output: layout(exit_code, duration, &content), exit_code })
    }
}

/// Standard output and standard error, nothing between them.
fn aggregate(stdout: &Captured, stderr: &Captured) -> String {
    let (stdout, _) = tail(stdout);
    let (stderr, _) = tail(stderr);
    [capture::text(stdout), capture::text(stderr)].concat()
}

/// The result as Codex lays it out.
fn layout(code: i32, duration: Duration, content: &str) -> String {
    let cut = cut(content);
    let seconds = (duration.as_secs_f32() * 10.0).round() / 10.0;
    let mut out = format!("Exit code: {code}\nWall time: {seconds} seconds\n");
    let lines = content.lines().count();
    if cut.lines().count() != lines {
        // Writing to a String does not fail.
        let _ = writeln!(out, "Total output lines: {lines}");
    }
    out.push_str("Output:\n");
    out.push_str(&cut);
    out
}

/// The content with its middle left out where it is longer than the budget.
fn cut(content: &str) -> String {
    const BUDGET: usize = DEFAULT_MAX_OUTPUT_TOKENS * TOKEN_BYTES;
    let Some(over) = content.len().checked_sub(BUDGET).filter(|over| *over > 0) else {
        return content.to_owned();
    };
    let (left, right) = (capture::start(content, BUDGET / 2), capture::end(content, BUDGET / 2));
    format!("{left}…{} tokens truncated…{right}", over.div_ceil(TOKEN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout() {
        let at = |ms| layout(0, Duration::from_millis(ms), "a\n");
        assert_eq!(at(0), "Exit code: 0\nWall time: 0 seconds\nOutput:\na\n");
        for (ms, seconds) in [(49, "0"), (51, "0.1"), (1_000, "1"), (12_340, "12.3"), (60_000, "60")] {
            assert!(at(ms).contains(&format!("Wall time: {seconds} seconds\n")), "{ms}: {}", at(ms));
        }
        assert_eq!(layout(3, Duration::ZERO, ""), "Exit code: 3\nWall time: 0 seconds\nOutput:\n");
    }

    #[test]
    fn the_cut() {
        let whole = "x".repeat(40_000);
        assert_eq!(cut(&whole), whole);
        let cut_at = |content: &str| cut(content).replace('x', "");
        assert_eq!(cut_at(&"x".repeat(40_001)), "…1 tokens truncated…");
        assert_eq!(cut_at(&"x".repeat(40_005)), "…2 tokens truncated…");
        assert_eq!(cut(&"x".repeat(40_001)).matches('x').count(), 40_000);
        // A character on either edge of the hole is left out whole.
        let text = format!("{}é{}é{}", "x".repeat(19_999), "y".repeat(100), "x".repeat(19_999));
        let expected = format!("{}…26 tokens truncated…{}", "x".repeat(19_999), "x".repeat(19_999));
        assert_eq!(cut(&text), expected);
    }

    #[test]
    fn total_lines_are_told_when_the_cut_changes_them() {
        let text = "a line\n".repeat(10_000);
        let out = layout(0, Duration::ZERO, &text);
        assert!(
            out.starts_with(
                "Exit code: 0\nWall time: 0 seconds\nTotal output lines: 10000\nOutput:\na line\n"
            )
        );
        // One line of 50,000 bytes is one line still.
        let out = layout(0, Duration::ZERO, &"x".repeat(50_000));
        assert!(out.starts_with("Exit code: 0\nWall time: 0 seconds\nOutput:\nxxx"), "{}", &out[..80]);
    }
}
