//! What happens in a run, for whoever watches.

use crate::report::{CallReport, FrameReport};

/// What happens in a run, for a surface that shows it while it runs. Telemetry: nothing is rebuilt from it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// A frame's cell starts.
    FrameOpened {
        /// The frame.
        frame: u64,
        /// Where its cell comes from.
        name: &'a str,
    },
    /// A call is about to settle.
    CallStarted {
        /// The frame.
        frame: u64,
        /// The call's place in it.
        ordinal: u64,
        /// The flow.
        flow: &'a str,
    },
    /// A call settled.
    CallSettled {
        /// The frame.
        frame: u64,
        /// The call.
        call: &'a CallReport,
    },
    /// A frame ended.
    FrameClosed {
        /// The frame.
        frame: &'a FrameReport,
    },
}

/// Sees the events of a run.
pub trait Observer: Send + Sync {
    /// One event.
    fn event(&self, event: &Event<'_>);
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn event(&self, _event: &Event<'_>) {}
}
