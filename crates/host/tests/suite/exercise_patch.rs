//! What the fuzz targets of patches do with their bytes; the suite runs the same over the kept corpus.

use flowcell_host::patch::{Action, Change, Chunk, DeriveError, ParseError, derive, parse, paths};

/// Lines up to which the plain model is asked as well.
const MODEL_LINES: usize = 200;

/// Bytes as a patch. Panics when the parser breaks a promise.
pub(crate) fn patch_parse(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.trim().split('\n').count();
    match parse(&text) {
        Ok(patch) => {
            assert!(!patch.sections.is_empty());
            let mut before = 1;
            for section in &patch.sections {
                assert!(section.line > before && section.line < lines.max(3) && !section.path.is_empty());
                before = section.line;
                if let Action::Update { chunks, .. } = &section.action {
                    assert!(!chunks.is_empty() && chunks.iter().all(|chunk| !chunk.changes.is_empty()));
                }
            }
            if let Some(paths) = paths(&text) {
                assert!(patch.sections.iter().all(|section| paths.iter().any(|path| path == section.path)));
            }
        }
        Err(error) => {
            assert_eq!(paths(&text), None);
            assert!(!error.to_string().is_empty());
            if let ParseError::Hunk { line, .. } = error {
                assert!(line >= 2 && line <= lines);
            }
        }
    }
}

/// Bytes as a text, a line of `---`, and the chunks of an update. Panics when the result differs from that of the plain
/// model.
pub(crate) fn patch_apply(data: &[u8]) {
    let data = String::from_utf8_lossy(data);
    let (text, body) = data.split_once("\n---\n").unwrap_or(("", &data));
    let patch = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch");
    let Ok(patch) = parse(&patch) else { return };
    for section in &patch.sections {
        if let Action::Update { chunks, .. } = &section.action {
            let _ = check(text, chunks);
        }
    }
}

/// Holds the result of some chunks to the plain model and to what is true of every result.
pub(crate) fn check(text: &str, chunks: &[Chunk<'_>]) -> Result<String, DeriveError> {
    let result = derive(text, chunks, &|| false);
    if let Ok(new) = &result {
        let added: usize =
            chunks.iter().flat_map(|chunk| &chunk.changes).map(|change| line(change).len() + 2).sum();
        assert!(new.len() <= text.len() + 2 + added);
        assert!(new.is_empty() || new.ends_with('\n'), "{new:?}");
    }
    let lines = text.lines().count() + chunks.iter().map(|chunk| chunk.changes.len()).sum::<usize>();
    if lines <= MODEL_LINES {
        assert_eq!(result.as_ref().ok(), model(text, chunks).as_ref(), "{text:?} {chunks:?}");
    }
    result
}

fn line<'a>(change: &Change<'a>) -> &'a str {
    match *change {
        Change::Keep(line) | Change::Remove(line) | Change::Add(line) => line,
    }
}

/// The contract as it is written down, on arrays of lines and without any care for time: `None` where something is not
/// found.
pub(crate) fn model(text: &str, chunks: &[Chunk<'_>]) -> Option<String> {
    let lines: Vec<(&str, &str)> = text
        .split_inclusive('\n')
        .map(|raw| {
            let body = raw.strip_suffix('\n').map_or(raw, |raw| raw.strip_suffix('\r').unwrap_or(raw));
            (body, &raw[body.len()..])
        })
        .collect();
    let preferred = lines.first().map(|line| line.1).filter(|ending| !ending.is_empty()).unwrap_or("\n");
    let texts: Vec<&str> = lines.iter().map(|line| line.0).collect();
    // What comes before each line, and whether the line stays.
    let mut before: Vec<Vec<&str>> = vec![Vec::new(); lines.len() + 1];
    let mut stays = vec![true; lines.len()];
    let mut tail: Vec<&str> = Vec::new();
    let mut cursor = 0;
    for chunk in chunks {
        if let Some(context) = chunk.context {
            cursor = model_seek(&texts, &[context], cursor, false)? + 1;
        }
        let mut changes = chunk.changes.clone();
        let old = |changes: &[Change<'_>]| -> Vec<String> {
            let old = changes.iter().filter(|change| !matches!(change, Change::Add(_)));
            old.map(|change| line(change).to_owned()).collect()
        };
        let mut wanted = old(&changes);
        if wanted.is_empty() {
            tail.extend(changes.iter().map(line));
            continue;
        }
        let seek = |wanted: &[String]| {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            model_seek(&texts, &wanted, cursor, chunk.end_of_file)
        };
        let mut hit = seek(&wanted);
        if hit.is_none() && wanted.last().is_some_and(String::is_empty) {
            wanted.pop();
            hit = seek(&wanted);
            // The old lines lose their last; the new ones too, if it is empty.
            let last = changes.iter().rposition(|change| !matches!(change, Change::Add(_)))?;
            let kept = matches!(changes[last], Change::Keep(_));
            changes.remove(last);
            if kept {
                changes.insert(last, Change::Add(""));
            }
            if let Some(last) = changes.iter().rposition(|change| !matches!(change, Change::Remove(_)))
                && line(&changes[last]).is_empty()
            {
                let kept = matches!(changes[last], Change::Keep(_));
                changes.remove(last);
                if kept {
                    changes.insert(last, Change::Remove(""));
                }
            }
        }
        let mut at = hit?;
        cursor = at + wanted.len();
        for change in changes {
            match change {
                Change::Keep(_) => at += 1,
                Change::Remove(_) => {
                    stays[at] = false;
                    at += 1;
                }
                Change::Add(line) => before[at].push(line),
            }
        }
    }
    let end = if texts.last() == Some(&"") { texts.len() - 1 } else { texts.len() };
    before[end].extend(tail);
    let mut out = String::new();
    for (at, added) in before.iter().enumerate() {
        for line in added {
            out += line;
            out += preferred;
        }
        if at < lines.len() && stays[at] {
            out += lines[at].0;
            out += if lines[at].1.is_empty() { preferred } else { lines[at].1 };
        }
    }
    Some(out)
}

fn model_seek(lines: &[&str], pattern: &[&str], start: usize, at_end: bool) -> Option<usize> {
    let last = lines.len().checked_sub(pattern.len())?;
    let passes: [fn(&str) -> String; 4] =
        [str::to_owned, |line| line.trim_end().to_owned(), |line| line.trim().to_owned(), model_fold];
    for pass in passes {
        let wanted: Vec<String> = pattern.iter().map(|line| pass(line)).collect();
        for at in start..=last {
            let found: Vec<String> = lines[at..at + pattern.len()].iter().map(|line| pass(line)).collect();
            if found == wanted && (!at_end || at == last) {
                return Some(at);
            }
        }
    }
    None
}

fn model_fold(line: &str) -> String {
    const TABLE: &[(&str, char)] = &[
        ("\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2212}", '-'),
        ("\u{2018}\u{2019}\u{201a}\u{201b}", '\''),
        ("\u{201c}\u{201d}\u{201e}\u{201f}", '"'),
        (
            "\u{a0}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{205f}\u{3000}",
            ' ',
        ),
    ];
    let fold = |c: char| TABLE.iter().find(|row| row.0.contains(c)).map_or(c, |row| row.1);
    line.trim().chars().map(fold).collect()
}
