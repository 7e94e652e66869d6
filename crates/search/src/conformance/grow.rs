//! Random trees: names, contents, rules and odd entries in the shapes that the search contract speaks of.

use super::random::Random;
use super::tree::{Entry, Tree};
use crate::SKIPPED_DIRECTORIES;

/// Kinds of tree, one of which each generated tree shows on top of what chance brings.
pub(crate) const THEMES: usize = 28;

const NAMES: [&str; 30] = [
    "a", "b", "ab", "a.ts", "b.ts", "a.log", "keep.log", "src", "sub", "build", "a-b", "c.rs", "mod.py",
    "A.ts", "B", "a b", "a,b", "vendor", "a.d.ts", "x", "b", "a", "src", "a.ts", "b.ts", "out", "c", "m.js",
    "n.js", "sub",
];
const ODD_NAMES: [&[u8]; 24] = [
    "é.ts".as_bytes(),
    "\u{e000}".as_bytes(),
    "\u{1f600}".as_bytes(),
    "é".as_bytes(),
    b"#a",
    b"!b",
    b"a\nb",
    b"a\tb",
    b"{a,b}",
    b"[a]",
    b"a\\b",
    b"a ",
    b"a\xff.ts",
    b"\xff",
    b"*",
    b"-a",
    b"a\t",
    b"~",
    b"a{1}",
    b"..a",
    b"x=y",
    b"a'b\"",
    b"b\r",
    b"??",
];
const HIDDEN_NAMES: [&str; 7] = [".env", ".h", ".a.ts", ".hidden", ".config", ".b", ".a.log"];

const LINES: [&[u8]; 46] = [
    b"needle",
    b"needle",
    b"needle",
    b"Needle",
    b"NEEDLE one",
    b"let needle = a.b;",
    b"a needle, a needle",
    b"fn a() {",
    b"    needle();",
    b"}",
    b"",
    b"",
    b"a",
    b"b",
    b"ab",
    b"a b",
    b"foo(bar)",
    b"x\ry",
    b"needle\rneedle",
    "na\u{ef}ve \u{e9}".as_bytes(),
    "\u{212a}elvin \u{17f}".as_bytes(),
    "\u{fffd}".as_bytes(),
    b"\xff\xfe needle",
    b"a\xe2\x82b",
    b"x\xf0\x9f\x98",
    b"[a-z]+",
    b"$x^y",
    b"def widen(self, v):",
    b"        return needle",
    b"a{3}",
    b"class A:",
    b"    def f(self):",
    b"        x = 1",
    b"\tneedle\t",
    b"pub(crate) fn b(a: u8) -> u8 {",
    b"aaa",
    b"1234567890",
    b"a|b",
    b"\\needle\\",
    b"//",
    b"import { needle } from 'a';",
    b"end",
    b"  ",
    b"needle needle needle",
    "\u{1f600} needle".as_bytes(),
    b"k s K S",
];

const RULES: [&str; 56] = [
    "*.log",
    "a",
    "b",
    "/a",
    "/b",
    "build/",
    "build",
    "sub/",
    "!a",
    "!b",
    "!*.log",
    "!keep.log",
    "*.ts",
    "!a.ts",
    "/*.ts",
    "a/b",
    "src/a",
    "a/",
    "**/b",
    "a/**",
    "src/**",
    "**",
    "*",
    "!*",
    "!*/",
    "a/**/b",
    "**/a/b",
    "?.ts",
    "??",
    "[ab]",
    "[!a]*",
    "[^b].ts",
    "[a-c].ts",
    "[[:alpha:]]",
    "[]a]",
    "[a",
    "a\\",
    "\\#a",
    "\\!b",
    "#a",
    "a  ",
    "a\\ ",
    "a\t",
    "{a,b}",
    "a{1}",
    "*b*",
    "a*b",
    "/sub/*",
    "!/sub/a",
    "src/**/a.ts",
    ".env",
    "!.env",
    "/src/b.ts",
    "A.ts",
    "\\a",
    "a?",
];

impl Tree {
    /// A random tree. Equal sequences give equal trees.
    pub fn random(random: &mut Random) -> Self {
        let theme = random.below(THEMES);
        Self::of_theme(random, theme)
    }

    pub(crate) fn of_theme(random: &mut Random, theme: usize) -> Self {
        let mut tree = Self::new();
        let mut directories = vec![Vec::new()];
        for _ in 0..2 + random.below(6) {
            let path = join(&pick_directory(random, &directories), &name(random));
            let depth = path.iter().filter(|byte| **byte == b'/').count();
            if depth < 4 && tree.put(path.clone(), Entry::Dir) {
                directories.push(path);
            }
        }
        for _ in 0..4 + random.below(16) {
            let path = join(&pick_directory(random, &directories), &name(random));
            let content = content(random);
            tree.file(path, content);
        }
        if random.chance(55) {
            for _ in 0..1 + random.below(3) {
                let directory =
                    if random.chance(40) { Vec::new() } else { pick_directory(random, &directories) };
                tree.file(join(&directory, b".gitignore"), rules(random));
            }
        }
        if random.chance(12) {
            links(random, &mut tree, &directories);
        }
        show(random, &mut tree, theme, &directories);
        tree
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

fn pick_directory(random: &mut Random, directories: &[Vec<u8>]) -> Vec<u8> {
    random.pick(directories).cloned().unwrap_or_default()
}

fn name(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..7 => random.pick(&ODD_NAMES).map(|name| name.to_vec()).unwrap_or_default(),
        7..12 => random.text(&HIDDEN_NAMES).into(),
        12..15 => random.text(&SKIPPED_DIRECTORIES).into(),
        _ => random.text(&NAMES).into(),
    }
}

/// The bytes of a file.
pub(crate) fn content(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    if random.chance(6) {
        bytes.extend_from_slice(b"\xef\xbb\xbf");
    }
    if random.chance(2) {
        bytes.extend_from_slice(
            random.pick(&[&b"\xff\xfe"[..], b"\xfe\xff", b"\x1f\x8b"]).copied().unwrap_or_default(),
        );
    }
    if random.chance(2) {
        bytes.push(0);
    }
    let ends = random.below(4);
    // Most files are of plain text.
    let kinds = if random.chance(70) { 15 } else { LINES.len() };
    for _ in 0..random.below(14) {
        let line = LINES.get(random.below(kinds)).copied().unwrap_or_default();
        if random.chance(3) {
            long(random, &mut bytes);
        }
        bytes.extend_from_slice(line);
        let returns = ends == 3 && random.chance(70);
        bytes.extend_from_slice(if returns { b"\r\n" } else { b"\n" });
    }
    if random.chance(40) {
        bytes.pop();
    }
    if random.chance(3) {
        if random.chance(30) {
            bytes.resize(bytes.len() + 70_000, b'x');
        }
        bytes.push(0);
    }
    bytes
}

/// Makes a line longer than an answer shows.
fn long(random: &mut Random, bytes: &mut Vec<u8>) {
    let filler: &[u8] =
        random.pick(&[&b"abc "[..], "\u{e9}".as_bytes(), b"\xff", b"x"]).copied().unwrap_or(b"x");
    for _ in 0..480 / filler.len() + random.below(60) {
        bytes.extend_from_slice(filler);
    }
}

/// The bytes of a `.gitignore`.
pub(crate) fn rules(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    if random.chance(8) {
        bytes.extend_from_slice(b"\xef\xbb\xbf");
    }
    let returns = random.chance(10);
    // Rules of one or two kinds leave more of a tree than many do.
    for _ in 0..1 + random.below(4) {
        if random.chance(4) {
            bytes.extend_from_slice(b"\xff*\n");
        }
        let rule = random.text(&RULES);
        // A rule for everything leaves nothing to look at.
        if matches!(rule, "*" | "**" | "[!a]*" | "!*/") && random.chance(70) {
            continue;
        }
        bytes.extend_from_slice(rule.as_bytes());
        bytes.extend_from_slice(if returns { b"\r\n" } else { b"\n" });
    }
    if random.chance(30) {
        bytes.pop();
    }
    bytes
}

fn links(random: &mut Random, tree: &mut Tree, directories: &[Vec<u8>]) {
    let targets: Vec<Vec<u8>> = tree.entries().keys().cloned().collect();
    for _ in 0..1 + random.below(3) {
        let at = join(&pick_directory(random, directories), &name(random));
        let depth = at.iter().filter(|byte| **byte == b'/').count();
        let text = match random.below(5) {
            0 => b"nowhere".to_vec(),
            1 => b".".to_vec(),
            _ => ["../".repeat(depth).into_bytes(), random.pick(&targets).cloned().unwrap_or_default()]
                .concat(),
        };
        if !text.is_empty() && tree.at(&at).is_none() {
            tree.put(at, Entry::Link(text));
        }
    }
}

/// Puts the theme's own entries into a tree.
fn show(random: &mut Random, tree: &mut Tree, theme: usize, directories: &[Vec<u8>]) {
    let below = pick_directory(random, directories);
    tree.noise_above = theme == 9;
    let mut file = |path: &[u8], content: &[u8]| {
        let path = join(&below, path);
        tree.remove(&path);
        tree.file(path, content)
    };
    match theme {
        0 => {
            for path in
                [&b"a/x"[..], b"a-b/x", b"a.txt", b"a/y", "\u{1f600}z".as_bytes(), "\u{e000}z".as_bytes()]
            {
                file(path, b"needle\n");
            }
        }
        1 => {
            for skipped in SKIPPED_DIRECTORIES.iter().skip(random.below(3)).step_by(3) {
                file(&join(skipped.as_bytes(), b"a.ts"), b"needle\n");
            }
            file(b"n/worktrees", b"needle\n");
            file(b"n/node_modules", b"needle\n");
        }
        2 => {
            for path in [&b".env"[..], b".config/a.ts", b".a.ts", b"sub/.h/b"] {
                file(path, b"needle\n");
            }
        }
        3 | 26 => {
            // Nothing leads out of the workspace.
            let up: &[u8] = if below.is_empty() { b"." } else { b".." };
            file(b"real/a.ts", b"needle\n");
            for (at, text) in [
                (&b"to-file"[..], &b"real/a.ts"[..]),
                (b"to-dir", b"real"),
                (b"gone", b"nowhere"),
                (b"loop", b"loop"),
                (b"up.ts", up),
                (b"twice", b"to-dir"),
            ] {
                tree.put(join(&below, at), Entry::Link(text.to_vec()));
            }
        }
        4 | 27 => {
            tree.put(join(&below, b"pipe.ts"), Entry::Fifo);
            tree.put(join(&below, b"socket.ts"), Entry::Socket);
        }
        5 => {
            file(b"locked/a.ts", b"needle\n");
            file(b"locked.ts", b"needle\n");
            file(b"free.ts", b"needle\n");
            tree.lock(join(&below, b"locked"));
            tree.lock(join(&below, b"locked.ts"));
        }
        6 => {
            file(b"shut/a.ts", b"needle\n");
            file(b"shut.ts", b"needle\n");
            file(b"open/shut.ts", b"needle\n");
            tree.deny(join(&below, b"shut"));
            tree.deny(join(&below, b"shut.ts"));
            tree.deny(join(&below, b"open/shut.ts"));
        }
        7 => {
            for path in ["a\nb.ts".as_bytes(), b"a\tb.ts", b"a\xff.ts", b"d\xff/a.ts", b"\xc3.ts"] {
                file(path, b"needle\n");
            }
        }
        8 => {
            file(b".gitignore", b"*.log\nout/\n!/keep.log\n/sub/b\n");
            file(b"sub/.gitignore", b"!a.log\n/b.ts\n!b\n");
            file(b"out/.gitignore", b"!*\n");
            for path in
                [&b"keep.log"[..], b"x.log", b"sub/a.log", b"sub/b.ts", b"sub/c.log", b"sub/b", b"out/f.ts"]
            {
                file(path, b"needle\n");
            }
        }
        9 => {
            for path in [&b".ignore"[..], b".rgignore", b".hgignore", b".git/info/exclude", b"sub/.ignore"] {
                file(path, b"*\n!b\n");
            }
            file(b".git/config", b"[core]\n\texcludesFile = .ignore\n");
            file(b"a.ts", b"needle\n");
            file(b"sub/a.ts", b"needle\n");
        }
        10 => {
            file(b".gitignore", b"*.log\n");
            file(b"nest/.git/HEAD", b"ref: refs/heads/main\n");
            file(b"nest/a.log", b"needle\n");
            file(b"nest/a.ts", b"needle\n");
        }
        11 => {
            file(b".gitignore", b"\\#a\n\\!b\n#c\na\\ \nx  \n");
            for path in [&b"#a"[..], b"!b", b"#c", b"a ", b"x", b"d/#a", b"d/!b"] {
                file(path, b"needle\n");
            }
        }
        12 => {
            file(b".gitignore", b"{a,b}\na{1}\ny\t\n");
            for path in [&b"{a,b}"[..], b"a", b"a{1}", b"y\t", b"y", b"d/{a,b}"] {
                file(path, b"needle\n");
            }
        }
        13 => {
            let mark: &[u8] = if random.chance(50) { b"\xef\xbb\xbf" } else { b"" };
            file(b".gitignore", &[mark, b"first.ts\r\n*.log\r\n/d/\r\n"].concat());
            for path in [&b"first.ts"[..], b"d/a.ts", b"a.log", b"e/d/a.ts"] {
                file(path, b"needle\n");
            }
        }
        14 => {
            file(b".gitignore", b"\xff\n[a\nz\\\n[b-\n*.log\n");
            for path in [&b"a.log"[..], b"z", b"b", b"[a"] {
                file(path, b"needle\n");
            }
        }
        15 => {
            file(b"real", b"*.ts\n");
            file(b"d/a.ts", b"needle\n");
            file(b"e/a.ts", b"needle\n");
            file(b"e/.gitignore/f", b"*\n");
            tree.put(join(&below, b"d/.gitignore"), Entry::Link(b"../real".to_vec()));
        }
        16 => {
            file(b".gitignore", b"a.ts\n**/m\nn/**\np/**/q\n/r/\ns/t\n");
            for path in [
                &b"A.ts"[..],
                b"a.ts",
                b"x/y/m",
                b"n/f",
                b"p/q",
                b"p/a/b/q",
                b"r/a",
                b"x/r/a",
                b"s/t",
                b"x/s/t",
                b"r.ts",
            ] {
                file(path, b"needle\n");
            }
        }
        17 | 24 => {
            for path in [&b"!b"[..], b"#a", b"a,b", b"d/!b", "\u{e9}.ts".as_bytes(), b"c.ts", b"-a", b"a b"] {
                file(path, b"needle\n");
            }
        }
        18 | 25 => {
            for path in [
                &b"src/m.js"[..],
                b"src/sub/n.js",
                b"vendor/a.js",
                b"vendor/b/c.js",
                b"top.js",
                b"src/src/q.js",
            ] {
                file(path, b"needle\n");
            }
        }
        19 => {
            file(b"text", b"needle\r\nb\rneedle\r\n\r\nend needle\r");
            file(b"mark", b"\xef\xbb\xbfneedle\nb\n");
            file(b"spoilt", b"\xffneedle\xe2\x82\nb\n\xf0\x9f\n");
            file(b"nul", b"needle\nneedle\0\n");
        }
        20 => {
            for number in 0..30 {
                let content = b"needle\nb\n".repeat(1 + number % 5);
                file(format!("many/{}/f{number}.ts", number % 7).as_bytes(), &content);
            }
        }
        21 => {
            file(b".gitignore", b"*.log\n");
            file(b"a.log", b"needle\n");
            file(b"d/a.log", b"needle\n");
            file(b".hid/a.log", b"needle\n");
        }
        22 if random.chance(20) => {
            for name in [&b"c1"[..], b"c2", b"c3"] {
                file(name, &b"needle\n".repeat(4_000));
            }
        }
        23 => {
            for number in 0..4 {
                let source = declarations(random);
                file(format!("code{number}.rs").as_bytes(), &source);
            }
        }
        _ => {}
    }
}

/// Lines of declarations and blocks, indented well and badly.
fn declarations(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 30] = [
        "fn a() {",
        "}",
        "needle",
        "x = needle",
        "",
        "pub(crate) struct B {",
        "async def f(self):",
        "class A:",
        "impl A for B {",
        "});",
        ")",
        ") {",
        "]: [",
        "export default class C {",
        "const fn d(",
        "a: u8,",
        ") -> u8 {",
        "pub fn",
        "function* g() {",
        "type T = u8;",
        "enum E { A }",
        "def f",
        "  ",
        "fnx y",
        "pub(in a b) trait T {",
        "sub z;",
        "module",
        "\u{e9} needle",
        "pub\tunsafe\tfn\tt()",
        "interface $a {",
    ];
    let mut depth = 0;
    let mut source = Vec::new();
    for _ in 0..random.below(24) {
        let part = random.text(&PARTS);
        if part.starts_with(['}', ')', ']']) || random.chance(15) {
            depth = usize::saturating_sub(depth, 1);
        }
        source.extend_from_slice(if random.chance(10) { "\t" } else { "  " }.repeat(depth).as_bytes());
        source.extend_from_slice(part.as_bytes());
        source.extend_from_slice(if random.chance(8) { b"\r\n" } else { b"\n" });
        if part.ends_with(['{', ':', '(']) {
            depth += 1;
        }
    }
    source
}
