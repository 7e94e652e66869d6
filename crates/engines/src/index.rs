//! The rows of an opened run, as lookups need them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowcell_harness::engine::{Call, Dispatch};
use flowcell_harness::error::{Escape, HarnessError};
use flowcell_harness::failure::{CallFailure, CallFailureCode};
use flowcell_harness::flows::capability::Capability;
use flowcell_harness::flows::effects::Tier;
use flowcell_harness::journal::{
    CallStarted, CellCall, FramesSeen, Kind, Resolution, Resumed, Row, Suspended,
};

/// A call's place: frame, cell, ordinal.
type Place = (u64, String, u64);

/// All rows of a run, and what follows from them. Loaded once, when the run is opened; rows that are committed after
/// that are added.
#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: HashMap<Kind, HashMap<String, Arc<Row>>>,
    /// Keys of rows that were there when the run was opened and that nobody has asked for.
    unclaimed: HashMap<Kind, HashSet<String>>,
    frames: FramesSeen,
    starts: HashMap<Place, Vec<CallStarted>>,
    /// Starts that a suspension closed.
    parked: HashSet<(String, u32)>,
    suspensions: u64,
    /// By boundary: the refusal that stands, when the last thing that happened to it is that a person refused it.
    refused: HashMap<String, String>,
    /// By boundary: what a person allowed it once.
    admitted: HashMap<String, Vec<Capability>>,
    resumed: HashSet<String>,
}

/// What a call without a settlement comes to.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Its body runs.
    Dispatch(Dispatch),
    /// It settles without one.
    Settle(CallFailure),
}

/// The kinds of which an execution asks for every row before it decides a new one.
const PREFIX: [Kind; 2] = [Kind::CellFrame, Kind::CellCall];

impl Index {
    /// The index of a run's rows.
    ///
    /// # Errors
    /// `engine_failed` for a start, a suspension or a resumption that does not read.
    pub(crate) fn of(rows: Vec<Row>) -> Result<Self, HarnessError> {
        let mut index = Self::default();
        for row in rows {
            index.add(Arc::new(row))?;
        }
        for kind in PREFIX {
            let keys = index.rows.get(&kind).map(|rows| rows.keys().cloned().collect()).unwrap_or_default();
            index.unclaimed.insert(kind, keys);
        }
        Ok(index)
    }

    /// Adds a committed row.
    ///
    /// # Errors
    /// As [`Index::of`].
    pub(crate) fn add(&mut self, row: Arc<Row>) -> Result<(), HarnessError> {
        match row.kind {
            Kind::CallStarted => {
                let start: CallStarted = row.decode()?;
                let place = (start.identity.frame, start.identity.cell.clone(), start.identity.ordinal);
                self.starts.entry(place).or_default().push(start);
            }
            Kind::Suspended => {
                let suspended: Suspended = row.decode()?;
                self.suspensions = self.suspensions.saturating_add(1);
                self.refused.remove(&suspended.at);
                if let Some(attempt) = suspended.attempt {
                    self.parked.insert((attempt.key, attempt.number));
                }
            }
            Kind::Resumed => self.add_resumed(row.decode()?)?,
            _ => {}
        }
        self.rows.entry(row.kind).or_default().insert(row.key.clone(), row);
        Ok(())
    }

    fn add_resumed(&mut self, resumed: Resumed) -> Result<(), HarnessError> {
        match (resumed.resolution, resumed.request) {
            (Some(Resolution::Once), Some(request)) => {
                let capability = Capability::parse(&request.capability).ok_or_else(|| {
                    HarnessError::engine(format!(
                        "{:?}, which was allowed, is not a capability",
                        request.capability
                    ))
                })?;
                self.admitted.entry(resumed.at.clone()).or_default().push(capability);
                self.refused.remove(&resumed.at);
            }
            (Some(Resolution::Deny), request) => {
                let what =
                    request.map_or_else(|| "what it asked for".to_owned(), |request| request.capability);
                self.refused.insert(resumed.at.clone(), what);
            }
            _ => {
                self.refused.remove(&resumed.at);
            }
        }
        self.resumed.insert(resumed.at);
        Ok(())
    }

    /// How many times the run was suspended.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions
    }

    /// Whether the run went on after a suspension at this boundary.
    pub(crate) fn resumed(&self, at: &str) -> bool {
        self.resumed.contains(at)
    }

    /// The row of a key, which is then asked for.
    pub(crate) fn claim(&mut self, kind: Kind, key: &str) -> Option<Arc<Row>> {
        let row = Arc::clone(self.rows.get(&kind)?.get(key)?);
        if let Some(keys) = self.unclaimed.get_mut(&kind) {
            keys.remove(key);
        }
        self.pass(&row);
        Some(row)
    }

    /// An execution came to a row: what a cut frame passed over is not asked for any more.
    pub(crate) fn pass(&mut self, row: &Row) {
        let Some(passed) = self.frames.next(row) else { return };
        let calls = self.rows.get(&Kind::CellCall);
        if let Some(keys) = self.unclaimed.get_mut(&Kind::CellCall) {
            keys.retain(|key| {
                !calls.and_then(|rows| rows.get(key)).is_some_and(|row| passed.contains(&row.seq))
            });
        }
    }

    /// Whether a boundary without a record may be decided now: what an execution decides comes after all that was
    /// decided before (6.4).
    ///
    /// # Errors
    /// `incompatible_journal`.
    pub(crate) fn may_decide(&self, kind: Kind, key: &str, what: &str) -> Result<(), HarnessError> {
        if self.rows.get(&Kind::RunClosed).is_some_and(|rows| !rows.is_empty()) {
            return Err(HarnessError::incompatible(
                key,
                format!("the run has ended and its journal has no record of {what}"),
            ));
        }
        let left = self.unclaimed.get(&kind).and_then(|keys| {
            keys.iter().filter_map(|key| self.rows.get(&kind)?.get(key)).min_by_key(|row| row.seq)
        });
        match left {
            None => Ok(()),
            Some(row) => Err(HarnessError::incompatible(
                key,
                format!(
                    "the journal has no record of {what}, and holds row {} ({kind}), which the run did not come to",
                    row.seq
                ),
            )),
        }
    }

    /// The settlement of a call, when there is one.
    ///
    /// # Errors
    /// `incompatible_journal` when it settled another call; `engine_failed` when it does not read.
    pub(crate) fn settlement(&mut self, call: &Call, key: &str) -> Result<Option<CellCall>, HarnessError> {
        let Some(row) = self.claim(Kind::CellCall, key) else { return Ok(None) };
        let record: CellCall = row.decode()?;
        record.answers(call).map_err(|why| HarnessError::incompatible(key, why))?;
        Ok(Some(record))
    }

    /// What a call without a settlement comes to (6.4, 6.5).
    ///
    /// # Errors
    /// `incompatible_journal`.
    pub(crate) fn judge(&self, call: &Call, key: &str) -> Result<Verdict, Escape> {
        let place = &call.identity;
        let what = format!("call {} of frame {} ({:?})", place.ordinal, place.frame, call.flow);
        if call.terminal {
            return Err(HarnessError::incompatible(
                key,
                format!("the frame has ended and its journal has no record of {what}"),
            )
            .into());
        }
        self.may_decide(Kind::CellCall, key, &what)?;
        let starts =
            self.starts.get(&(place.frame, place.cell.clone(), place.ordinal)).map_or(&[][..], Vec::as_slice);
        let open = |start: &&CallStarted| !self.parked.contains(&(start.key.clone(), start.attempt));
        if let Some(other) = starts.iter().filter(open).find(|start| start.key != call.key) {
            return Err(HarnessError::incompatible(
                key,
                format!("{what} is not the call that was started in its place, of {:?}", other.flow),
            )
            .into());
        }
        if let Some(capability) = self.refused.get(key) {
            return Ok(Verdict::Settle(CallFailure::new(
                CallFailureCode::CapabilityRefused,
                format!("{capability} was refused by a person."),
            )));
        }
        let admitted = self.admitted.get(key).cloned().unwrap_or_default();
        if call.tier == Tier::Sealed {
            return Ok(Verdict::Dispatch(Dispatch { attempt: 0, admitted }));
        }
        let mine = || starts.iter().filter(|start| start.key == call.key);
        if !call.idempotent && mine().any(|start| open(&start)) {
            return Ok(Verdict::Settle(unknown(&call.flow)));
        }
        let last = mine().map(|start| start.attempt).max().unwrap_or(0);
        let attempt = last
            .checked_add(1)
            .ok_or_else(|| HarnessError::engine(format!("{what} was started too often")))?;
        Ok(Verdict::Dispatch(Dispatch { attempt, admitted }))
    }
}

fn unknown(flow: &str) -> CallFailure {
    CallFailure::new(
        CallFailureCode::OutcomeUnknown,
        format!(
            "Flow {flow} was started, and its result was not recorded before the run was cut off. It may have acted. It \
             was not started again: look at what it would have changed, and call it again only when it did not."
        ),
    )
}
