//! The QuickJS realm of a run (harness contract 3).
//!
//! A [`Realm`] is one global object that all cells of a run share, on a thread of its own. [`Realm::evaluate`] runs one
//! cell, asks the [`Bridge`] for each call in turn, and answers a [`RealmFrame`]: how the cell ended, what it printed and
//! which names are bound.
//!
//! **Invariant:** a cell reaches nothing of the host but `ctx` and `console`; what crosses is JSON text.
//!
//! **Invariant:** nothing that a cell can reassign is used by host-side code.
//!
//! **Invariant:** calls settle one at a time in the order in which they were issued, and nothing else interleaves; two
//! executions of a cell with the same replies issue the same calls.
//!
//! **Invariant:** a cell that is cut cannot catch it, and no job of it is left for a later frame.
//!
//! What the thread host cannot do is kill: a few builtins of the engine (a search for a long text in a long text, a huge
//! bigint as text) run natively to their end. A host that runs untrusted cells puts the realm into a process; the
//! messages between the two are the same.

mod bridge;
mod budget;
mod console;
mod error;
mod frame;
mod host;
mod js;
mod limits;
mod message;
pub(crate) mod text;
mod values;
mod worker;

pub use bridge::{Bridge, BridgeRequest, FlowProjection, Interrupted};
pub use console::MAX_PRINT_BYTES;
pub use error::SandboxError;
pub use frame::{
    BindingReading, FrameBoundary, FrameEnd, Intent, Outcome, ParkReason, RealmFrame, Terminal, Transition,
    repl_transition,
};
pub use host::{FrameOptions, Realm};
pub use limits::{Limits, MAX_LIMIT};
pub use values::from_json;
