//! The three variables of a rule's pattern: `${workspace}`, `${data}` and `${home}` (CLI contract 3).

/// What the variables stand for: absolute paths, without a slash at their end unless they are the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// The logical workspace root.
    pub workspace: String,
    /// The data folder.
    pub data: String,
    /// The home folder, when the process has one.
    pub home: Option<String>,
}

/// Why a pattern's variables cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// A variable that is none of the three.
    #[error("${{{name}}} is no variable; {}", super::meant(name, "variable", NAMES, braced))]
    Unknown {
        /// The name in the braces.
        name: String,
    },
    /// `${` without its brace.
    #[error("a `${{` has no `}}`")]
    Open,
    /// `${home}` where there is no home folder.
    #[error("${{home}} stands for nothing: HOME is not set")]
    NoHome,
    /// A path that a pattern cannot spell.
    #[error("${{{name}}} is {path}, and a pattern cannot spell a `*` or a `?` of a path")]
    Wild {
        /// The variable.
        name: String,
        /// Its path.
        path: String,
    },
}

const NAMES: [&str; 3] = ["workspace", "data", "home"];

fn braced(name: &str) -> String {
    format!("${{{name}}}")
}

impl Variables {
    /// Puts the variables into a pattern, in one pass: what they stand for is literal.
    ///
    /// ```
    /// use flowcell::policy::Variables;
    /// let variables = Variables { workspace: "/w".into(), data: "/w/.flowcell".into(), home: None };
    /// assert_eq!(variables.expand("fs:read:${workspace}/**").as_deref(), Ok("fs:read:/w/**"));
    /// assert!(variables.expand("fs:read:${wrkspace}/**").is_err());
    /// ```
    ///
    /// # Errors
    /// [`VariableError`].
    pub fn expand(&self, pattern: &str) -> Result<String, VariableError> {
        let mut out = String::with_capacity(pattern.len());
        let mut rest = pattern;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let after = &rest[at + 2..];
            let end = after.find('}').ok_or(VariableError::Open)?;
            let path = self.path(&after[..end])?;
            rest = &after[end + 1..];
            // The root ends in the slash that the pattern goes on with.
            out.push_str(if path == "/" && rest.starts_with('/') { "" } else { path });
        }
        out.push_str(rest);
        Ok(out)
    }

    fn path(&self, name: &str) -> Result<&str, VariableError> {
        let path = match name {
            "workspace" => &self.workspace,
            "data" => &self.data,
            "home" => self.home.as_ref().ok_or(VariableError::NoHome)?,
            _ => {
                return Err(VariableError::Unknown { name: name.to_owned() });
            }
        };
        if path.contains(['*', '?']) {
            return Err(VariableError::Wild { name: name.to_owned(), path: path.clone() });
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(workspace: &str) -> Variables {
        Variables { workspace: workspace.into(), data: "/d".into(), home: Some("/h".into()) }
    }

    #[test]
    fn what_a_variable_stands_for_is_literal() {
        let odd = variables("/a${home}");
        assert_eq!(odd.expand("fs:read:${workspace}/x").as_deref(), Ok("fs:read:/a${home}/x"));
        assert_eq!(odd.expand("${home}${data}$x{y}").as_deref(), Ok("/h/d$x{y}"));
        assert_eq!(variables("/").expand("fs:read:${workspace}/**").as_deref(), Ok("fs:read:/**"));
        assert_eq!(variables("/").expand("fs:read:${workspace}").as_deref(), Ok("fs:read:/"));
    }

    #[test]
    fn what_cannot_be_put_in_is_an_error() {
        let plain = variables("/w");
        let unknown = |text: &str| plain.expand(text).unwrap_err().to_string();
        assert_eq!(unknown("${hom}"), "${hom} is no variable; the nearest variable is ${home}");
        assert_eq!(unknown("${}"), "${} is no variable; the variables are ${workspace}, ${data}, ${home}");
        assert_eq!(plain.expand("fs:read:${workspace"), Err(VariableError::Open));
        let homeless = Variables { home: None, ..plain };
        assert_eq!(homeless.expand("${home}"), Err(VariableError::NoHome));
        assert!(matches!(variables("/w*").expand("${workspace}"), Err(VariableError::Wild { .. })));
    }
}
