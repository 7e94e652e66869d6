//! Paths as an answer shows them: the root as given and the path below it, joined and normalised as text.

/// The normal form of a path as text: no `.`, no repeated or trailing `/`, `..` resolved against the
/// segment before it. The current directory is empty.
pub(crate) fn normalize(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => {
                segments.pop();
            }
            ".." if absolute => {}
            segment => segments.push(segment),
        }
    }
    format!("{}{}", if absolute { "/" } else { "" }, segments.join("/"))
}

/// What stands before the path below the root in each path of an answer.
pub(crate) fn prefix(root: &str) -> String {
    let mut prefix = normalize(root);
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normal_and_stay_as_the_caller_gave_them() {
        for (given, normal, before) in [
            (".", "", ""),
            ("", "", ""),
            ("./src//", "src", "src/"),
            ("a/./b/..", "a", "a/"),
            ("a/../../b", "../b", "../b/"),
            ("../..", "../..", "../../"),
            ("/", "/", "/"),
            ("/..", "/", "/"),
            ("//a/", "/a", "/a/"),
        ] {
            assert_eq!((normalize(given).as_str(), prefix(given).as_str()), (normal, before), "{given:?}");
        }
    }
}
