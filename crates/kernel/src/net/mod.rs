//! What a network request asks for (kernel contract 6.3): URLs as origins, origins as capabilities, addresses as classes.
//!
//! Pure: nothing here resolves a name or connects. Feature `net`.

mod address;
mod origin;

pub use address::{Block, Class, classify};
pub use origin::{Origin, UrlRefused, accept};
