//! The one parse of a cell.

use oxc_allocator::Allocator;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

use super::names::Findings;
use super::{Rejected, RejectionCode, Source, normalise};

/// The longest program that is parsed, in bytes. A longer one is `compile_failed`: the realm's compiler takes quadratic
/// time over the names and cases of one scope and cannot be interrupted.
pub const MAX_PROGRAM_BYTES: usize = 256 << 10;

/// The parser and the walk descend once for each level of nesting, and one byte opens at most one level: a stack of this
/// many bytes for each byte of the program cannot overflow. It is address space; only what is used becomes memory.
const STACK_PER_BYTE: usize = 3 << 10;

/// The stack of the parse, before [`STACK_PER_BYTE`].
const STACK_BASE: usize = 2 << 20;

/// The longest line that a message quotes, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// A program that was parsed, accepted and normalised; the realm runs exactly this text (harness contract 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    text: String,
    source: Source,
    throws_null: bool,
}

impl Program {
    /// The text that the realm evaluates. Its lines are those of the source.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The source it came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The digest of the source.
    pub fn digest(&self) -> &str {
        &self.source.digest
    }

    /// Whether the program could throw null on its own account. The engine throws null when it has no memory for an
    /// error (harness contract 3.5), and this tells the two apart.
    pub(crate) fn throws_null(&self) -> bool {
        self.throws_null
    }
}

/// Parses a cell as a script with top-level `await` and rewrites its top-level declarations so that every name it binds
/// is a property of the run's global object (harness contract 2).
///
/// # Errors
/// `imports_forbidden`, `compile_failed`, and `unsupported_language` for a source in another language; the first that
/// the contract's table names. The parser alone runs here: what only a compiler finds (a `break` outside a loop, a name
/// declared twice in one block) is found when the realm compiles the program.
///
/// ```
/// use flowcell_harness::program::{Source, validate};
/// let program = validate(&Source::new("const n = 1\nclass K {}")).unwrap();
/// assert_eq!(program.text(), "var   n = 1\nvar K = class K {};");
/// ```
pub fn validate(source: &Source) -> Result<Program, Rejected> {
    if source.language != super::LANGUAGE {
        return Err(Rejected::new(
            RejectionCode::UnsupportedLanguage,
            format!("Cells are written in {}, not in {}.", super::LANGUAGE, source.language),
        ));
    }
    let text = source.text.as_str();
    if text.len() > MAX_PROGRAM_BYTES {
        return Err(Rejected::new(
            RejectionCode::CompileFailed,
            format!(
                "The program has {} bytes; at most {MAX_PROGRAM_BYTES} are compiled. Split it over several cells.",
                text.len()
            ),
        ));
    }
    let stack = STACK_BASE + text.len() * STACK_PER_BYTE;
    let (text, throws_null) = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("cell-parse".into())
            .stack_size(stack)
            .spawn_scoped(scope, || parse(text))
            .map_err(|error| format!("no thread could be started to parse the program: {error}"))
            .and_then(|thread| thread.join().map_err(|_| "the parser failed on the program".to_owned()))
    })
    .map_err(|why| {
        Rejected::new(RejectionCode::CompileFailed, format!("The program was not parsed: {why}."))
    })??;
    Ok(Program { text, source: source.clone(), throws_null })
}

/// The normalised text, and whether it could throw null.
fn parse(text: &str) -> Result<(String, bool), Rejected> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, text, SourceType::mjs()).with_options(options).parse();
    let findings = Findings::of(text, &parsed.program);
    if let Some((span, what)) = findings.import {
        let place = Place::of(text, span.start as usize);
        return Err(Rejected::new(
            RejectionCode::ImportsForbidden,
            format!(
                "Line {}, column {}: {what} is not available in a cell; there are no modules. Call a flow with \
                 ctx.call instead.\n    {}",
                place.line, place.column, place.text
            ),
        ));
    }
    if let Some(error) = parsed.diagnostics.errors().next() {
        let at = error.labels.first().map_or(0, |label| label.span().start as usize);
        return Err(failed(text, at, &error.message));
    }
    if parsed.panicked {
        return Err(failed(text, 0, "the program cannot be parsed"));
    }
    if let Some(at) = text.find('\0') {
        return Err(failed(text, at, "a NUL character stands in the program; write it as \\0"));
    }
    if let Some(span) = findings.comment {
        return Err(failed(
            text,
            span.start as usize,
            "`<!--` opens a comment in a script; put a space after `<`",
        ));
    }
    if let Some(span) = findings.stray_return {
        return Err(failed(
            text,
            span.start as usize,
            "`return` stands outside any function. A cell ends in one of three ways: ctx.done(output) completes the \
             run, ctx.park(reason, message) waits, and a cell that calls neither goes on to the next frame",
        ));
    }
    if let Some((span, name)) = findings.reserved {
        return Err(failed(
            text,
            span.start as usize,
            &format!("`{name}` is the harness's own and cannot be declared; use another name"),
        ));
    }
    Ok((normalise::normalise(text, &parsed.program)?, findings.throws_null))
}

/// `compile_failed` with its place.
pub(super) fn failed(text: &str, at: usize, what: &str) -> Rejected {
    let place = Place::of(text, at);
    Rejected::new(
        RejectionCode::CompileFailed,
        format!("Line {}, column {}: {what}.\n    {}", place.line, place.column, place.text),
    )
}

/// A place in the program as people count.
struct Place {
    line: usize,
    column: usize,
    text: String,
}

impl Place {
    fn of(text: &str, at: usize) -> Self {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let mut line = 1;
        let mut start = 0;
        let mut chars = text[..at].char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            let ends = match c {
                '\r' => chars.peek().is_none_or(|(_, next)| *next != '\n'),
                '\n' | '\u{2028}' | '\u{2029}' => true,
                _ => false,
            };
            if ends {
                line += 1;
                start = index + c.len_utf8();
            }
        }
        let rest = &text[start..];
        let end = rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len());
        let mut quoted: String = rest[..end].chars().take(MAX_QUOTED_CHARS).collect();
        if quoted.len() < end {
            quoted.push('…');
        }
        Self { line, column: text[start..at].chars().count() + 1, text: quoted }
    }
}
