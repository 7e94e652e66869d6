//! The grammar of patches and its messages: host contract 6, the first part.

use flowcell_host::patch::{Action, Change, Chunk, ParseError, parse, paths};

/// A patch of these lines between the begin and the end.
fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch\n")
}

/// The line at fault and the message's beginning.
#[track_caller]
fn line(body: &str) -> usize {
    match parse(&patch(body)) {
        Err(error @ ParseError::Hunk { line, .. }) => {
            assert!(error.to_string().starts_with(&format!("invalid hunk at line {line}, ")), "{error}");
            assert_eq!(paths(&patch(body)), None);
            line
        }
        other => panic!("{body:?}: {other:?}"),
    }
}

/// The chunks of a patch of one update.
#[track_caller]
fn chunks(text: &str) -> Vec<(Option<String>, Vec<String>, bool)> {
    let parsed = parse(text).unwrap();
    let [section] = &parsed.sections[..] else { panic!("{parsed:?}") };
    let Action::Update { chunks, .. } = &section.action else { panic!("{section:?}") };
    let change = |change: &Change<'_>| match change {
        Change::Keep(line) => format!(" {line}"),
        Change::Remove(line) => format!("-{line}"),
        Change::Add(line) => format!("+{line}"),
    };
    let chunk = |chunk: &Chunk<'_>| {
        (chunk.context.map(str::to_owned), chunk.changes.iter().map(change).collect(), chunk.end_of_file)
    };
    chunks.iter().map(chunk).collect()
}

#[test]
fn a_line_that_is_no_header() {
    assert_eq!(line(""), 2);
    assert_eq!(line("x"), 2);
    assert_eq!(line("*** Add File:"), 2);
    assert_eq!(line("*** Add File: "), 2);
    assert_eq!(line("***  Add File: a"), 2);
    assert_eq!(line("*** add file: a"), 2);
    assert_eq!(line("*** Move to: b"), 2);
    assert_eq!(line("*** End Patch\n*** Delete File: a"), 2);
    assert_eq!(line("*** Begin Patch\n*** Delete File: a"), 2);
    assert_eq!(line("*** Add File: a\n+x\ny"), 4);
    assert_eq!(line("*** Add File: a\n+x\n\n*** Delete File: b"), 4);
    assert_eq!(line("*** Add File: a\n +x"), 3);
    assert_eq!(line("*** Delete File: a\n\n*** Delete File: b"), 3);
    assert_eq!(line("*** Delete File: a\n+x"), 3);
    assert_eq!(line("*** Delete File: a\n@@"), 3);
}

#[test]
fn an_update_without_chunks() {
    for (body, header) in [
        ("*** Update File: p q", 2),
        ("*** Update File: p q\n*** Move to: b", 2),
        ("*** Delete File: a\n*** Update File: p q\n*** Delete File: b", 3),
        ("*** Delete File: a\n*** Update File: p q\n*** Move to: b\n*** Add File: c", 3),
    ] {
        let error = parse(&patch(body)).unwrap_err().to_string();
        assert_eq!(error, format!("invalid hunk at line {header}, Update file hunk for path 'p q' is empty"));
    }
}

#[test]
fn a_chunk_without_changes() {
    assert_eq!(line("*** Update File: a\n@@"), 4);
    assert_eq!(line("*** Update File: a\n@@\n*** Delete File: b"), 4);
    assert_eq!(line("*** Update File: a\n@@\n@@ x\n-y"), 4);
    assert_eq!(line("*** Update File: a\n@@\n-x\n@@ y\n*** Add File: b\n+c"), 6);
    assert_eq!(line("*** Update File: a\n@@\n-x\n@@ y\n@@ z\n-c"), 6);
    assert_eq!(line("*** Update File: a\n*** Move to: b\n@@"), 5);
    assert_eq!(line("*** Update File: a\n-x\n*** End of File\n@@"), 6);
}

#[test]
fn a_line_of_an_update_with_another_first_character() {
    for odd in
        ["x", "\tx", "\t", "@x", "@@x", "*x", "*** Frob", "*** Move to: b", "é", "\u{a0}x", "*** End Patch"]
    {
        assert_eq!(line(&format!("*** Update File: a\n@@\n-x\n{odd}\n+y")), 5, "{odd:?}");
        if odd != "*** Move to: b" {
            assert_eq!(line(&format!("*** Update File: a\n{odd}\n-x")), 3, "{odd:?}");
        }
    }
}

#[test]
fn the_mark_of_the_end_of_the_file() {
    assert_eq!(line("*** Update File: a\n*** End of File"), 3);
    assert_eq!(line("*** Update File: a\n@@\n*** End of File\n-x"), 4);
    assert_eq!(line("*** Update File: a\n@@ c\n*** End of File"), 4);
    assert_eq!(line("*** Update File: a\n-x\n*** End of File\n-y"), 5);
    assert_eq!(line("*** Update File: a\n-x\n*** End of File\n\n  \n y"), 7);
    assert_eq!(line("*** Update File: a\n-x\n*** End of File\nz"), 5);
    assert_eq!(line("*** Update File: a\n-x\n*** End of File\n*** End of File"), 5);
    let text = patch("*** Update File: a\n-x\n*** End of File  \n\n \n@@ c\n+y\n*** End of File");
    let expected =
        vec![(None, vec!["-x".to_owned()], true), (Some("c".to_owned()), vec!["+y".to_owned()], true)];
    assert_eq!(chunks(&text), expected);
}

#[test]
fn begin_and_end() {
    for text in ["", "x", "\n\n", "*** End Patch", "** Begin Patch\n*** End Patch", "<<EOF\nx\ny\nEOF"] {
        let error = parse(text).unwrap_err();
        assert_eq!(error, ParseError::NoBegin, "{text:?}");
        assert_eq!(error.to_string(), "invalid patch: the first line is not '*** Begin Patch'");
    }
    for text in
        ["*** Begin Patch", "*** Begin Patch\n*** Delete File: a", "*** Begin Patch\n*** End Patch\nx"]
    {
        let error = parse(text).unwrap_err();
        assert_eq!(error, ParseError::NoEnd, "{text:?}");
        assert_eq!(error.to_string(), "invalid patch: the last line is not '*** End Patch'");
    }
    for text in ["*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Environment ID: e\n*** End Patch"] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), "invalid patch: No files were modified.");
        assert_eq!(paths(text), None);
    }
}

#[test]
fn a_here_document_around_it() {
    let inner = " *** Begin Patch\n*** Delete File: a\n*** End Patch ";
    for (open, close) in [("<<EOF", "EOF"), ("<<'EOF'", "EOF"), ("<<\"EOF\"", "EOF"), ("<<EOF\r", "xEOF")] {
        let text = format!("\n {open}\n{inner}\n{close}\n");
        let parsed = parse(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((parsed.sections[0].line, parsed.sections[0].path), (2, "a"));
    }
    for (open, close) in [("<<E", "E"), ("<< EOF", "EOF"), ("cat <<EOF", "EOF"), ("<<EOF", "EOF;")] {
        assert_eq!(parse(&format!("{open}\n{inner}\n{close}")), Err(ParseError::NoBegin), "{open}");
    }
    assert_eq!(parse("<<EOF\n*** Begin Patch\nEOF"), Err(ParseError::NoBegin), "three lines");
    assert_eq!(parse("<<EOF\n*** Begin Patch\nx\nEOF"), Err(ParseError::NoEnd));
    assert_eq!(parse("<<EOF\n*** Begin Patch\n*** End Patch\nEOF"), Err(ParseError::NoSections));
    assert_eq!(
        parse("<<EOF\n*** Begin Patch\nx\n*** End Patch\nEOF").unwrap_err().to_string().split(',').next(),
        Some("invalid hunk at line 2"),
        "lines count from the begin"
    );
}

#[test]
fn padding() {
    let text = "\u{a0}\n  *** Begin Patch\t\r\n\t*** Add File: a b \r\r\n+x\r\n+\r\n  *** Delete File: c\u{2003}\n *** End Patch\u{3000}\n";
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.sections[0].path, "a b");
    assert_eq!(parsed.sections[0].action, Action::Add { content: "x\n\n".to_owned() });
    assert_eq!((parsed.sections[1].path, parsed.sections[1].line), ("c", 5));
    assert_eq!(paths(text), Some(vec!["a b".to_owned(), "c".to_owned()]));

    // In an update a header may be padded at its end alone.
    let text =
        patch("*** Update File: a \n*** Move to: b\t\n@@ \n x\n *** Delete File: c\n*** Delete File: d  ");
    let parsed = parse(&text).unwrap();
    let Action::Update { to, chunks } = &parsed.sections[0].action else { panic!("{parsed:?}") };
    assert_eq!((parsed.sections[0].path, *to, chunks[0].context), ("a", Some("b"), None));
    assert_eq!(chunks[0].changes, [Change::Keep("x"), Change::Keep("*** Delete File: c")]);
    assert_eq!(parsed.sections[1].path, "d");
}

#[test]
fn the_environment_goes_by_unread() {
    for id in ["", " ", "x", " a b"] {
        let text = patch(&format!("  *** Environment ID:{id}\n*** Delete File: a"));
        assert_eq!(parse(&text).unwrap().sections[0].line, 3);
    }
    assert_eq!(line("*** Environment ID: a\n*** Environment ID: a\n*** Delete File: a"), 3);
    assert_eq!(line("*** Delete File: a\n*** Environment ID: a"), 3);
    assert_eq!(line("*** Environment: a"), 2);
}

#[test]
fn chunks_and_their_lines() {
    let text = patch("*** Update File: a\n one\n\n-  two\n+\n+ three\n@@  c \n-\n@@\n+@@\n+*** End Patch");
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let expected = vec![
        (None, owned(&[" one", " ", "-  two", "+", "+ three"]), false),
        (Some(" c ".to_owned()), owned(&["-"]), false),
        (None, owned(&["+@@", "+*** End Patch"]), false),
    ];
    assert_eq!(chunks(&text), expected);
}

#[test]
fn paths_are_what_is_written_once_each() {
    let some = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    let update = |path: &str| format!("*** Update File: {path}\n@@\n-x\n");
    let text = patch(&format!(
        "*** Add File: z\n{}*** Move to: m\n-x\n*** Delete File: /abs/d\n{}",
        "*** Update File: b\n",
        update("a").trim_end()
    ));
    assert_eq!(paths(&text), some(&["z", "b", "m", "/abs/d", "a"]));
    let same = patch("*** Update File: a/./b\n*** Move to: a//b\n-x");
    assert_eq!(paths(&same), some(&["a/./b"]));
    for (left, right) in
        [("a", "./a"), ("a", "b/../a"), ("a//b", "a/b"), ("/x/../a", "/a"), ("../a", "../b/../a")]
    {
        let text = patch(&format!("*** Delete File: {left}\n*** Add File: {right}"));
        assert_eq!(paths(&text), None, "{left} {right}");
    }
    for (left, right) in [("a", "/a"), ("a", "../a"), ("a", "A"), ("../a", "../../a")] {
        let text = patch(&format!("*** Delete File: {left}\n*** Add File: {right}"));
        assert_eq!(paths(&text), some(&[left, right]));
    }
    let moved = patch("*** Update File: a\n*** Move to: b\n-x\n*** Delete File: b");
    assert_eq!(paths(&moved), None);
    for odd in ["a\0b", "a/", "/", &"x".repeat(4_097)] {
        assert_eq!(paths(&patch(&format!("*** Delete File: {odd}"))), None, "{odd:?}");
    }
}

#[test]
fn messages_quote_no_more_than_a_line() {
    let long = "é".repeat(100_000);
    for body in [long.clone(), format!("*** Update File: a\n@@\n{long}")] {
        let message = parse(&patch(&body)).unwrap_err().to_string();
        assert!(message.len() < 600, "{} bytes", message.len());
    }
}
