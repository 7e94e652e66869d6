//! Globs as ripgrep has to be given them.

/// What the braces of an accepted glob expand to, each with the glob's mark and in its canonical form.
pub(super) fn spelled(glob: &str) -> Vec<String> {
    let (mark, body) = split(glob);
    expansions(body).iter().map(|text| format!("{mark}{}", protected(mark, &canonical(text)))).collect()
}

/// The mark of an exclusion and the body.
pub(super) fn split(glob: &str) -> (&str, &str) {
    match glob.strip_prefix('!') {
        Some(body) => ("!", body),
        None => ("", glob),
    }
}

/// ripgrep reads a number sign at the start as a comment, and an exclamation mark as the mark.
fn protected(mark: &str, text: &str) -> String {
    match text.as_bytes().first() {
        // It reads an empty glob as none; this one matches nothing.
        None => "/".to_owned(),
        Some(b'#' | b'!') if mark.is_empty() => format!("\\{text}"),
        _ => text.to_owned(),
    }
}

/// One text for each choice of alternatives.
pub(super) fn expansions(body: &str) -> Vec<String> {
    let Some((head, rest)) = body.split_once('{') else { return vec![body.to_owned()] };
    let Some((group, tail)) = rest.split_once('}') else { return vec![body.to_owned()] };
    let tails = expansions(tail);
    group
        .split(',')
        .flat_map(|choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}")))
        .collect()
}

/// Without trailing spaces and segments of one dot; `./` at the start is `/`.
pub(super) fn canonical(text: &str) -> String {
    let mut text = text.trim_end_matches(' ').to_owned();
    while text.contains("/./") {
        text = text.replace("/./", "/");
    }
    while let Some(rest) = text.strip_prefix("././") {
        text = format!("./{rest}");
    }
    match text.strip_prefix("./") {
        Some(rest) => format!("/{rest}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_and_forms() {
        assert_eq!(spelled("!{a,b/}{,c} "), ["!a", "!ac", "!b/", "!b/c"]);
        assert_eq!(spelled("{,a}"), ["/", "a"]);
        assert_eq!(spelled("#a"), ["\\#a"]);
        assert_eq!(spelled("!#a"), ["!#a"]);
        assert_eq!(spelled("./!b"), ["/!b"]);
        assert_eq!(canonical("././a/././b/."), "/a/b/.");
    }
}
