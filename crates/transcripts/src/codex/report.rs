//! What the report of a script says (transcript contract 3.3).

use crate::raw::{Member, Raw, object};

/// Whether the completed items already say what the report says.
pub(super) fn is_done(report: &str) -> bool {
    let said = report.is_empty()
        || ["Script completed", "Script running"].iter().any(|start| report.starts_with(start))
        || report.strip_prefix("Exit code: 0").is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'));
    // -0 and 0.0 are 0 too.
    said || object(report)
        .and_then(|report| report.get("metadata"))
        .member("exit_code")
        .and_then(Raw::number)
        .is_some_and(|code| code == 0.0)
}

const VERIFICATION: &str = "apply_patch verification failed: ";

/// The path of the edit that a patch failed at, when the report names one.
pub(super) fn failed_edit(report: &str) -> Option<&str> {
    let (_, after) = report.split_once(VERIFICATION)?;
    let line = after.split('\n').next().unwrap_or_default();
    let named = [
        "Failed to find expected lines in ",
        "Failed to read file to update ",
        "Failed to read ",
        "Failed to delete file ",
        "Failed to write file ",
    ]
    .iter()
    .find_map(|start| line.strip_prefix(start));
    // The context is code and may hold a quote itself: the last one ends it.
    let context = || Some(line.strip_prefix("Failed to find context '")?.rsplit_once("' in ")?.1);
    let rest = named.or_else(context)?;
    let path = match rest.split_once(": ") {
        Some((path, _)) => path,
        None => rest.strip_suffix(':').unwrap_or(rest),
    };
    Some(path).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{failed_edit, is_done};

    #[test]
    fn what_is_done() {
        for report in [
            "",
            "Script completed\nOutput:\n",
            "Script running with cell ID 1",
            "Exit code: 0",
            "Exit code: 0\nx",
            "{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}",
            " \n{\"metadata\":{\"exit_code\":0.0}}\n",
        ] {
            assert!(is_done(report), "{report}");
        }
        for report in [
            "Script failed",
            "script completed",
            " Script completed",
            "Exit code: 01",
            "Exit code: 0 ",
            "Exit code: 1\n",
            "{\"metadata\":{\"exit_code\":1}}",
            "{\"metadata\":{\"exit_code\":\"0\"}}",
            "{\"exit_code\":0}",
            "[]",
            "{",
            "{\"metadata\":{\"exit_code\":0}} x",
            "aborted by user after 5.1s",
        ] {
            assert!(!is_done(report), "{report}");
        }
    }

    #[test]
    fn the_path_of_a_failed_edit() {
        for (line, path) in [
            ("Failed to find expected lines in /r/a.ts:", Some("/r/a.ts")),
            ("Failed to find expected lines in C:\\r\\a.ts:", Some("C:\\r\\a.ts")),
            ("Failed to find context 'fn a()' in src/a.rs", Some("src/a.rs")),
            ("Failed to find context 'x' in y' in src/a.rs", Some("src/a.rs")),
            ("Failed to read file to update C:\\b.ts: The system cannot find the file", Some("C:\\b.ts")),
            ("Failed to read file to update /b c.ts", Some("/b c.ts")),
            ("Failed to read /b.ts: No such file or directory (os error 2)", Some("/b.ts")),
            ("Failed to delete file /b.ts", Some("/b.ts")),
            ("Failed to delete file /b.ts: busy", Some("/b.ts")),
            ("Failed to write file /a:b.ts: full", Some("/a:b.ts")),
            ("Failed to write file :", None),
            ("Failed to write file ", None),
            ("invalid patch: The first line of the patch must be '*** Begin Patch'", None),
            ("", None),
        ] {
            let report =
                format!("Script failed\n\nScript error:\napply_patch verification failed: {line}\ngamma: x");
            assert_eq!(failed_edit(&report), path, "{line}");
        }
        assert_eq!(failed_edit("Failed to read /b.ts"), None);
        let second =
            "apply_patch verification failed: no\napply_patch verification failed: Failed to read /b.ts";
        assert_eq!(failed_edit(second), None);
    }
}
