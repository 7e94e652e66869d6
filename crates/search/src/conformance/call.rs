//! Random calls that fit a tree.

use std::fmt;

use super::random::Random;
use super::tree::{Entry, Tree};
use crate::query::{GlobQuery, GrepQuery};

/// One call of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// By names.
    Glob(GlobQuery),
    /// By lines.
    Grep(GrepQuery),
}

impl Call {
    /// A random call on `tree`, most often one that finds something.
    pub fn random(random: &mut Random, tree: &Tree) -> Self {
        if random.chance(40) {
            Self::Glob(GlobQuery {
                pattern: glob(random, tree),
                root: root(random, tree),
                hidden: random.chance(30),
                no_ignore: random.chance(25),
                limit: random.chance(15).then(|| random.below(6) as u64),
            })
        } else {
            Self::Grep(grep(random, tree))
        }
    }

    /// The root that is asked for.
    pub fn root(&self) -> &str {
        match self {
            Self::Glob(query) => query.root.as_deref().unwrap_or("."),
            Self::Grep(query) => query.root.as_deref().unwrap_or("."),
        }
    }

    /// The globs that are asked for, in order.
    pub fn globs(&self) -> Vec<&str> {
        match self {
            Self::Glob(query) => vec![query.pattern.as_str()],
            Self::Grep(query) => query.globs.iter().map(String::as_str).collect(),
        }
    }

    /// Whether names that begin with a dot are looked at.
    pub fn hidden(&self) -> bool {
        match self {
            Self::Glob(query) => query.hidden,
            Self::Grep(query) => query.hidden,
        }
    }

    /// Whether no `.gitignore` is read.
    pub fn no_ignore(&self) -> bool {
        match self {
            Self::Glob(query) => query.no_ignore,
            Self::Grep(query) => query.no_ignore,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is as it is by default says nothing.
        let text = match self {
            Self::Glob(query) => format!("{query:?}"),
            Self::Grep(query) => format!("{query:?}"),
        };
        let (name, fields) = text.split_once(" { ").unwrap_or((text.as_str(), ""));
        let fields = fields.trim_end_matches(" }");
        let said = fields
            .split(", ")
            .filter(|field| ![": false", ": None", ": []"].iter().any(|default| field.ends_with(default)));
        write!(f, "{name} {{ {} }}", said.collect::<Vec<_>>().join(", "))
    }
}

/// Names of trees that are there for the sake of globs.
const SHOWN: [&[u8]; 4] = [b"!b", b"#a", b"a,b", b"src/sub/n.js"];

/// Whether a path of the tree holds these bytes.
fn has(tree: &Tree, part: &[u8]) -> bool {
    tree.entries().keys().any(|path| path.windows(part.len()).any(|window| window == part))
}

fn grep(random: &mut Random, tree: &Tree) -> GrepQuery {
    let fixed_strings = random.chance(15);
    let globs = match random.below(10) {
        _ if SHOWN.iter().any(|part| has(tree, part)) && random.chance(75) => {
            (0..2 + random.below(3)).map(|_| glob(random, tree)).collect()
        }
        0..6 => Vec::new(),
        // What follows takes away from everything, or adds to it.
        6..8 => std::iter::once("**".to_owned())
            .chain((0..1 + random.below(3)).map(|_| glob(random, tree)))
            .collect(),
        8 => vec![glob(random, tree)],
        _ => (0..2 + random.below(3)).map(|_| glob(random, tree)).collect(),
    };
    let context = |random: &mut Random| {
        let lines = if random.chance(4) { 1001 } else { random.below(5) as u64 };
        random.chance(25).then_some(lines)
    };
    let mut query = GrepQuery {
        pattern: pattern(random, fixed_strings),
        root: root(random, tree),
        fixed_strings,
        ignore_case: random.chance(15),
        smart_case: random.chance(12),
        globs,
        before_context: context(random),
        after_context: context(random),
        context: None,
        max_count: random.chance(18).then(|| 1 + random.below(3) as u64),
        files_with_matches: random.chance(20),
        hidden: random.chance(30),
        no_symbols: random.chance(40),
        no_ignore: random.chance(25),
        limit: random.chance(15).then(|| random.below(5) as u64),
    };
    if query.before_context.is_none() && query.after_context.is_none() || random.chance(2) {
        query.context = context(random);
    }
    // Options that exclude each other are asked for seldom.
    if query.ignore_case && query.smart_case && random.chance(75) {
        query.smart_case = false;
    }
    if random.chance(1) {
        query.max_count = Some(0);
    }
    query
}

const REFUSED: [&str; 26] = [
    "\u{e9}",
    "\t",
    "(?:a)",
    "(?i)a",
    "(?=a)",
    "\\d",
    "\\bneedle",
    "a\\",
    "\\\"",
    "\\-",
    "[[a]",
    "[]",
    "[^]",
    "[a-z&&b]",
    "[z-a]",
    "[abc",
    "{",
    "a}",
    "x]",
    "fn f() {",
    "a{,3}",
    "a{1001}",
    "*a",
    "a**",
    "foo(",
    "(a{1000}){9}",
];

/// Patterns that find nothing as expressions and something as plain text.
const RETRIED: [&str; 7] =
    ["foo(bar)", "a{3}", "[a-z]+\\[?$x", "$x^y", "widen(self, v)", "[a-z]+$x", "a|b|[q]^\\[z"];

const COMMON: [&str; 38] = [
    "ne+dle",
    "e",
    "",
    "needle|a",
    "needle",
    "needle",
    "needle",
    "needle",
    "needle",
    "need",
    "^needle",
    "needle$",
    "n..dle",
    "[Nn]eedle",
    "(needle|b)",
    "a",
    "b",
    "",
    "^",
    "$",
    "^$",
    "a.b",
    "a[^x]",
    ".$",
    "^.",
    "needle.",
    "k",
    "s",
    "[^a-z]",
    "e+d",
    "a{3}",
    "\\(",
    "\\\\",
    "[0-9]+",
    "x.y",
    "fn [a-z]+",
    ".*",
    "NEEDLE",
];

const PARTS: [&str; 28] = [
    "a",
    "b",
    "n",
    "e",
    "needle",
    ".",
    "^",
    "$",
    "[ab]",
    "[^a]",
    "[a-z]",
    "[^a-z ]",
    "(a|)",
    "(b|$)",
    ".*",
    "a+?",
    "e*",
    "(^|a)",
    "e{2}",
    ".{0,2}",
    " ",
    "\\.",
    "\\(",
    "[\\]\\-a]",
    "()",
    "(a|b|needle)",
    "k",
    "(ne){1,}",
];

fn pattern(random: &mut Random, fixed: bool) -> String {
    if fixed {
        let literals = [
            "needle",
            "a.b",
            "foo(bar)",
            "[a-z]+",
            "$x^y",
            "a|b",
            "\\needle\\",
            "",
            "//",
            "a{3}",
            "{",
            "Needle",
            "k",
            "}",
            "\u{e9}",
        ];
        return random.text(&literals).to_owned();
    }
    match random.below(100) {
        0..3 => random.text(&REFUSED).to_owned(),
        3..7 => random.text(&RETRIED).to_owned(),
        7..86 => random.text(&COMMON).to_owned(),
        _ => (0..1 + random.below(4)).map(|_| random.text(&PARTS)).collect(),
    }
}

fn root(random: &mut Random, tree: &Tree) -> Option<String> {
    let directories: Vec<Vec<u8>> = tree.directories().into_iter().collect();
    let choose = |random: &mut Random, like: fn(&Entry) -> bool| {
        let paths: Vec<&Vec<u8>> =
            tree.entries().iter().filter(|(_, entry)| like(entry)).map(|(path, _)| path).collect();
        random.pick(&paths).and_then(|path| String::from_utf8((*path).clone()).ok())
    };
    let directory = |random: &mut Random| {
        let path = random.pick(&directories).cloned().unwrap_or_default();
        String::from_utf8(path).ok().filter(|path| !path.is_empty())
    };
    let odd = |like: fn(&Entry) -> bool| tree.entries().values().any(like);
    if random.chance(16) && odd(|entry| matches!(entry, Entry::Link(_))) {
        return choose(random, |entry| matches!(entry, Entry::Link(_)));
    }
    if random.chance(22) && odd(|entry| matches!(entry, Entry::Fifo | Entry::Socket)) {
        return choose(random, |entry| matches!(entry, Entry::Fifo | Entry::Socket));
    }
    match random.below(100) {
        0..62 => None,
        62..66 => Some(random.text(&[".", "./", "", "./.", ".//"]).to_owned()),
        66..72 => directory(random),
        72..76 => directory(random).map(|path| format!("./{path}/")),
        76..78 => {
            directory(random).map(|path| format!("{path}/../{}", path.rsplit('/').next().unwrap_or_default()))
        }
        78..82 => Some(format!(
            "{WORKSPACE}{}",
            directory(random).map(|path| format!("/{path}")).unwrap_or_default()
        )),
        82..95 => choose(random, |entry| matches!(entry, Entry::File(_))),
        95..98 => Some(random.text(&["nowhere", "src/nowhere", "a.ts/x"]).to_owned()),
        _ => tree.denied().iter().next().and_then(|path| String::from_utf8(path.clone()).ok()),
    }
}

/// What stands in a root for the absolute path of the workspace, which is known only when a tree is planted.
pub(crate) const WORKSPACE: &str = "\u{1}ws";

/// A glob made of a path of the tree, or one outside the grammar.
pub(crate) fn glob(random: &mut Random, tree: &Tree) -> String {
    if random.chance(2) {
        let refused =
            ["", " ", "!", "{a}", "{a,{b}}", "{a,b", "a}", "[ab]", "a\\b", "\u{e9}", "a\tb", "{}", "!{a}"];
        return random.text(&refused).to_owned();
    }
    if random.chance(18) {
        return random.text(&["**", "*", "*.*", "**/*", "*.ts", "!*.md", "*s*", "{*,.*}", "!q"]).to_owned();
    }
    let named = |part: &[u8]| has(tree, part);
    if random.chance(15) {
        let quirks = [
            "{**,a//b}",
            "{**,../a}",
            "{*,a**}",
            "{*,**s}",
            "*/**/*",
            "src/**/*",
            "{*,//}",
            "{*,*/..}",
            "{*,b**}",
            "**a**",
            "*/**/*.ts",
            "{a,b}/**/*",
            "{*,*//*}",
            "**/../**",
            "**//**",
            "*.*/**/*",
            "**.ts",
            "{*/**,*/**/a.ts}",
        ];
        return random.text(&quirks).to_owned();
    }
    if random.chance(45) && named("\u{e9}".as_bytes()) {
        return random.text(&["?.ts", "??.ts", "?", "??", "??*", "{?,??}{,.ts}"]).to_owned();
    }
    if random.chance(60) && (named(b"!b") || named(b"#a") || named(b"a,b")) {
        let odd = [
            "!!b", "/!b", "./!b", "!./!b", "#a", "!#a", "a,b", "*,*", "?b", "{#a,/!b}", "{#*,b}", "#?",
            "**/!b", "/#a",
        ];
        return random.text(&odd).to_owned();
    }
    if random.chance(70) && named(b"src/sub/n.js") {
        let pruning = [
            "!src", "!src", "*.js", "*.js", "!src/**", "!vendor/", "!vendor", "!src/", "!sub", "**/*.js",
            "!**/src/", "!b/",
        ];
        return random.text(&pruning).to_owned();
    }
    if random.chance(28) {
        let known = [
            "**",
            "*",
            "*.ts",
            "**/*.ts",
            "*.js",
            "!src",
            "!src/**",
            "!vendor",
            "!vendor/",
            "vendor",
            "vendor/",
            "src/*",
            "src/**",
            "{a,b}*",
            "{src/b,b}.ts",
            "a{,.ts}",
            "{,a}{b,.ts}",
            "{,b}{,.ts}",
            "{,a}*",
            "{**,a//b}",
            "{**,../a}",
            "{*,a**}",
            "{*,**s}",
            "*/**/*",
            "*/**/*.ts",
            "src/**/*",
            "{**,a/..}",
            "{*,//}",
            "{*,*/..}",
            "{**,b/**}",
            "*/**",
            "{*.ts,**.log}",
            "**/sub/**/*",
            "?.ts",
            "??.ts",
            "/!b",
            "!!b",
            "./!b",
            "!./!b",
            "#a",
            "!#a",
            "a,b",
            "a//b",
            "**//a",
            "../a",
            "a/../b",
            "**/..",
            "a**b",
            "**a",
            "a**",
            "**.ts",
            "a.ts ",
            "src/./b.ts",
            "./a.ts",
            "/a.ts",
            "src//a.ts",
            "*a*",
            "!*.log",
            "!*.ts",
            "**/sub/**",
            "*/a.ts",
            "**/.env",
            ".*",
            "nosuch/*.rs",
            "~/a",
            "node_modules/**",
            "{**/a,b}",
            "src/**/b.ts",
            "a/**",
            "**/",
            "*/",
            "/",
            "/**",
            "**/**",
            "*.{ts,js,log}",
            "{a,b}{.ts,.log}",
            "!*",
            "*b.ts",
            "A.TS",
            "a.TS",
            "!**/n.js",
            "b*",
            "**/**/a.ts",
            "./",
            ".",
            "a/.",
            "*.*",
            ".?*",
            "!.*",
        ];
        return random.text(&known).to_owned();
    }
    let paths: Vec<&Vec<u8>> = tree
        .entries()
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File(_) | Entry::Dir))
        .map(|(path, _)| path)
        .collect();
    let mut path = random.pick(&paths).map(|path| (*path).clone()).unwrap_or_else(|| b"a".to_vec());
    // Most globs name what is not left out anyway.
    let out = |path: &[u8]| {
        path.split(|byte| *byte == b'/').any(|name| name.starts_with(b".") || name == b"node_modules")
    };
    if out(&path) {
        path = random.pick(&paths).map(|path| (*path).clone()).unwrap_or(path);
    }
    // What the grammar has no byte for is one byte of anything.
    let printable = |byte: &u8| {
        if matches!(byte, b' '..=b'~') && !b"\\[]{},".contains(byte) { char::from(*byte) } else { '?' }
    };
    let text: String = path.iter().map(printable).collect();
    let mut segments: Vec<String> = text.split('/').map(str::to_owned).collect();
    if random.chance(35) && segments.len() > 1 {
        segments.drain(..segments.len() - 1);
    }
    for segment in &mut segments {
        match random.below(16) {
            0..2 => *segment = "*".to_owned(),
            2 => *segment = "**".to_owned(),
            3 => *segment = "?".repeat(segment.len()),
            4 => segment.insert(0, '*'),
            5 => {
                let extension = segment.rsplit_once('.').map(|(_, extension)| extension.to_owned());
                *segment = extension.map_or_else(|| "*".to_owned(), |extension| format!("*.{extension}"));
            }
            6 => *segment = format!("{{{segment},b}}"),
            7 if random.chance(40) => *segment = segment.to_uppercase(),
            _ => {}
        }
    }
    match random.below(20) {
        0 | 6 => segments.insert(0, "**".to_owned()),
        1 => segments.push("**".to_owned()),
        2 => segments.push(String::new()),
        3 => segments.insert(0, ".".to_owned()),
        4 => segments.insert(random.below(segments.len() + 1), "**".to_owned()),
        5 => segments.insert(0, String::new()),
        _ => {}
    }
    let mut text = segments.join("/");
    if random.chance(6) {
        text = format!("{{{text},{}}}", random.text(&["src/c", "b", "", "*.log"]))
            .replace("{{", "{")
            .replace("}}", "}");
    }
    if random.chance(22) {
        text.insert(0, '!');
    }
    if random.chance(4) {
        text.push(' ');
    }
    text
}
