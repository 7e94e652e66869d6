//! What a run of the kit answers.

use std::collections::BTreeMap;
use std::fmt;

use super::call::Call;
use super::rule::Rule;
use super::tree::Tree;
use crate::kernel::HandlerError;
use crate::query::{GlobAnswer, GrepAnswer};

/// How often each rule had something to decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<Rule, u64>,
}

impl Coverage {
    pub(crate) fn add(&mut self, rules: impl IntoIterator<Item = Rule>) {
        for rule in rules {
            *self.counts.entry(rule).or_default() += 1;
        }
    }

    /// Cases that hit `rule`.
    pub fn count(&self, rule: Rule) -> u64 {
        self.counts.get(&rule).copied().unwrap_or(0)
    }

    /// The rules that fewer than `least` cases hit.
    pub fn below(&self, least: u64) -> Vec<Rule> {
        Rule::ALL.iter().copied().filter(|rule| self.count(*rule) < least).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in Rule::ALL.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{rule:?} {}", self.count(*rule))?;
        }
        Ok(())
    }
}

/// The answer of one peer to one call.
#[derive(Debug)]
pub enum Answer {
    /// To a search for names.
    Glob(Result<GlobAnswer, HandlerError>),
    /// To a search for lines.
    Grep(Result<GrepAnswer, HandlerError>),
}

impl Answer {
    /// Whether it found something.
    pub fn found(&self) -> bool {
        match self {
            Self::Glob(Ok(answer)) => answer.total > 0,
            Self::Grep(Ok(answer)) => {
                !answer.matches.is_empty() || !answer.files.is_empty() || answer.truncated
            }
            Self::Glob(Err(_)) | Self::Grep(Err(_)) => false,
        }
    }

    /// The answer in one form for both peers: fields in full; failures by code and path, because their wording is a peer's
    /// own. Texts that differ from host to host by the place of the workspace hold `workspace` as it is.
    pub(crate) fn text(&self) -> String {
        let failure = |error: &HandlerError| match error {
            HandlerError::Flow(error) => format!("failure {:?} of {:?}", error.code, error.path),
            HandlerError::Permission(error) => format!("permission: {error}"),
            HandlerError::Cancelled => "cancelled".to_owned(),
        };
        match self {
            Self::Glob(Ok(answer)) => format!("{answer:#?}"),
            Self::Grep(Ok(answer)) => format!("{answer:#?}"),
            Self::Glob(Err(error)) | Self::Grep(Err(error)) => failure(error),
        }
    }
}

/// Two answers that differ, on the smallest tree and call that still show it.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Number of the case in its run; 0 for a single comparison.
    pub case: u64,
    /// The tree.
    pub tree: Tree,
    /// The call.
    pub call: Call,
    /// What the reference answers.
    pub reference: String,
    /// What the peer answers.
    pub peer: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "case {}: the answers differ for {}", self.case, self.call)?;
        write!(f, "on the tree\n{}", self.tree)?;
        let (left, right): (Vec<&str>, Vec<&str>) =
            (self.reference.lines().collect(), self.peer.lines().collect());
        let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
        let end = left.iter().rev().zip(right.iter().rev()).take_while(|(left, right)| left == right).count();
        let cut = |lines: &[&str]| {
            let last = lines.len().saturating_sub(end).max(same).min(lines.len());
            let from = same.saturating_sub(2).min(last);
            lines[from..last].iter().take(40).map(|line| format!("    {line}\n")).collect::<String>()
        };
        write!(f, "  reference:\n{}  peer:\n{}", cut(&left), cut(&right))
    }
}

/// A difference that the contract decides: the reference is right, and the peer cannot answer so.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// A short name.
    pub name: &'static str,
    /// The rule of the contract that decides it.
    pub rule: &'static str,
    /// Whether a difference is of this kind.
    pub applies: fn(&Tree, &Call, &Answer, &Answer) -> bool,
}

/// What a run found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Trees and calls compared.
    pub cases: u64,
    /// Those in which the reference found something.
    pub matched: u64,
    /// Those in which it failed.
    pub failed: u64,
    /// How often each rule was hit.
    pub coverage: Coverage,
    /// Differences that nobody named, shrunk; at most [`super::MOST_DIFFERENCES`], after which the run stops.
    pub differences: Vec<Difference>,
    /// Differences that the contract decides, by their names.
    pub known: BTreeMap<&'static str, u64>,
}
