//! The environment of a child.

use std::collections::BTreeMap;

use super::credential::is_credential_name;
use super::error::SpawnError;

/// The names that a child takes from the ambient environment, beside `LC_*` (kernel contract 6.2).
pub const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "SHELL"];

/// Variables that a request declares at most, removals included: their names are shown to the person who decides, in a
/// bounded list.
pub(crate) const MAX_DECLARED: usize = 1_000;
/// Bytes of the declared names at most.
pub(crate) const MAX_DECLARED_BYTES: usize = 32_768;

/// The environment of a child: from `ambient` only [`INHERITED`] and `LC_*`, without names that look like credentials;
/// then what is declared, which wins whatever it is called. A declared `None` removes an inherited name. Names are
/// compared exactly.
///
/// An empty declared name, `=` or NUL in one, or NUL in a value is [`SpawnError::InvalidInput`].
///
/// ```
/// use std::collections::BTreeMap;
/// let ambient = [("PATH", "/bin"), ("AWS_SECRET_ACCESS_KEY", "x"), ("LC_ALL", "C"), ("FOO", "0")];
/// let ambient = ambient.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
/// let declared = BTreeMap::from([("FOO".to_owned(), Some("1".to_owned()))]);
/// let built = flowcell_kernel::process::build_environment(&ambient, &declared)?;
/// assert_eq!(built.keys().collect::<Vec<_>>(), ["FOO", "LC_ALL", "PATH"]);
/// # Ok::<(), flowcell_kernel::process::SpawnError>(())
/// ```
pub fn build_environment(
    ambient: &BTreeMap<String, String>,
    declared: &BTreeMap<String, Option<String>>,
) -> Result<BTreeMap<String, String>, SpawnError> {
    check_declared(declared)?;
    let inherited = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
    let mut built: BTreeMap<String, String> = ambient
        .iter()
        .filter(|(name, _)| inherited(name) && !is_credential_name(name))
        // What no environment can hold is not the caller's fault; it is left out.
        .filter(|(name, value)| is_name(name) && !value.contains('\0'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in declared {
        match value {
            Some(value) => built.insert(name.clone(), value.clone()),
            None => built.remove(name),
        };
    }
    Ok(built)
}

fn check_declared(declared: &BTreeMap<String, Option<String>>) -> Result<(), SpawnError> {
    for (name, value) in declared {
        if name.is_empty() {
            return Err(SpawnError::invalid("the name of a variable is empty"));
        }
        if !is_name(name) {
            return Err(SpawnError::invalid(format!("the name of the variable {name:?} has an = or a NUL")));
        }
        if value.as_ref().is_some_and(|value| value.contains('\0')) {
            return Err(SpawnError::invalid(format!("the value of the variable {name} has a NUL")));
        }
    }
    if declared.len() > MAX_DECLARED {
        return Err(SpawnError::invalid(format!("more than {MAX_DECLARED} variables are declared")));
    }
    if declared.keys().map(String::len).sum::<usize>() > MAX_DECLARED_BYTES {
        return Err(SpawnError::invalid(format!(
            "the names of the declared variables have more than {MAX_DECLARED_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Whether a declared variable of this name changes what the words of a command stand for: where the loader and the shell
/// look programs up, what they run before them, by which characters they read a line. A program's own variables do not:
/// what an allowed program does is its own matter, as it is with its arguments.
///
/// A command under such a variable is not what its text says, as it is not behind an assignment in a line.
pub(crate) fn changes_meaning(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "PATH",
        "BASH_ENV",
        "ENV",
        "ZDOTDIR",
        "SHELLOPTS",
        "BASHOPTS",
        "BASH_LOADABLES_PATH",
        "PS4",
        "IFS",
        "POSIXLY_CORRECT",
        "LANG",
        "LANGUAGE",
        "LOCPATH",
        "GCONV_PATH",
    ];
    const STARTS: [&str; 5] = ["LD_", "DYLD_", "LC_", "BASH_FUNC_", "GLIBC_TUNABLES"];
    // Older shells take a function from a variable of any name; those are marked by the characters of no plain name.
    let plain = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    !plain || NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn declared(pairs: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn the_contract_s_case() {
        let ambient = map(&[
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LC_ALL", "C"),
            ("FOO", "0"),
        ]);
        let built =
            build_environment(&ambient, &declared(&[("FOO", Some("1")), ("home", Some("/x"))])).unwrap();
        let expected =
            map(&[("PATH", "/bin"), ("HOME", "/h"), ("LC_ALL", "C"), ("FOO", "1"), ("home", "/x")]);
        assert_eq!(built, expected);
    }

    #[test]
    fn declared_ones_win_whatever_their_names() {
        let ambient =
            map(&[("PATH", "/bin"), ("USER", "u"), ("LC_TOKEN", "t"), ("lc_all", "x"), ("path", "x")]);
        assert_eq!(
            build_environment(&ambient, &declared(&[])).unwrap(),
            map(&[("PATH", "/bin"), ("USER", "u")])
        );
        let own = declared(&[("API_KEY", Some("k")), ("USER", None), ("user", None), ("PATH", Some(""))]);
        assert_eq!(build_environment(&ambient, &own).unwrap(), map(&[("API_KEY", "k"), ("PATH", "")]));
    }

    #[test]
    fn some_variables_change_what_a_command_is() {
        for name in [
            "PATH",
            "BASH_ENV",
            "ENV",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "BASH_FUNC_ls%%",
            "LC_ALL",
            "a b",
        ] {
            assert!(changes_meaning(name), "{name}");
        }
        for name in ["HOME", "TMPDIR", "RUST_LOG", "CI", "path", "MY_PATH", "ENVIRONMENT", "API_KEY"] {
            assert!(!changes_meaning(name), "{name}");
        }
    }

    #[test]
    fn what_no_environment_can_hold_is_refused() {
        for bad in [("", Some("x")), ("a=b", Some("x")), ("a\0", Some("x")), ("a", Some("\0")), ("=", None)] {
            let error = build_environment(&map(&[]), &declared(&[bad])).unwrap_err();
            assert!(matches!(error, SpawnError::InvalidInput { .. }), "{bad:?}: {error}");
        }
        let ambient = map(&[("LC_=", "x"), ("LANG", "a\0b"), ("TERM", "t")]);
        assert_eq!(build_environment(&ambient, &declared(&[])).unwrap(), map(&[("TERM", "t")]));
        let many = (0..=MAX_DECLARED).map(|n| (format!("V{n}"), None)).collect();
        assert!(build_environment(&map(&[]), &many).is_err());
        let long = BTreeMap::from([("a".repeat(MAX_DECLARED_BYTES + 1), None)]);
        assert!(build_environment(&map(&[]), &long).is_err());
    }
}
