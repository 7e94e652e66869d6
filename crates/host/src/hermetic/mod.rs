//! The lexical pre-check of a hermetic command: the paths that its text names have to be declared (host contract 5.1).
//!
//! It refuses before anything is started, and sees only names in the text. It proves nothing about a name without a slash,
//! about `$x`, or about what a program opens: that is what [`confine`](crate::confine) is for.
//!
//! ```
//! use flowcell_host::hermetic::{Access, Envelope};
//! let reads = ["src".to_owned()];
//! let envelope = Envelope::new("/ws", None, &reads, &[]);
//! assert_eq!(envelope.check("cat src/a.rs"), Ok(()));
//! let refused = envelope.check("cat src/a.rs > out/b").unwrap_err();
//! assert_eq!((refused.access, refused.path.as_str()), (Access::Write, "/ws/out/b"));
//! ```

use crate::kernel::fs::lexical;

mod cover;
mod expand;
mod references;
mod words;

pub use cover::Declared;
pub use expand::{Expanded, MAX_EXPANDED};
pub use references::{Access, Reference, references};
pub use words::{Redirect, Token, tokens};

/// A path that a text names and the call does not declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// What the text does with it.
    pub access: Access,
    /// The path, absolute and normal.
    pub path: String,
    /// Whether it is the working directory of the call rather than a name in its text.
    pub cwd: bool,
}

/// What a hermetic call declares, resolved against its working directory.
#[derive(Clone, Debug)]
pub struct Envelope {
    root: String,
    cwd: String,
    given: bool,
    reads: Declared,
    writes: Declared,
}

impl Envelope {
    /// The envelope of a call in the workspace `root` (absolute and normal), in `cwd` as the caller gave it.
    #[must_use]
    pub fn new(root: &str, cwd: Option<&str>, reads: &[String], writes: &[String]) -> Self {
        let at = cwd.map_or_else(|| root.to_owned(), |cwd| lexical(root, cwd));
        Envelope {
            root: root.to_owned(),
            reads: Declared::new(reads, &at),
            writes: Declared::new(writes, &at),
            given: cwd.is_some(),
            cwd: at,
        }
    }

    /// The working directory, absolute and normal.
    #[must_use]
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// The declared reads.
    #[must_use]
    pub fn reads(&self) -> &Declared {
        &self.reads
    }

    /// The declared writes.
    #[must_use]
    pub fn writes(&self) -> &Declared {
        &self.writes
    }

    /// Checks the working directory and then every path that the text names, in its order (rules 2 and 4 to 7). What is
    /// below `/dev/` is let through.
    ///
    /// # Errors
    /// The first that is not declared for what is done with it.
    pub fn check(&self, text: &str) -> Result<(), Outside> {
        if self.given && self.cwd != self.root && !self.reads.covers(&self.cwd) {
            return Err(Outside { access: Access::Read, path: self.cwd.clone(), cwd: true });
        }
        for Reference { access, text } in references(text) {
            let path = lexical(&self.cwd, &text);
            let declared = match access {
                Access::Read => &self.reads,
                Access::Write => &self.writes,
            };
            if !path.starts_with("/dev/") && !declared.covers(&path) {
                return Err(Outside { access, path, cwd: false });
            }
        }
        Ok(())
    }
}
