//! A word that names nothing: what was meant.

use flowcell_engines::harness::flows::capability::Action;

/// The candidate that was meant: the nearest one, when it is near enough for a slip of the fingers. One in three
/// characters may differ, and one of a shorter word.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| {
            let longer = word.chars().count().max(candidate.chars().count());
            *distance <= (longer / 3).max(1)
        })
        .map(|(_, candidate)| candidate)
}

/// As [`nearest`] in words, `the nearest THING is X`; without a near one all of them, `the THINGs are X, Y`.
pub(crate) fn meant<'a>(
    word: &str,
    thing: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
    quoted: impl Fn(&str) -> String,
) -> String {
    match nearest(word, candidates.clone()) {
        Some(name) => format!("the nearest {thing} is {}", quoted(name)),
        None => {
            let all: Vec<String> = candidates.into_iter().map(quoted).collect();
            format!("the {thing}s are {}", all.join(", "))
        }
    }
}

/// A name between backquotes.
pub(crate) fn backquoted(name: &str) -> String {
    format!("`{name}`")
}

/// What a capability or a pattern with a misspelt action was meant to be.
pub(crate) fn meant_action(text: &str) -> Option<String> {
    let end = text.match_indices(':').nth(1).map_or(text.len(), |(at, _)| at);
    let (word, rest) = text.split_at(end);
    let action = nearest(word, Action::ALL.into_iter().map(Action::as_str))?;
    (action != word).then(|| format!("{action}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_named() {
        let names = ["read", "write", "http-post"];
        assert_eq!(nearest("raed", names), Some("read"));
        assert_eq!(nearest("http_pots", names), Some("http-post"));
        for far in ["", "zzzz", "explode", "rm"] {
            assert_eq!(nearest(far, names), None, "{far}");
        }
        assert_eq!(nearest("x", []), None);
        assert_eq!(meant("wrtie", "flow", names, str::to_owned), "the nearest flow is write");
        assert_eq!(meant("zz", "flow", names, backquoted), "the flows are `read`, `write`, `http-post`");
    }

    #[test]
    fn an_action_is_corrected_and_the_rest_is_kept() {
        assert_eq!(meant_action("fs:wirte:/x:y").as_deref(), Some("fs:write:/x:y"));
        assert_eq!(meant_action("net:gett:a").as_deref(), Some("net:get:a"));
        for none in ["fs:read", "fs:read:/x", "zip:zap:/x", "*", ""] {
            assert_eq!(meant_action(none), None, "{none}");
        }
    }
}
