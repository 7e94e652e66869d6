//! Large transcripts, made by repeating the live captures with fresh ids.

use std::fs;
use std::path::Path;

/// The live captures of one agent (`codex` or `claude-code`), one behind another.
pub(crate) fn captures(agent: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/transcripts/live");
    let mut paths: Vec<_> = fs::read_dir(root)
        .expect("the live captures")
        .map(|entry| entry.expect("a capture").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(agent)))
        .flat_map(|folder| {
            fs::read_dir(folder).expect("a release").map(|entry| entry.expect("a file").path())
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(fs::read(path).expect("a capture"));
        assert_eq!(bytes.last(), Some(&b'\n'), "captures end with their last line");
    }
    bytes
}

/// The captures with the ids of their `round`-th repetition: the first eight hex digits of each UUID and of each id of 24
/// digits are moved by the round, so that what names one thing still names one thing, and no two rounds share one.
pub(crate) fn round(captures: &[u8], round: u32) -> Vec<u8> {
    let mut bytes = captures.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        let uuid = run == 8 && is_uuid(&bytes[at..]);
        if uuid || (run == 24 && at > 0 && bytes[at - 1] == b'_') {
            let digits = std::str::from_utf8(&bytes[at..at + 8]).expect("hex digits");
            let moved = u32::from_str_radix(digits, 16)
                .expect("hex digits")
                .wrapping_add(round.wrapping_mul(0x9E37_79B1));
            bytes[at..at + 8].copy_from_slice(format!("{moved:08x}").as_bytes());
            at += if uuid { 36 } else { 24 };
        } else {
            at += run.max(1);
        }
    }
    bytes
}

fn is_uuid(bytes: &[u8]) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut at = 0;
    lengths.iter().enumerate().all(|(number, length)| {
        let digits =
            bytes.get(at..at + length).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        at += length + 1;
        digits && (number == 4 || bytes.get(at - 1) == Some(&b'-'))
    })
}

/// The most memory this process has had since [`forget_peak`], in bytes; `None` where the system does not say.
pub(crate) fn peak() -> Option<usize> {
    status("VmHWM:")
}

/// Its memory now.
pub(crate) fn resident() -> Option<usize> {
    status("VmRSS:")
}

/// Starts the peak at the memory of now.
pub(crate) fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn status(name: &str) -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}
