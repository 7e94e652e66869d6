//! The seventeen standard flows, one file each: name, description, input, output, effects and capabilities.

pub mod apply_patch;
pub mod bash;
pub mod edit;
pub mod explore;
pub mod fetch;
pub mod glob;
pub mod grep;
pub mod http_post;
pub mod ls;
pub mod lsp;
pub mod read;
pub mod shell_command;
pub mod test;
pub mod update_plan;
pub mod webfetch;
pub mod websearch;
pub mod write;
