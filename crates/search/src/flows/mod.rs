//! The handlers of the flows `glob` and `grep`.

mod glob;
mod grep;

pub use glob::GlobHandler;
pub use grep::GrepHandler;

/// The source text of each handler's module by the name of its flow, sorted by name: its SHA-256 is the content digest of
/// the flow's binding.
pub const SOURCES: &[(&str, &[u8])] =
    &[("glob", include_bytes!("glob.rs")), ("grep", include_bytes!("grep.rs"))];
