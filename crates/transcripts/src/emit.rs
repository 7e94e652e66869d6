//! The entries of one record, numbered (transcript contract 1, *Entry*).

use crate::{AgentKind, Entry, Origin, Part, ReadOnly, Role};

/// What all entries of one record share, and where they go.
pub(crate) struct Emit<'a> {
    pub(crate) entries: &'a mut Vec<Entry>,
    pub(crate) seq: &'a mut u64,
    pub(crate) agent_kind: AgentKind,
    pub(crate) format_version: &'a str,
    pub(crate) session_id: &'a str,
    pub(crate) line: u64,
    pub(crate) at: i64,
    /// Entries of this record so far.
    pub(crate) count: u64,
    /// Bytes of text that further entries of this record may hold; `None` once that was not enough.
    pub(crate) room: Option<usize>,
}

impl Emit<'_> {
    /// Adds an entry. A prompt and a goal are the owner's; everything else is the agent's. An empty `turn` is none.
    ///
    /// Once there is no room for one, it and what follows it is left out: the record is refused then.
    pub(crate) fn entry(&mut self, turn: Option<&str>, part: Part) {
        let ids = self.session_id.len() * 2 + self.format_version.len() + turn.map_or(0, str::len);
        self.room = self.room.and_then(|room| room.checked_sub(ids.saturating_add(part.bytes())));
        if self.room.is_none() {
            return;
        }
        let role = if matches!(part, Part::Prompt { .. } | Part::Goal { .. }) {
            Role::User
        } else {
            Role::Assistant
        };
        let source_id = match self.count {
            0 => format!("{}:{}", self.session_id, self.line),
            later => format!("{}:{}#{later}", self.session_id, self.line),
        };
        self.entries.push(Entry {
            origin: Origin::External,
            agent_kind: self.agent_kind,
            format_version: self.format_version.to_owned(),
            session_id: self.session_id.to_owned(),
            source_id,
            read_only: ReadOnly,
            seq: *self.seq,
            at: self.at,
            turn_id: turn.filter(|turn| !turn.is_empty()).map(str::to_owned),
            role,
            part,
        });
        *self.seq = self.seq.saturating_add(1);
        self.count += 1;
    }
}
