//! Recovers a cell's program from the text of a model's reply (harness contract 1).
//!
//! **Invariant:** only the bodies of fenced blocks whose info string has the token `cell` ever become a program; a reply
//! that was cut off runs nothing.

use std::collections::HashSet;

use crate::program::{Rejected, RejectionCode, Source};

/// Why a model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is whole.
    End,
    /// The reply was cut off at its longest length.
    Length,
}

/// What a reader may widen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Also takes blocks of `js` and `javascript` as cells.
    pub accept_js: bool,
}

/// A program recovered from a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// The distinct bodies in the reply's order, joined with line feeds.
    pub program: String,
    /// How many cell blocks the reply held, repeats included.
    pub blocks: usize,
}

impl Extracted {
    /// The program with its digest.
    pub fn source(&self) -> Source {
        Source::new(self.program.as_str())
    }
}

/// Recovers the program of a reply's text: the reply's text parts joined with line feeds, thinking left out.
///
/// # Errors
/// `output_truncated` when the reply stopped for its length or a cell block does not end; `unsupported_language` for a
/// cell block that names TypeScript; `no_cell` when there is no cell block.
///
/// ```
/// use flowcell_harness::extract::{StopReason, extract};
/// let found = extract("Let me look.\n```cell\nctx.done(1)\n```\n", StopReason::End).unwrap();
/// assert_eq!((found.program.as_str(), found.blocks), ("ctx.done(1)", 1));
/// ```
pub fn extract(reply: &str, stop: StopReason) -> Result<Extracted, Rejected> {
    extract_with(reply, stop, ExtractOptions::default())
}

/// [`extract`] with options.
///
/// # Errors
/// As [`extract`].
pub fn extract_with(reply: &str, stop: StopReason, options: ExtractOptions) -> Result<Extracted, Rejected> {
    if stop == StopReason::Length {
        return Err(Rejected::new(
            RejectionCode::OutputTruncated,
            "The reply was cut off at its longest length, so nothing of it ran. Write a shorter cell.",
        ));
    }
    let mut bodies: Vec<String> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut blocks = 0;
    let mut typescript = None;
    let mut open: Option<Block> = None;
    for (index, line) in lines(reply).enumerate() {
        let Some(block) = &mut open else {
            open = Fence::opening(line).map(|(fence, info)| Block::new(fence, info, index + 1, options));
            continue;
        };
        if !block.fence.closes(line) {
            block.body.push(block.fence.strip(line));
            continue;
        }
        let Some(block) = open.take() else { continue };
        if block.cell {
            blocks += 1;
            if block.typescript && typescript.is_none() {
                typescript = Some(block.line);
            }
            let body = block.body.join("\n");
            if seen.insert(body.clone()) {
                bodies.push(body);
            }
        }
    }
    if let Some(block) = open.filter(|block| block.cell) {
        return Err(Rejected::new(
            RejectionCode::OutputTruncated,
            format!(
                "The cell block that opens at line {} does not end, so nothing of the reply ran. Close it with {}.",
                block.line,
                block.fence.text()
            ),
        ));
    }
    if let Some(line) = typescript {
        return Err(Rejected::new(
            RejectionCode::UnsupportedLanguage,
            format!(
                "The cell block at line {line} names TypeScript. Cells are JavaScript: leave the types out."
            ),
        ));
    }
    if blocks == 0 {
        return Err(Rejected::new(
            RejectionCode::NoCell,
            "The reply holds no cell. Write the program in a fenced block whose info string is `cell`.",
        ));
    }
    Ok(Extracted { program: bodies.join("\n"), blocks })
}

/// The lines of a text without their ends; a line ends at `\n`, `\r\n` or a lone `\r`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take().filter(|text| !text.is_empty())?;
        let Some(end) = text.find(['\n', '\r']) else { return Some(text) };
        let line = &text[..end];
        let after = &text[end..];
        rest = Some(after.strip_prefix("\r\n").unwrap_or(&after[1..]));
        Some(line)
    })
}

/// The run of characters that opened a block.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl Fence {
    /// The fence that a line opens, with its info string.
    fn opening(line: &str) -> Option<(Self, &str)> {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        (indent <= 3 && length >= 3 && !(mark == '`' && info.contains('`')))
            .then_some((Self { mark, length, indent }, info))
    }

    /// Whether a line ends the block.
    fn closes(self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let rest = text.trim_start_matches(self.mark);
        line.len() - text.len() <= 3
            && text.len() - rest.len() >= self.length
            && rest.chars().all(|c| matches!(c, ' ' | '\t'))
    }

    /// A body line without up to the opening's indent.
    fn strip(self, line: &str) -> &str {
        let spaces = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        &line[spaces..]
    }

    fn text(self) -> String {
        std::iter::repeat_n(self.mark, self.length).collect()
    }
}

/// An open block.
struct Block<'a> {
    fence: Fence,
    cell: bool,
    typescript: bool,
    line: usize,
    body: Vec<&'a str>,
}

impl Block<'_> {
    fn new(fence: Fence, info: &str, line: usize, options: ExtractOptions) -> Self {
        let info = info.to_ascii_lowercase();
        let names = |name: &str| info.split_whitespace().any(|token| token == name);
        let cell = names("cell") || (options.accept_js && (names("js") || names("javascript")));
        let typescript = names("ts") || names("typescript");
        Self { fence, cell, typescript, line, body: Vec::new() }
    }
}
