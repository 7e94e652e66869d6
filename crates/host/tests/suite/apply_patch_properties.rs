//! The invariants of host contract 6 on random texts, patches and trees.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flowcell_host::kernel::HandlerError;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::patch::{Change, Chunk, derive, paths};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::exercise_patch::{check, model, patch_apply, patch_parse};
use crate::support::{Fixture, full_volume};
use crate::tree::{differing, tree};

/// Cases of CI, and of the full volume.
const CASES: u32 = 192;
const FULL_CASES: u32 = 20_000;

fn cases(part: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if full_volume() { FULL_CASES } else { CASES } / part)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap()).block_on(future)
}

/// Few lines, so that they repeat; with blanks and typography for the looser passes.
fn line() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("a"), 4 => Just("b"), 3 => Just(""), 1 => Just("a "), 1 => Just(" b\t"), 1 => Just(" "),
        1 => Just("-"), 1 => Just("\u{2014}"), 1 => Just("a\u{a0}b"), 1 => Just("a b"), 1 => Just("é"),
    ]
}

fn ending() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r\r\n")]
}

fn text() -> impl Strategy<Value = String> {
    (prop::collection::vec((line(), ending()), 0..12), any::<bool>()).prop_map(|(lines, open)| {
        let mut text: String = lines.iter().flat_map(|(line, ending)| [*line, *ending]).collect();
        if open {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

/// A chunk as lines with marks: 0 keeps, 1 removes, 2 adds.
type Drawn = (Option<&'static str>, Vec<(u8, &'static str)>, bool);

fn chunk() -> impl Strategy<Value = Drawn> {
    let changes = prop::collection::vec((0u8..3, line()), 1..5);
    (prop::option::weighted(0.2, line()), changes, prop::bool::weighted(0.2))
}

fn chunks(drawn: &[Drawn]) -> Vec<Chunk<'_>> {
    let change = |(mark, line): &(u8, &'static str)| match mark {
        0 => Change::Keep(line),
        1 => Change::Remove(line),
        _ => Change::Add(line),
    };
    let chunk = |(context, changes, end_of_file): &Drawn| Chunk {
        context: *context,
        changes: changes.iter().map(change).collect(),
        end_of_file: *end_of_file,
    };
    drawn.iter().map(chunk).collect()
}

/// Chunks that are cut out of the text, in order: each takes some lines, keeps or removes them, and adds others.
fn cut(text: &str, plan: &[(usize, usize, u8, &'static str)]) -> Vec<Chunk<'static>> {
    let lines: Vec<&'static str> = text
        .split_terminator('\n')
        .map(|line| &*Box::leak(line.strip_suffix('\r').unwrap_or(line).to_owned().into_boxed_str()))
        .collect();
    let mut at = 0;
    let mut chunks = Vec::new();
    for (skip, take, how, added) in plan {
        let from = at + skip;
        let Some(taken) = lines.get(from..from + take) else { break };
        let mut changes = Vec::new();
        for (n, line) in taken.iter().enumerate() {
            changes.push(if (how >> n) & 1 == 1 { Change::Remove(line) } else { Change::Keep(line) });
            if (how >> (n + 3)) & 1 == 1 {
                changes.push(Change::Add(added));
            }
        }
        chunks.push(Chunk { context: None, changes, end_of_file: false });
        at = from + take;
    }
    chunks
}

fn plan() -> impl Strategy<Value = Vec<(usize, usize, u8, &'static str)>> {
    prop::collection::vec((0usize..4, 1usize..4, any::<u8>(), line()), 1..4)
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn derivation_is_the_plain_model(text in text(), drawn in prop::collection::vec(chunk(), 1..4)) {
        let _ = check(&text, &chunks(&drawn));
    }

    #[test]
    fn what_is_cut_out_of_a_text_is_found_in_it(text in text(), plan in plan()) {
        let chunks = cut(&text, &plan);
        let new = check(&text, &chunks);
        prop_assert!(new.is_ok(), "{:?}", new);
    }

    /// Of a file whose lines end in LF the result is an array of lines with some of them replaced.
    #[test]
    fn on_line_feeds_it_is_an_array_of_lines(
        lines in prop::collection::vec("[a-z]{1,2}", 1..10), at in 0usize..10, length in 1usize..4, new in prop::collection::vec(line(), 0..4),
    ) {
        let length = length.min(lines.len());
        let at = at.min(lines.len() - length);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        // The first place of these lines.
        let at = (0..=at).find(|from| lines[*from..from + length] == lines[at..at + length]).unwrap();
        let mut changes: Vec<Change<'_>> = lines[at..at + length].iter().map(|line| Change::Remove(line)).collect();
        changes.extend(new.iter().map(|line| Change::Add(line)));
        let chunks = [Chunk { context: None, changes, end_of_file: false }];
        let mut expected: Vec<&str> = lines.iter().map(String::as_str).collect();
        expected.splice(at..at + length, new.iter().copied());
        let expected: String = expected.iter().map(|line| format!("{line}\n")).collect();
        prop_assert_eq!(derive(&text, &chunks, &|| false), Ok(expected.clone()));
        prop_assert_eq!(model(&text, &chunks), Some(expected));
    }

    #[test]
    fn a_files_own_lines_change_nothing(text in text(), plan in plan()) {
        let text = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
        let mut chunks = cut(&text, &plan);
        for change in chunks.iter_mut().flat_map(|chunk| &mut chunk.changes) {
            if let Change::Remove(line) = *change {
                *change = Change::Keep(line);
            }
        }
        for chunk in &mut chunks {
            chunk.changes.retain(|change| !matches!(change, Change::Add(_)));
        }
        prop_assert_eq!(derive(&text, &chunks, &|| false), Ok(text));
    }

    #[test]
    fn any_text_is_parsed_or_refused(pieces in prop::collection::vec(piece(), 0..12), wrapped: bool) {
        let text = pieces.join("\n");
        let text = if wrapped { format!("*** Begin Patch\n{text}\n*** End Patch") } else { text };
        patch_parse(text.as_bytes());
        patch_apply(format!("a\nb\n---\n{text}").as_bytes());
    }
}

/// A line of a patch.
fn piece() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "a",
        "./a",
        "b/../a",
        "c",
        "d/x",
        "l",
        "ro",
        "e/new/f",
        "bin",
        "/nowhere/x",
        "d",
    ]);
    prop_oneof![
        2 => path.clone().prop_map(|path| format!("*** Add File: {path}")),
        2 => path.clone().prop_map(|path| format!("*** Delete File: {path}")),
        4 => path.clone().prop_map(|path| format!("*** Update File: {path}")),
        1 => path.prop_map(|path| format!("*** Move to: {path}")),
        2 => Just("@@".to_owned()),
        1 => line().prop_map(|line| format!("@@ {line}")),
        1 => Just("*** End of File".to_owned()),
        8 => (prop::sample::select(vec![" ", "-", "+"]), line()).prop_map(|(mark, line)| format!("{mark}{line}")),
        1 => line().prop_map(str::to_owned),
    ]
}

/// Sections that are right in themselves; whether the tree takes them is another matter.
fn section() -> impl Strategy<Value = String> {
    let path =
        prop::sample::select(vec!["a", "c", "d/x", "d/y", "l", "e/new/f", "bin", "k/secret", "a/below", "d"]);
    let body = prop_oneof![
        3 => Just("@@\n one\n-two\n+2\n"),
        1 => Just("@@\n+end\n"),
        1 => Just("@@\n-none\n"),
    ];
    let to = prop::option::weighted(0.3, path.clone());
    prop_oneof![
        2 => path.clone().prop_map(|path| format!("*** Add File: {path}\n+x\n")),
        1 => path.clone().prop_map(|path| format!("*** Delete File: {path}\n")),
        3 => (path, to, body).prop_map(|(path, to, body)| {
            let to = to.map_or(String::new(), |to| format!("*** Move to: {to}\n"));
            format!("*** Update File: {path}\n{to}{body}")
        }),
    ]
}

proptest! {
    #![proptest_config(cases(2))]

    /// Through the handler: a failing call leaves the tree as it was, and one that succeeds changes what `paths` says.
    #[test]
    fn all_or_nothing(sections in prop::collection::vec(section(), 1..5), late: bool) {
        let fixture = Fixture::with_rules(&[
            (Effect::Allow, "fs:read:/**"),
            (Effect::Allow, "fs:write:{root}/**"),
            (Effect::Deny, "fs:write:{root}/k/**"),
        ]);
        for path in ["a", "c", "d/x", "k/secret", "target"] {
            fixture.put(path, "one\ntwo\nthree\n");
        }
        fixture.chmod("c", 0o751);
        fixture.put("bin", b"\0");
        fixture.link("target", "l");
        let before = tree(&fixture.root());
        let late = if late { "*** Add File: zz\n+x\n*** Add File: zz/below\n+x\n" } else { "" };
        let patch = format!("*** Begin Patch\n{}{late}*** End Patch", sections.concat());
        let named = paths(&patch);
        let outcome = block_on(fixture.patch(&patch));
        let changed = differing(&before, &tree(&fixture.root()));
        match outcome {
            Err(error) => {
                prop_assert!(matches!(error, HandlerError::Flow(_)), "{:?}", error);
                prop_assert_eq!(changed, Vec::<PathBuf>::new(), "{} {:?}", patch, error);
            }
            Ok(output) => {
                prop_assert!(late.is_empty());
                let named = named.unwrap();
                let listed = output.added.len() + output.modified.len() + output.deleted.len();
                prop_assert_eq!(listed, sections.len());
                for changed in changed {
                    let through = if changed == Path::new("target") { Path::new("l") } else { &changed };
                    let covered = |path: &String| Path::new(path).starts_with(through);
                    prop_assert!(named.iter().any(covered), "{:?} is not in {:?}", changed, named);
                }
            }
        }
    }
}

#[test]
fn the_kept_corpora_hold() {
    for (target, run) in [("patch_parse", patch_parse as fn(&[u8])), ("patch_apply", patch_apply)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 5, "{files} files in the corpus of {target}");
    }
}
