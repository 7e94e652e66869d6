//! The labels of what a tool read (transcript contract 3.4 and 4.4).

use crate::Json;
use crate::path::basename;

/// `Searched <json(query)>[ in <basename(path)>]`; a query that is not there is empty.
pub(crate) fn searched(query: Option<&Json>, path: &str) -> String {
    let query = query.map_or("\"\"", Json::as_str);
    let place = if path.is_empty() { String::new() } else { format!(" in {}", basename(path)) };
    format!("Searched {query}{place}")
}

/// `Listed <basename(path)>`, or `Listed files` without a path.
pub(crate) fn listed(path: &str) -> String {
    let name = if path.is_empty() { "files" } else { basename(path) };
    format!("Listed {name}")
}
