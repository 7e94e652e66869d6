//! The release gate (transcript contract 2).

/// The `major.minor` of `release` when it is one of `listed`: digits, a dot, digits and another dot at its start.
pub(crate) fn gate(release: &str, listed: &[&'static str]) -> Option<&'static str> {
    let major = digits(release)?;
    let minor = digits(release.get(major + 1..).filter(|_| release.as_bytes().get(major) == Some(&b'.'))?)?;
    let end = major + 1 + minor;
    if release.as_bytes().get(end) != Some(&b'.') {
        return None;
    }
    let line = release.get(..end)?;
    listed.iter().copied().find(|known| *known == line)
}

/// How many ASCII digits `text` begins with; `None` for none.
fn digits(text: &str) -> Option<usize> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::gate;

    #[test]
    fn a_release_names_its_line_at_its_start() {
        let listed = ["0.159", "0.160"];
        assert_eq!(gate("0.160.1-alpha.2", &listed), Some("0.160"));
        assert_eq!(gate("0.159.", &listed), Some("0.159"));
        for refused in [
            "0.160",
            " 0.160.0",
            "codex-cli 0.160.0",
            "",
            "0.161.0",
            "00.160.0",
            "0.0160.0",
            "0..160.",
            ".0.160.",
            "0,160.1",
            "0.160é.",
            "٠.160.0",
        ] {
            assert_eq!(gate(refused, &listed), None, "{refused}");
        }
    }
}
