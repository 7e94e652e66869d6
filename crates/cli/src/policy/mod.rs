//! Policy: which rules hold, in which order, and where each comes from (CLI contract 3).
//!
//! **Invariant:** a workspace cannot grant itself anything. Of a file that nobody trusted only deny and ask rules count,
//! and only as narrowing: its denies join the configured ruleset at the end, where they are vetoes, and its asks go
//! to the kernel as narrowing rules, which can turn an allow into an ask and lift nothing.
//!
//! **Invariant:** the built-in denies of the data folder and of the user's configuration come after everything, so that
//! no rule lifts them.

mod file;
mod names;
mod shape;
mod store;
mod variables;

use std::fmt;

use flowcell_engines::harness::flows::capability::{Action, ActionSel, Capability, CapabilityPattern};
use flowcell_engines::harness::flows::rules::{Effect, Rule};
use flowcell_engines::harness::kernel::fs::is_inside;

pub use file::{HostTable, MAX_POLICY_BYTES, PolicyFile, PolicyFileError, RuleText, TestTable};
pub(crate) use names::{backquoted, meant, meant_action, nearest};
pub use store::{Explanation, RuleReport, StoreOptions, explain, explain_command, named, open_store, reason};
pub use variables::{VariableError, Variables};

/// The source of the built-in rules.
pub const BUILT_IN: &str = "built-in";

/// A rule and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedRule {
    /// The rule.
    pub rule: Rule,
    /// The file, the flag, or [`BUILT_IN`].
    pub source: String,
}

/// A rule flag of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFlag {
    /// What it says: `--allow`, `--deny` or `--ask`.
    pub effect: Effect,
    /// Of what.
    pub pattern: String,
}

impl RuleFlag {
    /// The flag's name.
    pub fn flag(&self) -> &'static str {
        match self.effect {
            Effect::Allow => "--allow",
            Effect::Deny => "--deny",
            Effect::Ask => "--ask",
        }
    }
}

/// A policy file that was read from disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// Its path, as messages and sources name it.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// How a workspace's own file stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    #[default]
    Absent,
    /// It is there, and nobody trusted it.
    Untrusted,
    /// It is there, and has changed since somebody trusted it.
    Changed,
    /// Its digest is pinned.
    Trusted,
    /// A `--policy` names it, which trusts it for this call.
    Named,
}

/// Everything that policy is made of, in the order in which it counts.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The user's file.
    pub user: Option<FileText>,
    /// The workspace's file, unless a `--policy` names it.
    pub workspace: Option<FileText>,
    /// How it stands.
    pub standing: Standing,
    /// The files of `--policy`.
    pub named: Vec<FileText>,
    /// The rule flags.
    pub flags: Vec<RuleFlag>,
    /// The spellings of the data folder, and of a journal that is kept elsewhere, that are denied.
    pub data: Vec<String>,
    /// The spellings of the user's configuration folder of flowcell that are denied.
    pub config: Vec<String>,
}

/// What cannot be policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] PolicyFileError),
    /// A flag is wrong.
    #[error("{flag} {pattern:?}: {why}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Its pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// The workspace cannot be named by a rule.
    #[error(
        "the workspace root {0} cannot be named by a rule: a pattern cannot spell a `*` or a `?` of a path"
    )]
    Workspace(String),
}

/// The policy of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The configured ruleset, built-in rules included.
    pub configured: Vec<SourcedRule>,
    /// Ask rules of a workspace that nobody trusted: they turn an allow into an ask, and nothing else. What they ask, a
    /// person answers in the run that asks.
    pub narrowing: Vec<SourcedRule>,
    /// What `[host]` says.
    pub host: HostTable,
    /// What `[test]` says.
    pub test: Option<TestTable>,
    /// The program of `[container]`.
    pub container: Option<String>,
    /// What `attended` says.
    pub attended: Option<bool>,
    /// Members that this version does nothing with, each with its file.
    pub idle: Vec<String>,
    /// How the workspace's file stands.
    pub standing: Standing,
    /// What a person has to be told.
    pub warnings: Vec<String>,
}

impl Policy {
    /// Puts policy together.
    ///
    /// # Errors
    /// [`PolicyError`] naming the file, line and field, or the flag.
    pub fn assemble(sources: &Sources, variables: &Variables) -> Result<Self, PolicyError> {
        let mut policy = Self { standing: sources.standing, ..Self::default() };
        policy.built_in_first(variables)?;
        if let Some(user) = &sources.user {
            policy.add_file(user, variables)?;
        }
        let mut untrusted_denies = Vec::new();
        if let Some(workspace) = &sources.workspace {
            match sources.standing {
                Standing::Trusted | Standing::Named => policy.add_file(workspace, variables)?,
                Standing::Absent | Standing::Untrusted | Standing::Changed => {
                    untrusted_denies = policy.narrow_by(workspace, variables)?;
                }
            }
        }
        for named in &sources.named {
            policy.add_file(named, variables)?;
        }
        for flag in &sources.flags {
            let rule = rule_of(flag.effect, &flag.pattern, variables).map_err(|why| PolicyError::Flag {
                flag: flag.flag(),
                pattern: flag.pattern.clone(),
                why,
            })?;
            policy.warn_of_idle(&rule, || format!("{} {:?}", flag.flag(), flag.pattern));
            policy.configured.push(SourcedRule { rule, source: flag.flag().to_owned() });
        }
        policy.configured.append(&mut untrusted_denies);
        policy.built_in_last(sources);
        Ok(policy)
    }

    /// Ask for everything, then allow reading the workspace.
    fn built_in_first(&mut self, variables: &Variables) -> Result<(), PolicyError> {
        let wild = || PolicyError::Workspace(variables.workspace.clone());
        self.configured.extend(built_in(Effect::Ask, ActionSel::All, "**"));
        for text in ["${workspace}", "${workspace}/**"] {
            let text = variables.expand(text).map_err(|_| wild())?;
            self.configured.push(built_in(Effect::Allow, Action::FsRead, &text).ok_or_else(wild)?);
        }
        Ok(())
    }

    fn built_in_last(&mut self, sources: &Sources) {
        let folders = sources.data.iter().chain(&sources.config);
        let mut seen: Vec<&str> = Vec::new();
        for folder in folders {
            // What lies in a denied folder is denied already.
            if seen.iter().any(|denied| is_inside(denied, folder)) {
                continue;
            }
            seen.push(folder);
            let below = format!("{}/**", folder.trim_end_matches('/'));
            for action in [Action::FsRead, Action::FsWrite] {
                for text in [folder.as_str(), &below] {
                    self.configured.extend(built_in(Effect::Deny, action, text));
                }
            }
        }
    }

    /// Adds a file that counts in full.
    fn add_file(&mut self, file: &FileText, variables: &Variables) -> Result<(), PolicyError> {
        let read = PolicyFile::parse(&file.name, &file.text)?;
        for rule in &read.rules {
            let sourced = sourced(file, rule, &file.name, variables)?;
            self.warn_of_idle(&sourced.rule, || rule_name(file, rule));
            self.configured.push(sourced);
        }
        self.attended = read.attended.or(self.attended);
        let host = read.host;
        self.host.refuse_hard_linked_reads =
            host.refuse_hard_linked_reads.or(self.host.refuse_hard_linked_reads);
        self.host.allow_pseudo_fs = host.allow_pseudo_fs.or(self.host.allow_pseudo_fs);
        self.host.checkpoints = host.checkpoints.or(self.host.checkpoints);
        self.host.hermetic_required = host.hermetic_required.or(self.host.hermetic_required);
        self.test = read.test.or(self.test.take());
        self.container = read.container.or(self.container.take());
        for member in read.idle {
            let member = format!("{member} ({})", file.name);
            if !self.idle.contains(&member) {
                self.idle.push(member);
            }
        }
        Ok(())
    }

    /// Warns of a rule for paths that no path can match: a path is absolute.
    fn warn_of_idle(&mut self, rule: &Rule, name: impl Fn() -> String) {
        let action = rule.pattern.action();
        let of_paths = match action {
            ActionSel::Exact(action) => matches!(action, Action::FsRead | Action::FsWrite),
            ActionSel::Fs => true,
            _ => false,
        };
        let resource = rule.pattern.resource();
        if !of_paths || resource.starts_with(['/', '*', '?']) {
            return;
        }
        let selector = rule.pattern.to_string();
        let selector = selector.strip_suffix(resource).unwrap_or_default();
        self.warnings.push(format!(
            "{} matches nothing, because a path is absolute; write {selector}{}",
            name(),
            rooted(resource)
        ));
    }

    /// The members that have no effect in this version, one sentence each.
    pub fn idle_warnings(&self) -> impl Iterator<Item = String> {
        self.idle.iter().map(|member| format!("{member} has no effect in this version"))
    }

    /// Takes the narrowing part of a file that nobody trusted, warns of the rest, and gives its denies back.
    fn narrow_by(&mut self, file: &FileText, variables: &Variables) -> Result<Vec<SourcedRule>, PolicyError> {
        let read = PolicyFile::parse(&file.name, &file.text)?;
        let source = format!("{} (not trusted)", file.name);
        let mut denies = Vec::new();
        let mut left_out = Vec::new();
        for rule in &read.rules {
            let sourced = sourced(file, rule, &source, variables)?;
            match rule.effect {
                Effect::Deny => {
                    self.warn_of_idle(&sourced.rule, || rule_name(file, rule));
                    denies.push(sourced);
                }
                Effect::Ask => {
                    self.warn_of_idle(&sourced.rule, || rule_name(file, rule));
                    self.narrowing.push(sourced);
                }
                Effect::Allow => left_out.push(format!("allow {}", rule.pattern)),
            }
        }
        left_out.extend(read.members);
        let (name, left_out) = (&file.name, left_out.join(", "));
        let then = "Read the file, then `flowcell trust` pins it as it is";
        match (self.standing == Standing::Changed, left_out.is_empty()) {
            (false, true) => {}
            (false, false) => {
                self.warnings.push(format!("{name} is not trusted; left out: {left_out}. {then}"));
            }
            (true, true) => self.warnings.push(format!(
                "{name} has changed since it was trusted, so it is not trusted now; nothing of it is left out. {then}"
            )),
            (true, false) => self.warnings.push(format!(
                "{name} has changed since it was trusted, so it is not trusted now; left out: {left_out}. {then}"
            )),
        }
        Ok(denies)
    }

    /// The rules of the configured ruleset, as the kernel takes them.
    pub fn rules(&self) -> Vec<Rule> {
        self.configured.iter().map(|sourced| sourced.rule.clone()).collect()
    }
}

fn sourced(
    file: &FileText,
    rule: &RuleText,
    source: &str,
    variables: &Variables,
) -> Result<SourcedRule, PolicyFileError> {
    let rule = rule_of(rule.effect, &rule.pattern, variables).map_err(|why| PolicyFileError {
        file: file.name.clone(),
        line: rule.line,
        field: format!("rule[{}].pattern", rule.index),
        why,
    })?;
    Ok(SourcedRule { rule, source: source.to_owned() })
}

/// The pattern of a rule for one capability and nothing else, as a rule flag takes it. There is none for a resource with
/// a `*` or a `?`, which a pattern cannot spell, and none for one that would be read as a variable.
///
/// ```
/// use flowcell::policy::exact_rule;
/// assert_eq!(exact_rule("fs:write:/ws/a b").as_deref(), Some("fs:write:/ws/a b"));
/// assert_eq!(exact_rule("fs:write:/ws/**"), None);
/// assert_eq!(exact_rule("fs:write:/ws/${home}"), None);
/// ```
pub fn exact_rule(capability: &str) -> Option<String> {
    let pattern = CapabilityPattern::exact(&Capability::parse(capability)?)?.to_string();
    (!pattern.contains("${")).then_some(pattern)
}

/// The pattern of a text with variables.
///
/// # Errors
/// Why it is none, in words.
pub fn pattern(text: &str, variables: &Variables) -> Result<CapabilityPattern, String> {
    file::pattern(&variables.expand(text).map_err(|error| error.to_string())?)
}

/// A rule of a file, as a warning names it.
fn rule_name(file: &FileText, rule: &RuleText) -> String {
    format!("{}:{}: rule[{}].pattern: {:?}", file.name, rule.line, rule.index, rule.pattern)
}

/// A relative pattern under the folder that its writer thought of.
fn rooted(resource: &str) -> String {
    let home = resource == "~" || resource.starts_with("~/");
    let (variable, rest) =
        if home { ("${home}", &resource[1..]) } else { ("${workspace}", resource.trim_start_matches("./")) };
    let rest = rest.trim_start_matches('/');
    if rest.is_empty() || rest == "." { variable.to_owned() } else { format!("{variable}/{rest}") }
}

fn rule_of(effect: Effect, pattern: &str, variables: &Variables) -> Result<Rule, String> {
    Ok(Rule::new(effect, self::pattern(pattern, variables)?))
}

fn built_in(effect: Effect, action: impl Into<ActionSel>, resource: &str) -> Option<SourcedRule> {
    let pattern = CapabilityPattern::new(action, resource)?;
    Some(SourcedRule { rule: Rule::new(effect, pattern), source: BUILT_IN.to_owned() })
}

impl fmt::Display for SourcedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.rule.effect, self.rule.pattern, self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowcell_engines::harness::flows::rules::evaluate;

    fn variables() -> Variables {
        Variables { workspace: "/ws".into(), data: "/ws/.flowcell".into(), home: Some("/h".into()) }
    }

    fn file(name: &str, rules: &[(&str, &str)]) -> FileText {
        let text = rules
            .iter()
            .map(|(effect, pattern)| format!("[[rule]]\neffect = \"{effect}\"\npattern = \"{pattern}\"\n"))
            .collect();
        FileText { name: name.into(), text }
    }

    fn flag(effect: Effect, pattern: &str) -> RuleFlag {
        RuleFlag { effect, pattern: pattern.into() }
    }

    fn sources() -> Sources {
        Sources {
            data: vec!["/ws/.flowcell".into()],
            config: vec!["/h/.config/flowcell".into()],
            ..Sources::default()
        }
    }

    fn assembled(sources: &Sources) -> Policy {
        Policy::assemble(sources, &variables()).unwrap()
    }

    /// As the kernel evaluates: the narrowing asks are in a later ruleset.
    fn effect(policy: &Policy, cap: &str) -> Effect {
        let asks: Vec<Rule> = policy.narrowing.iter().map(|sourced| sourced.rule.clone()).collect();
        evaluate(&[&policy.rules(), &asks], &Capability::parse(cap).unwrap())
    }

    #[test]
    fn without_files_only_the_workspace_is_read() {
        let policy = assembled(&sources());
        assert_eq!(effect(&policy, "fs:read:/ws"), Effect::Allow);
        assert_eq!(effect(&policy, "fs:read:/ws/a/b"), Effect::Allow);
        assert_eq!(effect(&policy, "fs:read:/ws2"), Effect::Ask);
        assert_eq!(effect(&policy, "fs:write:/ws/a"), Effect::Ask);
        assert_eq!(effect(&policy, "net:get:example.com"), Effect::Ask);
        for denied in
            ["/ws/.flowcell", "/ws/.flowcell/flowcell.db", "/h/.config/flowcell", "/h/.config/flowcell/x"]
        {
            assert_eq!(effect(&policy, &format!("fs:read:{denied}")), Effect::Deny);
            assert_eq!(effect(&policy, &format!("fs:write:{denied}")), Effect::Deny);
        }
    }

    #[test]
    fn later_sources_come_later() {
        let mut sources = sources();
        sources.user = Some(file("user", &[("allow", "net:get:a"), ("deny", "net:get:b")]));
        sources.workspace = Some(file("ws", &[("deny", "net:get:a"), ("allow", "net:get:c")]));
        sources.standing = Standing::Trusted;
        assert_eq!(effect(&assembled(&sources), "net:get:a"), Effect::Deny);
        assert_eq!(effect(&assembled(&sources), "net:get:c"), Effect::Allow);
        sources.named = vec![file("p1", &[("allow", "net:get:a")]), file("p2", &[("ask", "net:get:a")])];
        assert_eq!(effect(&assembled(&sources), "net:get:a"), Effect::Ask);
        sources.flags = vec![flag(Effect::Deny, "net:get:a"), flag(Effect::Allow, "net:get:a")];
        assert_eq!(effect(&assembled(&sources), "net:get:a"), Effect::Allow);
        assert_eq!(effect(&assembled(&sources), "net:get:b"), Effect::Deny);
    }

    #[test]
    fn no_rule_lifts_the_built_in_denies() {
        let mut sources = sources();
        sources.user = Some(file("user", &[("allow", "*")]));
        sources.flags = vec![flag(Effect::Allow, "*"), flag(Effect::Allow, "fs:read:${data}/**")];
        let policy = assembled(&sources);
        assert_eq!(effect(&policy, "fs:read:/ws/.flowcell/flowcell.db"), Effect::Deny);
        assert_eq!(effect(&policy, "fs:write:/h/.config/flowcell/policy.toml"), Effect::Deny);
        assert_eq!(effect(&policy, "proc:spawn:true"), Effect::Allow);
    }

    #[test]
    fn an_untrusted_workspace_only_narrows() {
        let mut sources = sources();
        sources.user =
            Some(file("user", &[("deny", "net:get:a"), ("allow", "net:get:b"), ("allow", "net:get:c")]));
        sources.workspace = Some(file(
            "ws/.flowcell.toml",
            &[
                ("allow", "*"),
                ("ask", "net:get:a"),
                ("ask", "net:get:b"),
                ("deny", "net:get:c"),
                ("deny", "net:get:d"),
            ],
        ));
        sources.standing = Standing::Untrusted;
        // A later allow of the person's own does not undo the narrowing.
        sources.flags = vec![flag(Effect::Allow, "net:get:c")];
        let policy = assembled(&sources);
        assert_eq!(effect(&policy, "net:get:a"), Effect::Deny, "an ask lifts no deny");
        assert_eq!(effect(&policy, "net:get:b"), Effect::Ask, "an ask turns an allow into an ask");
        assert_eq!(effect(&policy, "net:get:c"), Effect::Deny, "a deny turns an allow into a deny");
        assert_eq!(effect(&policy, "net:get:d"), Effect::Deny, "a deny turns an ask into a deny");
        assert_eq!(effect(&policy, "net:get:e"), Effect::Ask, "its allow does not count");
        let [warning] = policy.warnings.as_slice() else { panic!("{:?}", policy.warnings) };
        assert!(warning.contains("ws/.flowcell.toml is not trusted; left out: allow *."), "{warning}");
        sources.standing = Standing::Changed;
        let changed = assembled(&sources);
        assert_eq!(changed.configured, policy.configured);
        assert!(changed.warnings[0].contains("has changed since it was trusted"), "{:?}", changed.warnings);
    }

    #[test]
    fn one_warning_names_all_that_was_left_out() {
        let mut sources = sources();
        let text = "attended = true\n[[rule]]\neffect = \"allow\"\npattern = \"net:get:x\"\n[host]\nallow_pseudo_fs = true\n\
                    [lsp.servers.r]\ncommand = \"r\"\nextensionToLanguage = {}\n[test]\ncommand = \"t\"\n[container]\n\
                    program = \"podman\"\n[mcp.servers.m]\ncommand = \"m\"\n[search]\nprovider = \"exa\"\ncredential = \"K\"\n";
        sources.workspace = Some(FileText { name: "f".into(), text: text.into() });
        sources.standing = Standing::Untrusted;
        let policy = assembled(&sources);
        let [warning] = policy.warnings.as_slice() else { panic!("{:?}", policy.warnings) };
        let named = [
            "allow net:get:x",
            "attended",
            "[host]",
            "[lsp.servers.r]",
            "[test]",
            "[container]",
            "[mcp.servers.m]",
            "[search]",
        ];
        for named in named {
            assert!(warning.contains(named), "{named} is missing in {warning}");
        }
        assert_eq!((policy.attended, policy.host.allow_pseudo_fs, policy.idle.len()), (None, None, 0));
        sources.standing = Standing::Trusted;
        let policy = assembled(&sources);
        assert_eq!(
            (policy.attended, policy.host.allow_pseudo_fs, policy.idle.len()),
            (Some(true), Some(true), 3)
        );
        assert!(policy.warnings.is_empty());
        let idle: Vec<String> = policy.idle_warnings().collect();
        assert_eq!(idle.len(), 3, "{idle:?}");
        assert!(idle.contains(&"search (f) has no effect in this version".to_owned()), "{idle:?}");
        sources.named = sources.workspace.clone().into_iter().collect();
        assert_eq!(assembled(&sources).idle.len(), 3, "once each");
    }

    #[test]
    fn a_relative_pattern_is_warned_of() {
        let mut sources = sources();
        for (pattern, instead) in [
            ("fs:write:src/**", "fs:write:${workspace}/src/**"),
            ("fs:*:./src", "fs:*:${workspace}/src"),
            ("fs:read:~/x", "fs:read:${home}/x"),
            ("fs:read:~", "fs:read:${home}"),
            ("fs:read:.", "fs:read:${workspace}"),
        ] {
            sources.flags = vec![flag(Effect::Allow, pattern)];
            let policy = assembled(&sources);
            let [warning] = policy.warnings.as_slice() else { panic!("{pattern}: {:?}", policy.warnings) };
            assert_eq!(
                *warning,
                format!("--allow {pattern:?} matches nothing, because a path is absolute; write {instead}")
            );
        }
        for good in ["fs:write:/x", "fs:write:*", "fs:read:?x", "fs:read:${home}/x", "net:get:a", "*:a", "*"]
        {
            sources.flags = vec![flag(Effect::Allow, good)];
            assert!(assembled(&sources).warnings.is_empty(), "{good}");
        }
        sources.flags.clear();
        sources.workspace = Some(file("f", &[("deny", "fs:write:src"), ("allow", "fs:write:src")]));
        sources.standing = Standing::Untrusted;
        let warnings = assembled(&sources).warnings;
        assert!(
            warnings[0].starts_with("f:3: rule[0].pattern: \"fs:write:src\" matches nothing"),
            "{warnings:?}"
        );
        assert_eq!(warnings.len(), 2, "what is left out matches nothing anyway: {warnings:?}");
    }

    #[test]
    fn what_cannot_be_a_rule_names_its_place() {
        let mut bad = sources();
        bad.user = Some(file("user", &[("allow", "fs:raed:/x")]));
        let error = Policy::assemble(&bad, &variables()).unwrap_err().to_string();
        assert!(
            error.starts_with("user:3: rule[0].pattern: \"fs:raed:/x\" is no capability pattern"),
            "{error}"
        );
        let mut bad = sources();
        bad.flags = vec![flag(Effect::Ask, "fs:read:${work}")];
        let error = Policy::assemble(&bad, &variables()).unwrap_err().to_string();
        assert!(error.starts_with("--ask \"fs:read:${work}\": ${work} is no variable"), "{error}");
        let odd = Variables { workspace: "/w*".into(), ..variables() };
        assert!(matches!(Policy::assemble(&sources(), &odd), Err(PolicyError::Workspace(_))));
    }
}
