//! Reading one policy file. Every error names the file, the line and the field.

use std::collections::BTreeMap;
use std::ops::Range;

use flowcell_engines::harness::flows::capability::CapabilityPattern;
use flowcell_engines::harness::flows::rules::Effect;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::shape::{FILE, Key, Shape};
use super::{backquoted, meant, meant_action, nearest};

/// The largest policy file, in bytes.
pub const MAX_POLICY_BYTES: u64 = 1 << 20;

/// A policy file that cannot be used: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{why}", field_prefix(field))]
pub struct PolicyFileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The field, such as `host.checkpoints` or `rule[2].effect`; empty for the text itself.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

fn field_prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// A rule as it stands in a file: its variables are not put in yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// What it says.
    pub effect: Effect,
    /// Of what.
    pub pattern: String,
    /// The line it stands in.
    pub line: usize,
    /// Its place among the file's rules, from 0.
    pub index: usize,
}

/// What `[host]` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTable {
    /// Whether a file with more than one link may not be read.
    pub refuse_hard_linked_reads: Option<bool>,
    /// Whether `/proc`, `/sys` and `/dev` are not refused before any rule.
    pub allow_pseudo_fs: Option<bool>,
    /// Whether runs keep checkpoints of the workspace.
    pub checkpoints: Option<bool>,
    /// Whether a hermetic command that cannot be confined is refused rather than run.
    pub hermetic_required: Option<bool>,
}

/// What `[test]` says: the members of a declared test runner (host contract 5.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestTable {
    /// The command line, to which the selection is added.
    pub command: String,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The root of the repository that `against: "base"` is taken from.
    pub root: Option<String>,
    /// The container it runs in.
    pub container: Option<String>,
    /// Variables for it.
    pub env: BTreeMap<String, String>,
    /// The revision that is the base.
    pub base_ref: Option<String>,
    /// Its time, in milliseconds.
    pub timeout_ms: Option<f64>,
    /// A file of JUnit XML that it writes.
    pub report: Option<String>,
}

/// A policy file that was read and checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFile {
    /// Its rules, in order.
    pub rules: Vec<RuleText>,
    /// `attended`.
    pub attended: Option<bool>,
    /// What `[host]` says.
    pub host: HostTable,
    /// What `[test]` says.
    pub test: Option<TestTable>,
    /// The program of `[container]`.
    pub container: Option<String>,
    /// Members that the format has and this version does nothing with, such as `lsp.servers.rust`.
    pub idle: Vec<String>,
    /// Members other than rules, as a warning names them.
    pub members: Vec<String>,
}

impl PolicyFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`PolicyFileError`] for what is no TOML, an unknown key, and a value that is not what its key takes.
    ///
    /// ```
    /// use flowcell::policy::PolicyFile;
    /// let error = PolicyFile::parse("p.toml", "[host]\nallow_pseudofs = true\n").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "p.toml:2: host.allow_pseudofs: unknown key; the nearest known key is `allow_pseudo_fs`"
    /// );
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, PolicyFileError> {
        let reader = Reader { file, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), "", error.message().to_owned()))?;
        let table = table.get_ref();
        reader.table(table, FILE, "", 0..0)?;
        Ok(reader.extract(table))
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let end = at.min(self.text.len());
        self.text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    fn error(&self, span: Range<usize>, field: &str, why: impl Into<String>) -> PolicyFileError {
        PolicyFileError {
            file: self.file.to_owned(),
            line: self.line(span.start),
            field: field.to_owned(),
            why: why.into(),
        }
    }

    fn table(
        &self,
        table: &DeTable<'_>,
        keys: &[Key],
        path: &str,
        span: Range<usize>,
    ) -> Result<(), PolicyFileError> {
        for (name, value) in table {
            let field = join(path, name.get_ref());
            let Some(key) = keys.iter().find(|key| key.name == name.get_ref().as_ref()) else {
                let known = keys.iter().map(|key| key.name);
                let why = format!("unknown key; {}", meant(name.get_ref(), "known key", known, backquoted));
                return Err(self.error(name.span(), &field, why));
            };
            self.value(value, key.shape, &field)?;
        }
        for key in keys.iter().filter(|key| key.required) {
            if !table.keys().any(|name| name.get_ref().as_ref() == key.name) {
                return Err(self.error(span, &join(path, key.name), "this key is required"));
            }
        }
        Ok(())
    }

    fn value(&self, value: &Spanned<DeValue<'_>>, shape: Shape, field: &str) -> Result<(), PolicyFileError> {
        let span = value.span();
        let wrong = |expected: &str| {
            let found = value.get_ref().type_str();
            Err(self.error(span.clone(), field, format!("expected {expected}, found {found}")))
        };
        match (shape, value.get_ref()) {
            (Shape::Any, _) | (Shape::Flag, DeValue::Boolean(_)) => Ok(()),
            (Shape::Flag, _) => wrong("true or false"),
            (Shape::Text, DeValue::String(text)) if !text.is_empty() => Ok(()),
            (Shape::Text, DeValue::String(_)) => {
                Err(self.error(span, field, "an empty string is not a value here"))
            }
            (Shape::Text, _) => wrong("a string"),
            (Shape::Choice(choices), DeValue::String(text)) => {
                if choices.contains(&text.as_ref()) {
                    return Ok(());
                }
                let mut why = format!("{text:?} is none of {}", choices.join(", "));
                if let Some(choice) = nearest(text, choices.iter().copied()) {
                    why.push_str(&format!("; the nearest is {choice:?}"));
                }
                Err(self.error(span, field, why))
            }
            (Shape::Choice(choices), _) => wrong(&format!("one of {}", choices.join(", "))),
            (Shape::Whole(least, most), DeValue::Integer(number)) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok();
                match parsed.filter(|number| (least..=most).contains(number)) {
                    Some(_) => Ok(()),
                    None => Err(self.error(
                        span,
                        field,
                        format!("expected a whole number from {least} to {most}"),
                    )),
                }
            }
            (Shape::Whole(..), _) => wrong("a whole number"),
            (Shape::Texts, DeValue::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    if !item.get_ref().is_str() {
                        let why = format!("expected a string, found {}", item.get_ref().type_str());
                        return Err(self.error(item.span(), &format!("{field}[{index}]"), why));
                    }
                }
                Ok(())
            }
            (Shape::Texts, _) => wrong("a list of strings"),
            (Shape::TextMap, DeValue::Table(table)) => {
                for (name, item) in table {
                    if !item.get_ref().is_str() {
                        let why = format!("expected a string, found {}", item.get_ref().type_str());
                        return Err(self.error(item.span(), &join(field, name.get_ref()), why));
                    }
                }
                Ok(())
            }
            (Shape::AnyMap, DeValue::Table(_)) => Ok(()),
            (Shape::Table(keys), DeValue::Table(table)) => self.table(table, keys, field, span),
            (Shape::Named(keys), DeValue::Table(table)) => {
                for (name, item) in table {
                    let field = join(field, name.get_ref());
                    match item.get_ref() {
                        DeValue::Table(table) => self.table(table, keys, &field, item.span())?,
                        other => {
                            let why = format!("expected a table, found {}", other.type_str());
                            return Err(self.error(item.span(), &field, why));
                        }
                    }
                }
                Ok(())
            }
            (Shape::Tables(keys), DeValue::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let field = format!("{field}[{index}]");
                    match item.get_ref() {
                        DeValue::Table(table) => self.table(table, keys, &field, item.span())?,
                        other => {
                            let why = format!("expected a table, found {}", other.type_str());
                            return Err(self.error(item.span(), &field, why));
                        }
                    }
                }
                Ok(())
            }
            (Shape::Tables(_), _) => wrong("a list of tables"),
            (Shape::TextMap | Shape::AnyMap | Shape::Table(_) | Shape::Named(_), _) => wrong("a table"),
        }
    }

    /// What this version acts on, of a table that was checked.
    fn extract(&self, table: &DeTable<'_>) -> PolicyFile {
        let mut policy = PolicyFile::default();
        for (name, value) in table {
            let value = value.get_ref();
            match name.get_ref().as_ref() {
                "rule" => policy.rules = self.rules(value),
                "attended" => {
                    policy.attended = value.as_bool();
                    policy.members.push("attended".into());
                }
                "host" => {
                    policy.members.push("[host]".into());
                    let flag = |name| member(value, name).and_then(|value| value.get_ref().as_bool());
                    let word = |name| member(value, name).and_then(|value| value.get_ref().as_str());
                    policy.host = HostTable {
                        refuse_hard_linked_reads: flag("refuse_hard_linked_reads"),
                        allow_pseudo_fs: flag("allow_pseudo_fs"),
                        checkpoints: flag("checkpoints"),
                        hermetic_required: word("hermetic_enforcement").map(|word| word == "required"),
                    };
                }
                "test" => {
                    policy.members.push("[test]".into());
                    policy.test = Some(test_table(value));
                }
                "container" => {
                    policy.members.push("[container]".into());
                    policy.container = text(value, "program");
                }
                other @ ("lsp" | "mcp") => {
                    let servers = member(value, "servers").and_then(|servers| servers.get_ref().as_table());
                    for name in servers.into_iter().flat_map(|servers| servers.keys()) {
                        let name = format!("{other}.servers.{}", name.get_ref());
                        policy.members.push(format!("[{name}]"));
                        policy.idle.push(name);
                    }
                }
                other => {
                    policy.members.push(format!("[{other}]"));
                    policy.idle.push(other.to_owned());
                }
            }
        }
        policy
    }

    fn rules(&self, value: &DeValue<'_>) -> Vec<RuleText> {
        let items = value.as_array().into_iter().flat_map(|items| items.iter()).enumerate();
        items
            .filter_map(|(index, item)| {
                let effect = member(item.get_ref(), "effect")?.get_ref().as_str().and_then(effect)?;
                let pattern = member(item.get_ref(), "pattern")?;
                Some(RuleText {
                    effect,
                    pattern: pattern.get_ref().as_str()?.to_owned(),
                    line: self.line(pattern.span().start),
                    index,
                })
            })
            .collect()
    }
}

fn member<'a, 'i>(value: &'a DeValue<'i>, name: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    value.as_table()?.iter().find(|(key, _)| key.get_ref().as_ref() == name).map(|(_, value)| value)
}

fn text(value: &DeValue<'_>, name: &str) -> Option<String> {
    member(value, name).and_then(|value| value.get_ref().as_str()).map(str::to_owned)
}

fn test_table(value: &DeValue<'_>) -> TestTable {
    let variables = member(value, "env").and_then(|env| env.get_ref().as_table());
    let env = variables
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.get_ref().to_string(), value.get_ref().as_str()?.to_owned())));
    TestTable {
        command: text(value, "command").unwrap_or_default(),
        cwd: text(value, "cwd"),
        root: text(value, "root"),
        container: text(value, "container"),
        env: env.collect(),
        base_ref: text(value, "base_ref"),
        timeout_ms: member(value, "timeout_ms").and_then(|value| milliseconds(value.get_ref())),
        report: text(value, "report"),
    }
}

/// A whole number that was checked to be one of milliseconds.
fn milliseconds(value: &DeValue<'_>) -> Option<f64> {
    let number = value.as_integer()?;
    let digits: String = number.as_str().chars().filter(|digit| *digit != '_' && *digit != '+').collect();
    // At most 2^53 - 1, which a double holds exactly.
    u64::from_str_radix(&digits, number.radix()).ok().map(|whole| whole as f64)
}

/// The effect of a word.
fn effect(word: &str) -> Option<Effect> {
    [Effect::Allow, Effect::Deny, Effect::Ask].into_iter().find(|effect| effect.as_str() == word)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The pattern of a text.
///
/// # Errors
/// Why it is none, in words.
pub(super) fn pattern(text: &str) -> Result<CapabilityPattern, String> {
    CapabilityPattern::parse(text).ok_or_else(|| {
        let form = "an action such as fs:read, net:* or *, a colon, and a glob of at most 4,096 units";
        match meant_action(text) {
            Some(pattern) => {
                format!("{text:?} is no capability pattern; did you mean {pattern:?}? A pattern is {form}")
            }
            None => format!("{text:?} is no capability pattern: {form}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        PolicyFile::parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_contracts_example_reads() {
        let text = r#"
attended = true
[[rule]]
effect = "allow"
pattern = "fs:read:${workspace}/**"
[lsp.servers.rust]
command = "rust-analyzer"
args = []
extensionToLanguage = { ".rs" = "rust" }
initializationOptions = { checkOnSave = false }
[test]
command = "cargo test"
[container]
program = "docker"
[host]
hermetic_enforcement = "best_effort"
refuse_hard_linked_reads = false
allow_pseudo_fs = true
checkpoints = true
[search]
provider = "exa"
credential = "EXA_API_KEY"
[mcp.servers.NAME]
command = "x"
"#;
        let policy = PolicyFile::parse("p.toml", text).unwrap();
        assert_eq!(policy.attended, Some(true));
        assert_eq!(policy.host.refuse_hard_linked_reads, Some(false));
        assert_eq!(policy.host.allow_pseudo_fs, Some(true));
        let rule =
            RuleText { effect: Effect::Allow, pattern: "fs:read:${workspace}/**".into(), line: 5, index: 0 };
        assert_eq!(policy.rules, [rule]);
        let mut idle = policy.idle;
        idle.sort();
        assert_eq!(idle, ["lsp.servers.rust", "mcp.servers.NAME", "search"]);
        assert_eq!((policy.host.checkpoints, policy.host.hermetic_required), (Some(true), Some(false)));
        assert_eq!(policy.container.as_deref(), Some("docker"));
        assert_eq!(policy.test, Some(TestTable { command: "cargo test".into(), ..TestTable::default() }));
    }

    #[test]
    fn whole_numbers_may_be_written_in_any_base() {
        let text = |number: &str| format!("[test]\ncommand = \"t\"\ntimeout_ms = {number}\n");
        for good in ["1", "+7", "0x10", "0o17", "0b1", "1_000", "9007199254740991"] {
            assert!(PolicyFile::parse("p", &text(good)).is_ok(), "{good}");
        }
        for bad in ["0", "-1", "0x0", "1.0", "9007199254740992", "99999999999999999999999999"] {
            assert!(PolicyFile::parse("p", &text(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_error_names_its_place() {
        for (text, expected) in [
            ("a = [", "p.toml:1: "),
            ("\nattendd = true", "p.toml:2: attendd: unknown key; the nearest known key is `attended`"),
            (
                "[host]\n\ncheckpoint = true",
                "p.toml:3: host.checkpoint: unknown key; the nearest known key is `checkpoints`",
            ),
            (
                "[[rule]]\neffect = \"alow\"\npattern = \"*\"",
                "p.toml:2: rule[0].effect: \"alow\" is none of allow, deny, ask; the nearest is \"allow\"",
            ),
            ("[[rule]]\neffect = \"deny\"", "rule[0].pattern: this key is required"),
            (
                "[[rule]]\neffect = \"deny\"\npatern = \"*\"",
                "p.toml:3: rule[0].patern: unknown key; the nearest known key is `pattern`",
            ),
            ("rule = 1", "p.toml:1: rule: expected a list of tables, found integer"),
            ("rule = [1]", "p.toml:1: rule[0]: expected a table, found integer"),
            ("attended = 1", "attended: expected true or false, found integer"),
            ("[container]\nprogram = \"dockr\"", "container.program: \"dockr\" is none of docker, podman"),
            (
                "[lsp.servers.a]\ncommand = \"x\"\nextensionToLanguage = {}\nmaxMessageBytes = 0",
                "p.toml:4: lsp.servers.a.maxMessageBytes: expected a whole number from 1 to 2147483648",
            ),
            (
                "[lsp.servers.a]\ncommand = \"x\"\nextensionToLanguage = {a=1}",
                "lsp.servers.a.extensionToLanguage.a: expected a string",
            ),
            (
                "[lsp.servers.a]\ncommand = \"x\"\nargs = [1]\nextensionToLanguage = {}",
                "lsp.servers.a.args[0]: expected a string",
            ),
            ("[lsp.server]", "lsp.server: unknown key; the nearest known key is `servers`"),
            ("[mcp.servers]\na = 1", "mcp.servers.a: expected a table"),
            ("[test]\ncommand = \"\"", "test.command: an empty string"),
            ("[search]\nprovider = \"exa\"", "search.credential: this key is required"),
        ] {
            let found = why(text);
            assert!(found.contains(expected), "{text:?} gave {found:?}");
        }
    }
}
