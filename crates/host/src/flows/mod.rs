//! The handlers, one flow a file. Each decodes nothing and decides little: it turns the flow's input into a call on an
//! engine module, and the answer into its output.

mod apply_patch;
pub mod bash;
mod edit;
mod ls;
mod read;
pub(crate) mod shell;
mod shell_command;
mod test;
mod update_plan;
mod write;

pub use apply_patch::ApplyPatchHandler;
pub use bash::BashHandler;
pub use edit::EditHandler;
pub use ls::LsHandler;
pub use read::ReadHandler;
pub use shell_command::ShellCommandHandler;
pub use test::TestHandler;
pub use update_plan::UpdatePlanHandler;
pub use write::WriteHandler;

/// The source text of each handler's module by the name of its flow, sorted by name: its SHA-256 is the content digest of
/// the flow's binding.
pub const SOURCES: &[(&str, &[u8])] = &[
    ("apply_patch", include_bytes!("apply_patch.rs")),
    ("bash", include_bytes!("bash.rs")),
    ("edit", include_bytes!("edit.rs")),
    ("ls", include_bytes!("ls.rs")),
    ("read", include_bytes!("read.rs")),
    ("shell_command", include_bytes!("shell_command.rs")),
    ("test", include_bytes!("test.rs")),
    ("update_plan", include_bytes!("update_plan.rs")),
    ("write", include_bytes!("write.rs")),
];
