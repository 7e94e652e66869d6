//! Names of files and helpers (transcript contract 2, *basename*).

/// The last piece of `path`, split at `/`, that is not empty, or `path` itself when there is none.
pub(crate) fn basename(path: &str) -> &str {
    path.rsplit('/').find(|piece| !piece.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::basename;

    #[test]
    fn the_last_piece_that_is_not_empty() {
        for (path, name) in
            [("/a/b.rs", "b.rs"), ("src/", "src"), ("/", "/"), ("", ""), ("//", "//"), ("x", "x")]
        {
            assert_eq!(basename(path), name, "{path}");
        }
    }
}
