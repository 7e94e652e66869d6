//! Path arithmetic. It needs no capability.

/// An absolute path without `.`, `..`, repeated or trailing slashes: `path` itself when it is absolute, else `path` under
/// `root`. It is collapsed as text, links play no part, and `..` above `/` is `/`. There is no `~` and there are no
/// variables (kernel contract 6.1).
///
/// ```
/// use flowcell_kernel::fs::lexical;
/// assert_eq!(lexical("/ws", "a/../b//c/."), "/ws/b/c");
/// assert_eq!(lexical("/ws", "/../etc/"), "/etc");
/// ```
pub fn lexical(root: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { root };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether `path` is `root` or lies under it, component by component. Both are absolute and collapsed.
pub fn is_inside(root: &str, path: &str) -> bool {
    below(root, path).is_some()
}

/// What follows `root` in `path`, without a leading slash; empty for the root itself.
pub(crate) fn below<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    if root == "/" {
        return path.strip_prefix('/');
    }
    match path.strip_prefix(root)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// `dir` and `name` joined; both collapsed.
pub(crate) fn child(dir: &str, name: &str) -> String {
    if name.is_empty() {
        dir.to_owned()
    } else if dir == "/" {
        format!("/{name}")
    } else {
        format!("{dir}/{name}")
    }
}

/// The directory of a collapsed absolute path; `/` for `/`.
pub(crate) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn collapses_as_text() {
        for (path, expected) in [
            ("", "/ws"),
            (".", "/ws"),
            ("a//b/", "/ws/a/b"),
            ("../x", "/x"),
            ("../../../x", "/x"),
            ("/", "/"),
            ("//", "/"),
            ("~/a", "/ws/~/a"),
            ("$HOME", "/ws/$HOME"),
            ("a/..", "/ws"),
            ("...", "/ws/..."),
        ] {
            assert_eq!(lexical("/ws", path), expected, "{path:?}");
        }
    }

    #[test]
    fn inside_goes_by_components() {
        assert!(is_inside("/ws", "/ws") && is_inside("/ws", "/ws/a") && is_inside("/", "/a"));
        assert!(!is_inside("/ws", "/ws2") && !is_inside("/ws/a", "/ws"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn collapsing_twice_changes_nothing(path in "(/|\\.|a|b){0,12}") {
            let once = lexical("/ws", &path);
            prop_assert_eq!(&lexical("/ws", &once), &once);
            prop_assert!(once.starts_with('/') && (once == "/" || !once.ends_with('/')));
        }
    }
}
