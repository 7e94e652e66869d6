//! What a checkpoint holds, as text: one line an entry, in the order of paths.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::CheckpointError;
use super::store::is_digest;

/// The first line.
const HEAD: &str = "{\"manifest\":1}";

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The path below the workspace.
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) node: Node,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Node {
    Dir {
        mode: u32,
    },
    File {
        mode: u32,
        size: u64,
        digest: String,
    },
    /// A link, with its text; as hexadecimal bytes where it is not UTF-8.
    Link {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
    },
}

impl Node {
    pub(super) fn link(target: PathBuf) -> Self {
        match target.into_os_string().into_string() {
            Ok(target) => Node::Link { target: Some(target), bytes: None },
            Err(raw) => {
                let hex = raw.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                Node::Link { target: None, bytes: Some(hex) }
            }
        }
    }

    /// The text of a link.
    pub(super) fn target(&self) -> Option<OsString> {
        match self {
            Node::Link { target: Some(target), .. } => Some(OsString::from(target)),
            Node::Link { bytes: Some(hex), .. } => {
                let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
                let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
                bytes.map(OsString::from_vec)
            }
            _ => None,
        }
    }
}

/// Entries in the order of their paths as a text.
pub(super) fn encode(entries: &[Entry]) -> Result<Vec<u8>, CheckpointError> {
    let mut out = HEAD.as_bytes().to_vec();
    out.push(b'\n');
    for entry in entries {
        serde_json::to_writer(&mut out, entry).map_err(|error| CheckpointError::Store(error.to_string()))?;
        out.push(b'\n');
    }
    Ok(out)
}

/// The entries of a text.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Entry>, CheckpointError> {
    let damaged = |what: &str| CheckpointError::Damaged(format!("a manifest {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("is not UTF-8"))?;
    let mut lines = text.split_terminator('\n');
    if lines.next() != Some(HEAD) {
        return Err(damaged("has another head"));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines {
        let entry: Entry =
            serde_json::from_str(line).map_err(|error| damaged(&format!("does not parse: {error}")))?;
        let parts_ok =
            entry.path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'));
        let digest_ok = !matches!(&entry.node, Node::File { digest, .. } if !is_digest(digest));
        let link_ok = !matches!(&entry.node, Node::Link { .. }) || entry.node.target().is_some();
        let ordered = entries.last().is_none_or(|last| last.path < entry.path);
        if !(parts_ok && digest_ok && link_ok && ordered) {
            return Err(damaged(&format!("has no such entry: {line}")));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node() -> impl Strategy<Value = Node> {
        prop_oneof![
            (0u32..0o10000).prop_map(|mode| Node::Dir { mode }),
            (0u32..0o10000, any::<u64>(), "[0-9a-f]{64}").prop_map(|(mode, size, digest)| Node::File {
                mode,
                size,
                digest
            }),
            prop::collection::vec(any::<u8>(), 1..6)
                .prop_map(|bytes| Node::link(PathBuf::from(OsString::from_vec(bytes)))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn a_manifest_reads_back(nodes in prop::collection::btree_map("[a-c\"\\\\\n]{1,3}(/[a-c]{1,2})?", node(), 0..6)) {
            let entries: Vec<Entry> = nodes.into_iter().map(|(path, node)| Entry { path, node }).collect();
            let text = encode(&entries).unwrap();
            prop_assert_eq!(decode(&text), Ok(entries));
            for cut in 0..text.len() {
                if let Ok(fewer) = decode(&text[..cut]) {
                    prop_assert!(fewer.len() <= text.iter().filter(|byte| **byte == b'\n').count());
                }
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), head: bool) {
            let bytes = if head { [HEAD.as_bytes(), b"\n", &bytes].concat() } else { bytes };
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["", "/a", "../a", "a/../b", "a//b", "a/", "."] {
            let entry = Entry { path: path.to_owned(), node: Node::Dir { mode: 0o755 } };
            assert!(
                matches!(decode(&encode(&[entry]).unwrap()), Err(CheckpointError::Damaged(_))),
                "{path:?}"
            );
        }
    }
}
