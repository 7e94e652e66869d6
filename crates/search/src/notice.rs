//! The sentences of `notice` (search contract 6).

/// Puts sentences together; `None` when there are none.
pub(crate) fn join(sentences: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
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
