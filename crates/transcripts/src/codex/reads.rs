//! What a command read, in a few words each (transcript contract 3.4).

use crate::label::{listed, searched};
use crate::path::basename;
use crate::raw::{Member, Raw};

/// One label a part of `parsed_cmd`; none at all unless every part reads, searches or lists.
pub(super) fn labels(parsed: Option<Raw<'_>>) -> Vec<String> {
    let labels: Option<Vec<String>> = parsed.each().map(label).collect();
    labels.unwrap_or_default()
}

fn label(part: Raw<'_>) -> Option<String> {
    let [kind, name, query, path] = part.pick(["type", "name", "query", "path"]);
    let path = path.text();
    match &*kind.text() {
        "read" => Some(match name.filled() {
            Some(name) => format!("Read {name}"),
            None => format!("Read {}", basename(&path)),
        }),
        "search" => Some(searched(query.map(Raw::json).as_ref(), &path)),
        "list_files" => Some(listed(&path)),
        _ => None,
    }
}
