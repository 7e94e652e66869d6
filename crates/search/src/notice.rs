//! The sentences of `notice` (search contract 6).

/// Puts sentences together; `None` when there are none.
pub(crate) fn join(sentences: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// N3: the literal retry found something.
pub(crate) fn literal() -> String {
    "Nothing matched as a regular expression; these results match the pattern as literal text \
     (fixedStrings: true)."
        .to_owned()
}

/// N4: a positive glob can match no file.
pub(crate) fn cannot_match(glob: &str, root: &str, reason: &str) -> String {
    format!("The glob \"{glob}\" cannot match under {root}: {reason}.")
}

/// N5: `.gitignore` left out what the search would cover.
pub(crate) fn ignored() -> String {
    ".gitignore rules excluded files that this search would cover; pass noIgnore: true to include them."
        .to_owned()
}

/// What a total is, for N1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Total {
    Exactly(u64),
    AtLeast(u64),
}

/// N1: the limit cut something off.
pub(crate) fn truncated(shown: usize, total: Total, unit: &str, cap: u64) -> String {
    let total = match total {
        Total::Exactly(total) => total.to_string(),
        Total::AtLeast(total) => format!("at least {total}"),
    };
    format!("Showing {shown} of {total} {unit}; narrow the search or raise limit (at most {cap}).")
}

/// N6: shown lines were cut.
pub(crate) fn long_lines(count: u64) -> Option<String> {
    (count > 0).then(|| format!("{count} long lines were cut to {} bytes.", crate::lines::MAX_SHOWN_BYTES))
}

/// N7: more context was asked for than is given.
pub(crate) fn context() -> String {
    format!("Context is at most {} lines on each side.", crate::query::MAX_CONTEXT)
}

/// N8: entries may not be read.
pub(crate) fn not_permitted(count: u64) -> Option<String> {
    (count > 0).then(|| format!("{count} entries were skipped: reading them is not permitted."))
}

/// Our own: the context of a whole answer is bounded.
pub(crate) fn context_room() -> String {
    format!(
        "Context after the first {} MiB of it was left out; ask for fewer lines of context.",
        crate::query::MAX_CONTEXT_BYTES >> 20
    )
}

/// Our own: a `.gitignore` is too long to be applied.
pub(crate) fn long_rules(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} .gitignore files were not applied: with those above they are longer than {} MiB.",
            crate::gitignore::MAX_GITIGNORE_BYTES >> 20
        )
    })
}
