//! The handlers, one flow a file. Each decodes nothing and decides little: it turns the flow's input into a call on an
//! engine module, and the answer into its output.

mod edit;
mod ls;
mod read;
mod update_plan;
mod write;

pub use edit::EditHandler;
pub use ls::LsHandler;
pub use read::ReadHandler;
pub use update_plan::UpdatePlanHandler;
pub use write::WriteHandler;

/// The source text of each handler's module by the name of its flow, sorted by name: its SHA-256 is the content digest of
/// the flow's binding.
pub const SOURCES: &[(&str, &[u8])] = &[
    ("edit", include_bytes!("edit.rs")),
    ("ls", include_bytes!("ls.rs")),
    ("read", include_bytes!("read.rs")),
    ("update_plan", include_bytes!("update_plan.rs")),
    ("write", include_bytes!("write.rs")),
];
