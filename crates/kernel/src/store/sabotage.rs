//! Seeded bugs, which the explorer of interleavings has to find. A build that is no test has none.

/// A way to break the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Activates an answer before its record is written.
    ActivateFirst,
    /// Adds a rule and releases nobody.
    ForgetCover,
    /// A failed write loses the request.
    LoseOnFailure,
    /// A waiter that goes away leaves its entry.
    KeepDropped,
    /// A run rule is not bound to the asker's ceiling.
    LoseCeiling,
    /// A grant goes before its revocation is recorded.
    RevokeFirst,
    /// Closing forgets the waiters.
    CloseForgets,
}

impl Sabotage {
    #[cfg(not(test))]
    pub(crate) const fn is_on(self) -> bool {
        false
    }

    #[cfg(test)]
    pub(crate) fn is_on(self) -> bool {
        ACTIVE.with(|active| active.get() == Some(self))
    }

    /// Runs something with a bug on this thread.
    #[cfg(test)]
    pub(crate) fn during<T>(bug: Option<Self>, run: impl FnOnce() -> T) -> T {
        let before = ACTIVE.with(|active| active.replace(bug));
        let result = run();
        ACTIVE.with(|active| active.set(before));
        result
    }
}

#[cfg(test)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Sabotage>> = const { std::cell::Cell::new(None) };
}
