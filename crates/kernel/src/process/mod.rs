//! Starting processes, and the policy of command lines (kernel contract 6.2).
//!
//! A [`Command`] is built without asking anybody; [`Spawner::spawn`] asks for it and starts it. What is asked is
//! `proc:spawn` on the command's rendering, with the names of the declared variables beside it and never their values.
//!
//! **Invariant:** a child's environment is built, never inherited: a few names of the map that the host hands in, without
//! those that look like credentials, and what the caller declares.
//!
//! **Invariant:** a child leads a session and a process group of its own, has no controlling terminal, and holds no
//! descriptor of the host but 0 to 2 and those that the host passes to a launcher of its own by name.
//!
//! **Invariant:** a child that is dropped is killed with its group, and reaped.

mod candidates;
mod child;
mod command;
mod credential;
mod environment;
mod error;
mod exec;
mod output;
mod plan;
mod policy;
mod program;
mod request;
mod scan;
mod spawner;

pub use candidates::{Candidates, MAX_DEPTH, candidates_of_argv, candidates_of_line};
pub use child::{Child, DEFAULT_GRACE, Exit, Signal};
pub use command::{Command, render_argv, render_pipeline};
pub use credential::is_credential_name;
pub use environment::{INHERITED, build_environment};
pub use error::SpawnError;
pub use output::ChildOutput;
pub use plan::{By, Part, Plan, Verdict};
pub use policy::CommandExplanation;
pub use request::{Confine, SpawnRequest, Stdin};
pub use scan::{Scan, scan};
pub use spawner::{Authorised, Spawner};
