//! The declaration that encloses a line (search contract 5, "Symbol").
//!
//! The reading is by indentation and by one shape of line. It answers nothing rather than guess.

use crate::lines;

/// Largest file that symbols are looked up in, in bytes.
pub const MAX_SYMBOL_BYTES: usize = 4 * 1024 * 1024;

const PROSE: [&str; 18] = [
    "md", "markdown", "txt", "rst", "adoc", "json", "jsonl", "yaml", "yml", "toml", "xml", "html", "css",
    "csv", "tsv", "lock", "log", "svg",
];

const MODIFIERS: [&str; 15] = [
    "async",
    "export",
    "default",
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "final",
    "abstract",
    "open",
    "pub",
    "unsafe",
    "const",
    "declare",
];

const KEYWORDS: [&str; 15] = [
    "def",
    "class",
    "function",
    "fn",
    "func",
    "struct",
    "impl",
    "interface",
    "trait",
    "enum",
    "module",
    "namespace",
    "type",
    "sub",
    "method",
];

/// An enclosing declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The keyword of the declaration, such as `fn` or `class`.
    pub kind: String,
    /// The declared name.
    pub name: String,
    /// First line, from 1.
    pub start_line: u64,
    /// Last line; at least `start_line` and at most the lines of the file.
    pub end_line: u64,
}

/// Whether files of this name have symbols: prose and data files have none.
pub(crate) fn has_symbols(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    match base.rsplit_once('.') {
        Some((_, extension)) => !PROSE.iter().any(|prose| extension.eq_ignore_ascii_case(prose)),
        None => true,
    }
}

/// The lines of one file, as far as symbols need them.
///
/// Reading takes time linear in the content; a look-up takes time linear in the depth of the nesting.
///
/// ```
/// use flowcell_search::Outline;
///
/// let outline = Outline::new(b"class A:\n    def f(self):\n        return 1\n");
/// let symbol = outline.enclosing(3).unwrap();
/// assert_eq!((symbol.kind.as_str(), symbol.name.as_str()), ("def", "f"));
/// assert_eq!((symbol.start_line, symbol.end_line), (2, 3));
/// ```
#[derive(Debug)]
pub struct Outline {
    /// The indentation that each line is asked with: its own, or that of the nearest line above that is
    /// not blank; none when there is no such line.
    indentations: Vec<Option<usize>>,
    declarations: Vec<Declaration>,
}

#[derive(Debug)]
struct Declaration {
    /// Index of the line.
    line: usize,
    indentation: usize,
    kind: &'static str,
    name: String,
    /// Index of the last line.
    end: usize,
    /// Index of the nearest declaration whose block holds this line.
    outer: Option<usize>,
}

impl Outline {
    /// Reads the lines of `content`. A byte order mark at its start is not part of the first line.
    pub fn new(content: &[u8]) -> Self {
        let content = lines::without_bom(content);
        let mut indentations = Vec::new();
        let mut declarations: Vec<Declaration> = Vec::new();
        // The declarations whose blocks are open, outermost first. Each is indented more than the one before:
        // a declaration line ends every block of at least its own indentation.
        let mut open: Vec<usize> = Vec::new();
        let mut above = None;
        // Index of the latest line that is not blank.
        let mut latest = 0;
        for (index, line) in lines::each(content).enumerate() {
            let Some(Shape { indentation, body, closes, reopens }) = Shape::of(line) else {
                indentations.push(above);
                continue;
            };
            let end = if closes { index } else { latest };
            while !reopens
                && let Some(inner) = open.pop_if(|inner| declarations[*inner].indentation >= indentation)
            {
                declarations[inner].end = end;
            }
            if let Some((kind, name)) = declaration(body) {
                let outer = open.last().copied();
                open.push(declarations.len());
                declarations.push(Declaration { line: index, indentation, kind, name, end: index, outer });
            }
            above = Some(indentation);
            latest = index;
            indentations.push(above);
        }
        for inner in open {
            declarations[inner].end = latest;
        }
        Self { indentations, declarations }
    }

    /// The declaration that encloses line `line` (from 1), if one does.
    pub fn enclosing(&self, line: u64) -> Option<Symbol> {
        let hit = usize::try_from(line).ok()?.checked_sub(1)?;
        let indentation = (*self.indentations.get(hit)?)?;
        // Blocks are nested: one that holds the hit holds every declaration between its start and the hit.
        let after = self.declarations.partition_point(|declaration| declaration.line <= hit);
        let nearest = after.checked_sub(1).map(|index| &self.declarations[index]);
        let outer = |inner: &&Declaration| inner.outer.map(|index| &self.declarations[index]);
        std::iter::successors(nearest, outer)
            .find(|block| block.line == hit || block.indentation < indentation && block.end >= hit)
            .map(Declaration::symbol)
    }
}

impl Declaration {
    fn symbol(&self) -> Symbol {
        Symbol {
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            start_line: self.line as u64 + 1,
            end_line: self.end as u64 + 1,
        }
    }
}

/// A line that is not blank.
struct Shape<'a> {
    indentation: usize,
    body: &'a [u8],
    /// It begins with a closing bracket.
    closes: bool,
    /// It is the end of a signature over several lines, and opens the block.
    reopens: bool,
}

impl<'a> Shape<'a> {
    /// The shape of a line, given with its terminator; none of a blank one.
    fn of(line: &'a [u8]) -> Option<Self> {
        let text = lines::text(line);
        let indentation = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let body = text[indentation..].trim_ascii_end();
        let closes = matches!(body.first()?, b')' | b'}' | b']');
        let reopens = closes && matches!(body.last(), Some(b'{' | b'(' | b'[' | b':'));
        Some(Self { indentation, body, closes, reopens })
    }
}

/// Finds the declarations around some lines of a file, line after line, in memory bounded by the depth of the
/// nesting. It answers what [`Outline`] does.
#[derive(Debug)]
pub(crate) struct Encloser {
    /// Lines asked for, from 0, ascending.
    wanted: Vec<usize>,
    symbols: Vec<Option<Symbol>>,
    /// How many of them were passed.
    passed: usize,
    /// Those passed whose block is open: the index in `wanted`, and the block's in `open`.
    waiting: Vec<(usize, usize)>,
    open: Vec<Block>,
    index: usize,
    latest: usize,
    above: Option<usize>,
}

#[derive(Debug)]
struct Block {
    line: usize,
    indentation: usize,
    kind: &'static str,
    name: String,
    /// How many lines wait for its end.
    waiting: usize,
}

impl Encloser {
    /// For the lines with these numbers (from 1), ascending.
    pub(crate) fn new(wanted: impl Iterator<Item = u64>) -> Self {
        let wanted: Vec<usize> =
            wanted.map(|line| usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1)).collect();
        Self {
            symbols: vec![None; wanted.len()],
            wanted,
            passed: 0,
            waiting: Vec::new(),
            open: Vec::new(),
            index: 0,
            latest: 0,
            above: None,
        }
    }

    /// Whether nothing that follows can change an answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.passed == self.wanted.len() && self.waiting.is_empty()
    }

    /// Takes the next lines of the file, whole ones.
    pub(crate) fn feed(&mut self, region: &[u8]) {
        for line in lines::each(region) {
            if self.is_settled() {
                return;
            }
            self.line(line);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(Shape { indentation, body, closes, reopens }) = Shape::of(line) {
            let end = if closes { self.index } else { self.latest };
            while !reopens && let Some(inner) = self.open.pop_if(|inner| inner.indentation >= indentation) {
                self.close(&inner, end);
            }
            if let Some((kind, name)) = declaration(body) {
                self.open.push(Block { line: self.index, indentation, kind, name, waiting: 0 });
            }
            self.above = Some(indentation);
            self.latest = self.index;
        }
        while self.wanted.get(self.passed) == Some(&self.index) {
            let around = self.above.and_then(|indentation| {
                self.open
                    .iter()
                    .rposition(|block| block.line == self.index || block.indentation < indentation)
            });
            if let Some(block) = around {
                self.open[block].waiting += 1;
                self.waiting.push((self.passed, block));
            }
            self.passed += 1;
        }
        self.index += 1;
    }

    /// The block that was the innermost one open ends at line `end`.
    fn close(&mut self, block: &Block, end: usize) {
        if block.waiting == 0 {
            return;
        }
        let level = self.open.len();
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain_mut(|(wanted, around)| {
            if *around != level {
                return true;
            }
            if end >= self.wanted[*wanted] {
                self.symbols[*wanted] = Some(Symbol {
                    kind: block.kind.to_owned(),
                    name: block.name.clone(),
                    start_line: block.line as u64 + 1,
                    end_line: end as u64 + 1,
                });
                return false;
            }
            // The block ended before the line: the next one out, if there is one.
            match level.checked_sub(1) {
                Some(outer) => {
                    self.open[outer].waiting += 1;
                    *around = outer;
                    true
                }
                None => false,
            }
        });
        self.waiting = waiting;
    }

    /// The answers, in the order of the lines.
    pub(crate) fn finish(mut self) -> Vec<Option<Symbol>> {
        while let Some(inner) = self.open.pop() {
            self.close(&inner, self.latest);
        }
        self.symbols
    }
}

/// Reads a declaration line without its indentation: keyword and name.
fn declaration(mut body: &[u8]) -> Option<(&'static str, String)> {
    loop {
        let length = body.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        let (word, mut rest) = body.split_at(length);
        if let Some(kind) = KEYWORDS.iter().find(|keyword| keyword.as_bytes() == word) {
            let rest = blanks(rest)?;
            let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            let length = rest.iter().take_while(|byte| part(byte)).count();
            if rest.first().is_none_or(|first| first.is_ascii_digit() || !part(first)) {
                return None;
            }
            return Some((kind, String::from_utf8_lossy(&rest[..length]).into_owned()));
        }
        if !MODIFIERS.iter().any(|modifier| modifier.as_bytes() == word) {
            return None;
        }
        if word == b"pub" && rest.first() == Some(&b'(') {
            let close = rest.iter().position(|byte| *byte == b')')?;
            rest = &rest[close + 1..];
        }
        body = blanks(rest)?;
    }
}

/// The text after one blank or more.
fn blanks(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (length > 0).then(|| &text[length..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(content: &str, line: u64) -> Option<(String, String, u64, u64)> {
        let symbol = Outline::new(content.as_bytes()).enclosing(line)?;
        Some((symbol.kind, symbol.name, symbol.start_line, symbol.end_line))
    }

    fn found(kind: &str, name: &str, start: u64, end: u64) -> Option<(String, String, u64, u64)> {
        Some((kind.to_owned(), name.to_owned(), start, end))
    }

    #[test]
    fn reads_declaration_lines() {
        for (line, want) in [
            ("pub(crate) async fn run()", Some(("fn", "run"))),
            ("pub fn run()", Some(("fn", "run"))),
            ("export default class View {", Some(("class", "View"))),
            ("const fn f", Some(("fn", "f"))),
            ("impl Foo for Bar {", Some(("impl", "Foo"))),
            ("impl<T> Foo {", None),
            ("function* g() {", None),
            ("func (r *T) M() {", None),
            ("fnord x", None),
            ("fn", None),
            ("fn 1a", None),
            ("type\t$x = 1", Some(("type", "$x"))),
            ("declare module m", Some(("module", "m"))),
            ("let x = 1", None),
        ] {
            let read = declaration(line.as_bytes());
            assert_eq!(read.as_ref().map(|(kind, name)| (*kind, name.as_str())), want, "{line}");
        }
    }

    #[test]
    fn finds_the_enclosing_block() {
        let python = "class W:\n    def widen(self, v):\n        needle = v\n        return needle\n\ndef other():\n    pass\n";
        assert_eq!(symbol(python, 3), found("def", "widen", 2, 4));
        assert_eq!(symbol(python, 2), found("def", "widen", 2, 4));
        assert_eq!(symbol(python, 1), found("class", "W", 1, 4));
        assert_eq!(symbol(python, 5), None);
        assert_eq!(symbol(python, 7), found("def", "other", 6, 7));
    }

    #[test]
    fn a_block_that_ended_before_the_hit_is_passed() {
        let text = "class A {\n  fn one() {\n    x\n  }\n\n    stray\n}\nrest\n";
        assert_eq!(symbol(text, 6), found("class", "A", 1, 7));
        assert_eq!(symbol(text, 8), None);
    }

    #[test]
    fn signatures_over_several_lines() {
        let text = "fn long(\n    a: u8,\n) -> u8 {\n    a\n}\n\nfn next() {}\n";
        assert_eq!(symbol(text, 4), found("fn", "long", 1, 5));
    }

    #[test]
    fn blank_lines_borrow_the_indentation_above() {
        let text = "def f():\n    a\n\n    b\n";
        assert_eq!(symbol(text, 3), found("def", "f", 1, 4));
        assert_eq!(symbol("\n\n", 1), None);
        assert_eq!(symbol("", 1), None);
        assert_eq!(symbol("a\n", 9), None);
    }

    #[test]
    fn one_pass_answers_what_the_outline_does() {
        let lines = [
            "class A {",
            "  fn f(",
            "    x",
            "  ) {",
            "  }",
            "}",
            "",
            "   ",
            "def g():",
            "\tfn h()",
            "    ]",
            "end",
            " type T",
            "      deep",
            "  impl B {",
        ];
        let mut state = 12345u32;
        for _ in 0..3000 {
            let mut text = String::new();
            for _ in 0..14 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(lines[(state >> 16) as usize % lines.len()]);
                text.push('\n');
            }
            let outline = Outline::new(text.as_bytes());
            for skip in 1..4 {
                let wanted = || (1..=16u64).step_by(skip);
                let mut encloser = Encloser::new(wanted());
                encloser.feed(text.as_bytes());
                let want: Vec<_> = wanted().map(|line| outline.enclosing(line)).collect();
                assert_eq!(encloser.finish(), want, "{text}");
            }
        }
    }

    #[test]
    fn prose_has_no_symbols() {
        assert!(!has_symbols("docs/README.MD"));
        assert!(!has_symbols("a.json"));
        assert!(has_symbols("src/a.ts") && has_symbols("v1.md/Makefile"));
    }
}
