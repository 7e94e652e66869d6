//! The cell harness of coding agents: JavaScript cells whose only authority is a durable, journaled,
//! permission-gated call.
//!
//! One frame is: a cell, its evaluation in the run's realm, individually durable flow calls, and a transition. The
//! [`realm`] evaluates; [`exec`] decides what the outcome means; an [engine](engine::Engine) owns everything
//! durable; [bindings](binding::Binding) answer calls through the guarded services of the kernel.
//!
//! ```
//! use flowcell_harness::extract::{StopReason, extract};
//! use flowcell_harness::program::{Source, validate};
//! use flowcell_harness::realm::{
//!     Bridge, BridgeRequest, FrameEnd, FrameOptions, Interrupted, Limits, Outcome, Realm, Transition,
//! };
//! use flowcell_harness::failure::CallOutcome;
//! use serde_json::json;
//!
//! /// Answers every call with its own input.
//! struct Echo;
//! #[async_trait::async_trait]
//! impl Bridge for Echo {
//!     async fn dispatch(&mut self, _ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
//!         match request {
//!             BridgeRequest::Call { input, .. } => Ok(CallOutcome::Success(input)),
//!             BridgeRequest::Checkpoint => Err(Interrupted),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reply = "Twice two:\n```cell\nctx.done(2 * (await ctx.call(\"echo\", 2)));\n```\n";
//! let program = validate(&Source::new(extract(reply, StopReason::End)?.program))?;
//! let limits = Limits::default();
//! let mut realm = Realm::open(&limits).await?;
//! let options = FrameOptions { limits, ..FrameOptions::default() };
//! let FrameEnd::Done(frame) = realm.evaluate(0, &program, &options, &mut Echo).await? else { unreachable!() };
//! let output = json!(4);
//! assert_eq!(frame.outcome, Outcome::Settled { transition: Transition::Complete { output, text: "4".into() } });
//! realm.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** the controller never touches the world. What it decides goes through
//! [`Engine::record`](engine::Engine::record), each call through [`Engine::call`](engine::Engine::call).
//!
//! **Invariant:** a settled boundary is never run again. A boundary whose key material differs from the journal's
//! stops the run with `incompatible_journal`.
//!
//! **Invariant:** permission is not a result. A permission that nobody gave parks the run, and no cell can catch it.
//!
//! **Invariant:** nothing here reads the environment, the home directory or a wall clock; a realm measures its own
//! cells' time, which is what its limits are.
#![warn(missing_debug_implementations)]

pub use flowcell_host as host;
pub use flowcell_host::kernel;
#[cfg(feature = "search")]
pub use flowcell_search as search;
#[cfg(feature = "transcripts")]
pub use flowcell_transcripts as transcripts;
pub use kernel::flows;

pub mod binding;
pub mod calls;
pub mod catalog;
pub mod checkpoint;
pub mod engine;
pub mod error;
pub mod exec;
pub mod extract;
pub mod failure;
pub mod journal;
pub mod keys;
pub mod mock;
pub mod program;
pub mod realm;
pub mod registry;
pub mod replay;
pub mod report;
pub mod services;
pub mod standard;

pub use error::{Escape, HarnessCode, HarnessError};
