//! Secrets by name.

use std::fmt;

use async_trait::async_trait;

/// A secret's text. `Debug` does not show it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A store of secrets that could not be asked. The message never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credentials are unavailable: {message}")]
pub struct CredentialsError {
    /// What went wrong, in one line.
    pub message: String,
}

/// Secrets by name (kernel contract 6.4).
#[async_trait]
pub trait Credentials: Send + Sync {
    /// The secret of this name; `None` when the host has none. An error means that the store could not be asked.
    async fn secret(&self, name: &str) -> Result<Option<Secret>, CredentialsError>;
}
