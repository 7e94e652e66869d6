//! Licence expressions: identifiers, `WITH`, `AND`, `OR` and parentheses, as SPDX writes them.
//!
//! `AND` binds tighter than `OR`, `WITH` tighter than both. The old `/` of manifests stands for `OR`.

use std::fmt;

/// Why an expression cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a choice that the expression leaves open is met by `allowed` licences alone.
///
/// A licence with an exception is its own entry (`Apache-2.0 WITH LLVM-exception`): the plain licence does not
/// allow it, nor the reverse.
pub(crate) fn is_met(expression: &str, allowed: &[String]) -> Result<bool, Unreadable> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let met = parser.any()?;
    match parser.peek() {
        None => Ok(met),
        Some(word) => Err(Unreadable(format!("`{word}` does not belong there in `{expression}`"))),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, Unreadable> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool, Unreadable> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, Unreadable> {
        if self.take("(") {
            let met = self.any()?;
            return if self.take(")") {
                Ok(met)
            } else {
                Err(Unreadable("a parenthesis is not closed".to_owned()))
            };
        }
        let id = self.identifier()?;
        let name =
            if self.take("WITH") { format!("{id} WITH {}", self.identifier()?) } else { id.to_owned() };
        Ok(self.allowed.contains(&name))
    }

    fn identifier(&mut self) -> Result<&'a str, Unreadable> {
        let word = self.peek().ok_or_else(|| Unreadable("the expression ends too early".to_owned()))?;
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+' | ':'));
        if !plain || matches!(word, "AND" | "OR" | "WITH") {
            return Err(Unreadable(format!("`{word}` is not a licence")));
        }
        self.at += 1;
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(expression: &str) -> Result<bool, Unreadable> {
        let allowed =
            ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        is_met(expression, &allowed)
    }

    #[test]
    fn operators_mean_what_spdx_says() {
        for yes in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-3.0-only OR MIT",
            "MIT/Apache-2.0",
            "GPL-2.0-only/MIT",
            "(MIT OR GPL-2.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR BSL-1.0",
            "GPL-2.0-only AND X OR MIT",
            "MIT OR Apache-2.0 AND GPL-2.0-only",
        ] {
            assert_eq!(met(yes), Ok(true), "{yes}");
        }
        for no in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND GPL-3.0-only",
            "GPL-3.0-only OR MIT AND GPL-2.0-only",
            "MIT WITH Classpath-exception-2.0",
            "mit",
            "MITX",
            "Apache-2.0+",
        ] {
            assert_eq!(met(no), Ok(false), "{no}");
        }
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        for bad in [
            "",
            "MIT OR",
            "OR MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "MIT WITH OR",
            "MIT, ISC",
            "()",
        ] {
            assert!(met(bad).is_err(), "{bad}");
        }
    }
}
