//! What the report readers and the hermetic scanner are held to over arbitrary bytes. The fuzz targets run this too.

use flowcell_host::hermetic::{Access, Declared, Envelope, Redirect, Token, references, tokens};
use flowcell_host::report::{self, Report};

/// A report is consistent whatever it was read from.
fn consistent(report: Option<&Report>) {
    let Some(report) = report else { return };
    assert!(report.parsed || report.passed == 0, "passed without a whole report: {report:?}");
    let mut ids = report.failed.clone();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), report.failed.len(), "an id twice: {report:?}");
    assert!(report.failed.iter().all(|id| !id.trim().is_empty()), "an id without a name: {report:?}");
}

/// What more text behind it cannot do: unsee an id.
fn grows(text: &str, read: fn(&str) -> Option<Report>) {
    let Some(at) = text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2) else { return };
    let Some(front) = text[..at].rfind('\n').map(|end| &text[..=end]) else { return };
    if let (Some(part), Some(whole)) = (read(front), read(text)) {
        assert!(part.failed.iter().all(|id| whole.failed.contains(id)), "an id was unseen: {text:?}");
    }
}

fn reader(data: &[u8], read: fn(&str) -> Option<Report>) {
    let text = String::from_utf8_lossy(data);
    let own = read(&text);
    consistent(own.as_ref());
    grows(&text, read);
    let first = report::read(&text);
    consistent(first.as_ref());
    // The readers take a text as it is; `read` looks through colours first, which may join and part words.
    let coloured = text.contains('\u{1b}');
    assert!(coloured || own.is_none() || first.is_some(), "recognised and then not: {text:?}");
}

pub(crate) fn unittest(data: &[u8]) {
    reader(data, report::unittest);
}

pub(crate) fn pytest(data: &[u8]) {
    reader(data, report::pytest);
}

pub(crate) fn libtest(data: &[u8]) {
    reader(data, report::libtest);
}

pub(crate) fn tap(data: &[u8]) {
    reader(data, report::tap);
}

pub(crate) fn junit(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let report = report::junit(&text);
    consistent(report.as_ref());
    // A document that goes on, or that is cut, is not whole.
    if report.as_ref().is_some_and(|report| report.parsed) {
        let cut = text.trim_end();
        let mut cut = cut.chars();
        cut.next_back();
        assert!(!report::junit(cut.as_str()).is_some_and(|cut| cut.parsed && text.trim_end().ends_with('>')));
        assert!(!report::junit(&format!("{text}<testsuites/>")).is_some_and(|twice| twice.parsed));
    }
}

pub(crate) fn hermetic_words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let found = tokens(&text);
    // Nothing is made up: the words are no longer than the text, and redirections have their signs in it.
    let length: usize = found
        .iter()
        .map(|token| match token {
            Token::Word { text, .. } => text.len(),
            _ => 0,
        })
        .sum();
    assert!(length <= text.len(), "{length} bytes of words in {text:?}");
    if found.contains(&Token::Redirect(Redirect::Output)) {
        assert!(text.contains('>'), "{text:?}");
    }
    let paths = references(&text);
    for reference in &paths {
        let path = reference.text.as_str();
        assert!(path == "." || path == ".." || path.contains('/'), "{path:?} in {text:?}");
    }
    // An envelope of everything refuses nothing, an empty one lets nothing but /dev pass, and what is refused is named.
    let all = ["/".to_owned()];
    assert_eq!(Envelope::new("/ws", None, &all, &all).check(&text), Ok(()));
    match Envelope::new("/ws", None, &[], &[]).check(&text) {
        Ok(()) => {
            let declared =
                Declared::new(&paths.iter().map(|path| path.text.clone()).collect::<Vec<_>>(), "/ws");
            assert!(declared.entries().iter().all(|path| path.starts_with("/dev/")), "{text:?}");
        }
        Err(outside) => {
            assert!(outside.path.starts_with('/') && !outside.path.contains("//"), "{outside:?}");
            let named = [outside.path.clone()];
            let (reads, writes) = match outside.access {
                Access::Read => (&named[..], &[][..]),
                Access::Write => (&[][..], &named[..]),
            };
            let next = Envelope::new("/ws", None, reads, writes).check(&text);
            assert!(next.as_ref() != Err(&outside), "{outside:?} refused although declared");
        }
    }
    // What comes before is seen the same whatever comes after a line's end.
    if !text.contains(['\'', '"', '\\', '<', '`', '$', '(', ')']) {
        let more = format!("{text}\nrm /x/y\n");
        let again = references(&more);
        assert_eq!(again[..paths.len()], paths[..], "{text:?}");
        assert_eq!((again.len(), again[paths.len()].access), (paths.len() + 1, Access::Write), "{text:?}");
    }
}
