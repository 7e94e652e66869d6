//! Lines at random, run by a real bash: what it starts has to be what the scanner saw.
//!
//! Every command of a line has a name of its own, and so has every text that only looks like one. Programs of these names
//! write down that they were started, and with which arguments.
#![allow(clippy::disallowed_methods, reason = "tests read how much they are to do")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use flowcell_kernel::process::{candidates_of_line, render_argv, scan};

const LINES: usize = 60;
const FULL_LINES: usize = 3_000;
/// Lines that one bash runs.
const BATCH: usize = 60;
/// Names of commands, and of texts that are none, in one line at most.
const NAMES: usize = 48;
/// What wraps commands; the test has these of the host, if the host has them.
const TOOLS: [&str; 9] = ["env", "nice", "timeout", "nohup", "xargs", "sh", "bash", "find", "stdbuf"];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.below(from.len() as u64)).unwrap();
        from[index]
    }
}

/// Writes a line.
struct Writer {
    random: Random,
    commands: usize,
    texts: usize,
    functions: usize,
    heredocs: usize,
    /// Bodies of here-documents, to come at the end of the line that is being written.
    bodies: Vec<String>,
}

impl Writer {
    fn command(&mut self) -> String {
        self.commands += 1;
        format!("s{}", self.commands - 1)
    }

    fn text(&mut self) -> String {
        self.texts += 1;
        format!("d{}", self.texts - 1)
    }

    fn full(&self) -> bool {
        self.commands + 8 >= NAMES || self.texts + 8 >= NAMES
    }

    fn line(&mut self) -> String {
        let depth = self.random.below(7).saturating_sub(3);
        let mut line = self.list(depth);
        if self.random.below(6) == 0 {
            let text = self.text();
            let _ = write!(line, " # {text} it's; {text} x");
        }
        self.end(&mut line);
        line
    }

    /// A newline, where here-documents begin.
    fn end(&mut self, line: &mut String) {
        if !self.bodies.is_empty() {
            line.push('\n');
            line.push_str(&std::mem::take(&mut self.bodies).concat());
        }
    }

    fn list(&mut self, depth: u64) -> String {
        let mut list = self.pipeline(depth);
        for _ in 0..self.random.below(3) {
            if self.full() {
                break;
            }
            match self.random.below(8) {
                0 | 1 => list.push_str("; "),
                2 => list.push_str(" && "),
                3 => list.push_str(" || "),
                4 => list.push_str(" & "),
                5 => list.push(';'),
                _ => {
                    self.end(&mut list);
                    if !list.ends_with('\n') {
                        list.push('\n');
                    }
                }
            }
            list.push_str(&self.pipeline(depth));
        }
        list
    }

    fn pipeline(&mut self, depth: u64) -> String {
        let mut pipeline = self.part(depth);
        if self.random.below(4) == 0 {
            pipeline.push_str(self.random.pick(&[" | ", "|", " |& "]));
            pipeline.push_str(&self.part(depth));
        }
        pipeline
    }

    /// A list that stands inside something, its here-documents with it.
    fn inner(&mut self, depth: u64) -> String {
        let outside = std::mem::take(&mut self.bodies);
        let mut list = self.list(depth - 1);
        let had = !self.bodies.is_empty();
        self.end(&mut list);
        if !had && list.ends_with(['&', ' ']) {
            list.push_str("true");
        }
        self.bodies = outside;
        list
    }

    /// What may still be nested here: nothing with a newline while a here-document waits for one.
    fn room(&self, depth: u64) -> u64 {
        if self.bodies.is_empty() { depth } else { 0 }
    }

    fn part(&mut self, depth: u64) -> String {
        let depth = self.room(depth);
        if depth == 0 || self.full() {
            return self.simple(0);
        }
        match self.random.below(16) {
            0 => format!("( {})", self.inner(depth)),
            1 => format!("{{ {}\n}}", self.inner(depth)),
            2 => format!("if {}\nthen {}\nfi", self.inner(depth), self.inner(depth)),
            3 => format!("for v in x y; do {}\ndone", self.inner(depth)),
            4 => format!("case x in x) {}\n;; y) {}\n;; esac", self.inner(depth), self.inner(depth)),
            // A name of its own: one that is defined in a branch not taken would call what is around it, for ever.
            5 => {
                self.functions += 1;
                let name = format!("f{}", self.functions);
                format!("{name}() {{ {}\n}}; {name}", self.inner(depth))
            }
            6 => format!("! {}", self.simple(depth)),
            7 => format!("until true; do {}\ndone", self.inner(depth)),
            8 => format!("bash -c {}", quoted(&self.inner(depth))),
            9 => format!("eval {}", quoted(&self.inner(depth))),
            10 => format!("sh -ec {}", quoted(&self.plain())),
            _ => self.simple(depth),
        }
    }

    /// A command of one word and simple arguments, without anything that nests.
    fn plain(&mut self) -> String {
        let command = self.command();
        let rest = self.random.pick(&["", " a", " a b", " 2>&1", " >/dev/null"]);
        format!("{command}{rest}")
    }

    fn simple(&mut self, depth: u64) -> String {
        let mut text = String::new();
        if self.random.below(8) == 0 {
            text.push_str(self.random.pick(&["A=1 ", "A=1 B='x y' ", "A+=x "]));
        }
        if self.random.below(10) == 0 {
            text.push_str(self.random.pick(&[">out ", "2>/dev/null ", "</dev/null "]));
        }
        if self.random.below(3) == 0 {
            text.push_str(self.random.pick(&[
                "command ",
                "env ",
                "env A=1 ",
                "env -u A -- ",
                "nice -n 5 ",
                "timeout 5 ",
                "timeout -s KILL 5 ",
                "nohup ",
                "xargs -n 1 ",
                "xargs -I{} ",
                "stdbuf -oL ",
                "command -p ",
                "env -i PATH=\"$PATH\" LOG=\"$LOG\" LINE=\"$LINE\" ",
                "find . -maxdepth 0 -exec ",
                "nice timeout -k 1 5 env ",
                "time ",
                "env -S ",
            ]));
        }
        let find = text.contains("find");
        let split = text.ends_with("-S ");
        let name = self.command();
        text.push_str(&match self.random.below(if split { 1 } else { 8 }) {
            0..=3 => name,
            4 => format!("\\{name}"),
            5 => format!("s''{}", &name[1..]),
            6 => format!("\"{name}\""),
            _ => format!("$'{name}'"),
        });
        for _ in 0..self.random.below(4) {
            text.push(' ');
            let argument = self.argument(depth);
            text.push_str(&argument);
        }
        if find {
            text.push_str(self.random.pick(&[" \\;", " {} +", " ';'"]));
        } else if self.random.below(8) == 0 {
            text.push_str(self.random.pick(&[
                " >out",
                " 2>&1",
                " >/dev/null",
                " &>/dev/null",
                " >>out 2>&1",
            ]));
        } else if self.random.below(8) == 0 {
            self.heredoc(&mut text, depth);
        }
        text
    }

    fn heredoc(&mut self, text: &mut String, depth: u64) {
        self.heredocs += 1;
        let end = format!("E{}", self.heredocs);
        if self.random.below(2) == 0 {
            let data = self.text();
            let _ = write!(text, " <<'{end}'");
            self.bodies.push(format!("{data} x\n$({data}) `{data}` it's \"\n; {data}\n{end}\n"));
        } else {
            let data = self.text();
            let inside = if depth > 0 { self.inner(depth) } else { self.plain() };
            let _ = write!(text, " <<{end}");
            self.bodies.push(format!("{data} x; it's\n$( {inside}\n) \\$({data})\n{end}\n"));
        }
    }

    fn argument(&mut self, depth: u64) -> String {
        let depth = self.room(depth);
        match self.random.below(if depth > 0 && !self.full() { 24 } else { 14 }) {
            0..=3 => self.random.pick(&["a", "-x", "a/b", "--c=d", "{}"]).to_owned(),
            4 => "'b c'".to_owned(),
            5 => "\"d 'e' f\"".to_owned(),
            6 => format!("'; {0} x; $({0})'", self.text()),
            7 => format!("\"| {0} \\$({0}) \\`{0}\\` \\\" ; {0}\"", self.text()),
            8 => format!("\\;{0}\\$\\({0}\\)", self.text()),
            9 => format!("a#{}", self.text()),
            10 => "\"$HOME\" ${HOME}x".to_owned(),
            11 => self.text(),
            12 => "\"\" ''".to_owned(),
            13 => "*.none".to_owned(),
            14 | 15 => format!("$( {}\n)", self.inner(depth)),
            16 | 17 => format!("\"a $( {}\n) 'b'\"", self.inner(depth)),
            18 => format!("`{}`", self.plain()),
            19 => format!("\"`{}`\"", self.plain()),
            20 => format!("${{u:-$( {}\n)}}", self.inner(depth)),
            21 => format!("\"${{u:-its $( {}\n)}}\"", self.inner(depth)),
            22 => format!("<( {}\n)", self.inner(depth)),
            _ => format!("$((1 + $( {}\n) 0))", self.inner(depth)),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A directory of programs that write down their names.
fn stubs(dir: &Path) -> bool {
    let find = |name: &str| {
        ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
    };
    for tool in TOOLS {
        match find(tool) {
            Some(path) => symlink(path, dir.join(tool)).unwrap(),
            None => return false,
        }
    }
    let stub = dir.join("stub");
    let text = "#!/bin/sh\nw=\nfor a; do w=\"$w$a\u{1f}\"; done\nprintf '%s\\036' \"$LINE|${0##*/}|$w\" >> \"$LOG\"\n";
    std::fs::write(&stub, text).unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    for n in 0..NAMES {
        symlink(&stub, dir.join(format!("s{n}"))).unwrap();
        symlink(&stub, dir.join(format!("d{n}"))).unwrap();
    }
    true
}

fn volume() -> usize {
    if std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full") {
        FULL_LINES
    } else {
        LINES
    }
}

#[test]
fn what_bash_starts_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, work) = (dir.path().join("bin"), dir.path().join("work"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&work).unwrap();
    if !stubs(&bin) {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no {TOOLS:?}");
        println!("skipped: what_bash_starts_was_seen: not all of {TOOLS:?} are there");
        return;
    }
    let (mut ran, mut started, mut exact, mut clear) = (0, 0, 0, 0);
    for batch in 0..volume().div_ceil(BATCH) {
        let lines: Vec<(String, usize)> = (0..BATCH)
            .map(|index| {
                let seed = (batch * BATCH + index) as u64;
                let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                let mut writer =
                    Writer { random, commands: 0, texts: 0, functions: 0, heredocs: 0, bodies: Vec::new() };
                for _ in 0..8 {
                    writer.random.below(2);
                }
                (writer.line(), writer.texts)
            })
            .collect();
        let log = dir.path().join(format!("log{batch}"));
        let mut driver = String::new();
        for (index, (line, _)) in lines.iter().enumerate() {
            // As a line of its own, in a process of its own.
            let _ = writeln!(
                driver,
                "export LINE={index}; ( eval {}\nwait ) </dev/null >/dev/null 2>&1",
                quoted(line)
            );
        }
        let script = dir.path().join("driver");
        std::fs::write(&script, driver).unwrap();
        let status = Command::new("/bin/bash")
            .args(["--norc", "--noprofile"])
            .arg(&script)
            .env_clear()
            .env("PATH", &bin)
            .env("LOG", &log)
            .env("HOME", "/nonexistent")
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.code().is_some(), "{status}");
        let mut records: BTreeMap<usize, Vec<Vec<String>>> = BTreeMap::new();
        for record in std::fs::read_to_string(&log).unwrap_or_default().split_terminator('\u{1e}') {
            let mut fields = record.splitn(3, '|');
            let index = fields.next().unwrap().parse().unwrap();
            let name = fields.next().unwrap().to_owned();
            let arguments = fields.next().unwrap();
            let arguments = arguments.split_terminator('\u{1f}').map(str::to_owned);
            records.entry(index).or_default().push(std::iter::once(name).chain(arguments).collect());
        }
        for (index, (line, texts)) in lines.iter().enumerate() {
            let candidates = candidates_of_line(line);
            let named = |name: &str| {
                let with = format!("{name} ");
                candidates.texts.iter().any(|text| text == name || text.starts_with(&with))
            };
            for text in 0..*texts {
                assert!(!named(&format!("d{text}")), "a text passes for a command: d{text} in\n{line}");
            }
            let Some(records) = records.get(&index) else { continue };
            ran += 1;
            started += records.len();
            let scanned = scan(line);
            clear += usize::from(!scanned.opaque);
            for record in records {
                let name = &record[0];
                assert!(candidates.undecidable || named(name), "{name} was started and not seen in\n{line}");
                // Where nothing is expanded, the segments of a line that is not opaque are what runs, word for word.
                let segment = scanned.segments.iter().find(|words| words[0] == *name);
                let plain = segment.filter(|words| !words.iter().any(|word| word.contains(['$', '*'])));
                if let Some(words) = plain.filter(|_| !scanned.opaque) {
                    assert_eq!(words, record, "in\n{line}");
                    assert!(candidates.texts.contains(&render_argv(record)), "{record:?} of\n{line}");
                    exact += 1;
                }
            }
        }
    }
    println!(
        "measured: what_bash_starts_was_seen: {ran} lines, {started} programs started, {clear} lines not opaque, {exact} \
         programs compared word for word"
    );
    assert!(ran > volume() / 2 && exact > volume() / 20 && clear > volume() / 10, "the grammar is no good");
}
