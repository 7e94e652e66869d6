//! The command line.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum};
use flowcell_engines::harness::extract::StopReason;
use flowcell_engines::harness::flows::rules::Effect;
use flowcell_engines::harness::journal::RunId;

use crate::policy::RuleFlag;

/// Runs, resumes, shows and replays JavaScript cells over durable, permission-gated flows.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "flowcell",
    version,
    about,
    max_term_width = 100,
    subcommand_required = true,
    after_long_help = EXIT_STATUSES
)]
pub struct Cli {
    /// Flags before the command word.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the exit statuses mean, at the end of the long help.
const EXIT_STATUSES: &str = "\
Exit statuses:
    0  done
    1  what was asked for failed
    2  the command line, an input or an input file is wrong; nothing was done
    3  suspended; the last line of standard error names the command that goes on
    4  the journal is not of this version, or does not describe what now runs
  130  interrupted; the run can be resumed";

/// The flags that every command takes, before or after its word.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Workspace root; no folder above it is searched [default: the working folder]
    #[arg(long, short = 'C', value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Runs and grants [default: .flowcell in the workspace]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// `sqlite:PATH` or `memory:` [default: flowcell.db in the data folder]
    #[arg(long, value_name = "URL")]
    pub engine: Option<String>,
    /// A policy file; it is trusted by being named. Repeatable
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
    /// `--allow`, `--deny` and `--ask`.
    #[command(flatten)]
    pub rules: RuleFlags,
    /// Print exactly one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Colours on standard error, and on standard output for `transcript show` and `follow`
    #[arg(long, value_name = "WHEN")]
    pub color: Option<When>,
    /// Leave out warnings, progress and what cells print
    #[arg(short, long)]
    pub quiet: bool,
    /// Show progress also without a terminal
    #[arg(short, long)]
    pub verbose: bool,
}

impl Common {
    /// The flags before the command word and those after it as one: of a flag that takes one value, the later counts.
    #[must_use]
    pub fn then(mut self, after: &Self) -> Self {
        let after = after.clone();
        self.workspace = after.workspace.or(self.workspace);
        self.data_dir = after.data_dir.or(self.data_dir);
        self.engine = after.engine.or(self.engine);
        self.policy.extend(after.policy);
        self.rules.0.extend(after.rules.0);
        self.json |= after.json;
        self.color = after.color.or(self.color);
        self.quiet |= after.quiet;
        self.verbose |= after.verbose;
        self
    }
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// With a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The rule flags as one list, in the order of the command line across all three of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFlags(pub Vec<RuleFlag>);

const RULE_FLAGS: [(&str, Effect, &str); 3] = [
    ("allow", Effect::Allow, "Add an allow rule, such as fs:write:${workspace}/**. Repeatable, in order"),
    ("deny", Effect::Deny, "Add a deny rule. Repeatable, in order"),
    ("ask", Effect::Ask, "Add an ask rule. Repeatable, in order"),
];

impl Args for RuleFlags {
    fn augment_args(command: Command) -> Command {
        RULE_FLAGS.into_iter().fold(command, |command, (name, _, help)| {
            command.arg(
                clap::Arg::new(name)
                    .long(name)
                    .value_name("PATTERN")
                    .help(help)
                    .action(clap::ArgAction::Append)
                    .value_parser(clap::builder::NonEmptyStringValueParser::new()),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for (name, effect, _) in RULE_FLAGS {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            placed.extend(
                places
                    .zip(values)
                    .map(|(place, pattern)| (place, RuleFlag { effect, pattern: pattern.clone() })),
            );
        }
        placed.sort_by_key(|(place, _)| *place);
        Ok(Self(placed.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Run cells, one frame a FILE, in one realm with the standard catalog and no model
    Exec(ExecArgs),
    /// Go on with a run after a crash, an interruption or a suspension
    Resume(ResumeArgs),
    /// List the runs of the data folder, newest first
    Runs(RunsArgs),
    /// Show one run, frame by frame
    Show(ShowArgs),
    /// Re-execute a run against its journal, with dispatch forbidden
    Replay(ReplayArgs),
    /// Call one flow and print its output
    Call(CallArgs),
    /// List the standard flows, or show one declaration
    Flows(FlowsArgs),
    /// Ask what policy says
    Grants(GrantsArgs),
    /// Allow what a run waits for
    Approve(ApproveArgs),
    /// Refuse what a run waits for
    Deny(DenyArgs),
    /// Trust the workspace's policy file as it is now
    Trust(TrustArgs),
    /// Say what this machine can enforce and reach
    Doctor(DoctorArgs),
    /// Read what Codex or Claude Code did, from the file it wrote or while it works
    #[cfg(feature = "transcripts")]
    Transcript(TranscriptArgs),
}

impl Verb {
    /// The common flags after the command word.
    pub fn common(&self) -> Common {
        match self {
            Self::Exec(args) => args.common.clone(),
            Self::Resume(args) => args.common.clone(),
            Self::Runs(args) => args.common.clone(),
            Self::Show(args) => args.common.clone(),
            Self::Replay(args) => args.common.clone(),
            Self::Call(args) => args.common.clone(),
            Self::Flows(args) => args.common.clone(),
            Self::Grants(args) => match &args.verb {
                GrantsVerb::List(list) => args.common.clone().then(&list.common),
                GrantsVerb::Revoke(revoke) => args.common.clone().then(&revoke.common),
                GrantsVerb::Check(check) => args.common.clone().then(&check.common),
            },
            Self::Approve(args) => args.common.clone(),
            Self::Deny(args) => args.common.clone(),
            Self::Trust(args) => args.common.clone(),
            Self::Doctor(args) => args.common.clone(),
            #[cfg(feature = "transcripts")]
            Self::Transcript(args) => args.common.clone().then(args.verb.common()),
        }
    }
}

/// Where the realm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// On a thread of this process.
    #[default]
    Thread,
}

/// How the replies of `--reply` ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stop {
    /// By themselves.
    #[default]
    End,
    /// At the limit of their length.
    Length,
}

impl From<Stop> for StopReason {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::End => Self::End,
            Stop::Length => Self::Length,
        }
    }
}

/// `exec`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("cells").required(true).args(["files", "code"]))]
pub struct ExecArgs {
    /// Files that hold one cell each; `-` alone reads standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The text of one cell
    #[arg(short = 'e', value_name = "CODE", allow_hyphen_values = true)]
    pub code: Option<String>,
    /// Read each FILE as a model's reply, and recover the program from it
    #[arg(long)]
    pub reply: bool,
    /// How those replies ended [default: end]
    #[arg(long, value_name = "HOW", requires = "reply")]
    pub stop: Option<Stop>,
    /// Replace or add flows as a JSON file says. Repeatable
    #[arg(long, value_name = "FILE")]
    pub mock: Vec<PathBuf>,
    /// A limit of the realm: calls, steps, timeMs, totalMs, callMs, memoryBytes or stackBytes. Repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub limit: Vec<String>,
    /// The run's id [default: a random one]
    #[arg(long, value_name = "ID")]
    pub run_id: Option<RunId>,
    /// Where the realm runs
    #[arg(long, value_name = "HOW", default_value = "thread")]
    pub isolate: Isolation,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// The mocks that the run was started with
    #[arg(long, value_name = "FILE")]
    pub mock: Vec<PathBuf>,
    /// Do not wait for another process that works on the run
    #[arg(long)]
    pub no_wait: bool,
    /// Where the realm runs
    #[arg(long, value_name = "HOW", default_value = "thread")]
    pub isolate: Isolation,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `runs`.
#[derive(Clone, Debug, Args)]
pub struct RunsArgs {
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// The mocks that the run was started with
    #[arg(long, value_name = "FILE")]
    pub mock: Vec<PathBuf>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `call`.
#[derive(Clone, Debug, Args)]
pub struct CallArgs {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub flow: String,
    /// Its input [default: {}]; `-` reads standard input
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `flows`.
#[derive(Clone, Debug, Args)]
pub struct FlowsArgs {
    /// The flow
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The JSON Schemas alone
    #[arg(long, conflicts_with = "digest")]
    pub schema: bool,
    /// The declaration digests alone
    #[arg(long)]
    pub digest: bool,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `grants`.
#[derive(Clone, Debug, Args)]
pub struct GrantsArgs {
    /// What to do with grants.
    #[command(subcommand)]
    pub verb: GrantsVerb,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// The commands under `grants`.
#[derive(Clone, Debug, Subcommand)]
pub enum GrantsVerb {
    /// List the remembered grants
    List(ListArgs),
    /// Take a remembered grant back
    Revoke(RevokeArgs),
    /// What policy says of one request, and which rule says so
    Check(CheckArgs),
}

/// `grants list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `grants revoke`.
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// The grant's id, as `grants list` shows it
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `grants check`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("request").required(true).args(["capability", "command", "argv", "read", "write", "remove", "get", "post"]))]
pub struct CheckArgs {
    /// A capability, such as net:get:example.com
    #[arg(value_name = "CAPABILITY")]
    pub capability: Option<String>,
    /// Running a command line in the default shell
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    pub command: Option<String>,
    /// Running a program with these arguments, without a shell. Takes the rest of the command line
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true)]
    pub argv: Option<Vec<String>>,
    /// Removing what a path names, a link itself included
    #[arg(long, value_name = "PATH")]
    pub remove: Option<String>,
    /// Reading a URL
    #[arg(long, value_name = "URL")]
    pub get: Option<String>,
    /// Posting to a URL
    #[arg(long, value_name = "URL")]
    pub post: Option<String>,
    /// Reading a path, as the kernel names it
    #[arg(long, value_name = "PATH")]
    pub read: Option<String>,
    /// Writing a path, as the kernel names it
    #[arg(long, value_name = "PATH")]
    pub write: Option<String>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `approve`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("how").required(true).args(["once", "for_run", "remember"]))]
pub struct ApproveArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// The request [default: the only one]
    #[arg(value_name = "REQUEST")]
    pub request: Option<String>,
    /// For this one call
    #[arg(long)]
    pub once: bool,
    /// For the rest of the run
    #[arg(long = "run", id = "for_run")]
    pub for_run: bool,
    /// From now on, in every run
    #[arg(long)]
    pub remember: bool,
    /// What is allowed with --run or --remember [default: exactly what is asked]
    #[arg(long, value_name = "P", conflicts_with = "once")]
    pub pattern: Option<String>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `deny`.
#[derive(Clone, Debug, Args)]
pub struct DenyArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// The request [default: the only one]
    #[arg(value_name = "REQUEST")]
    pub request: Option<String>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `trust`.
#[derive(Clone, Debug, Args)]
pub struct TrustArgs {
    /// Take trust back
    #[arg(long)]
    pub revoke: bool,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `transcript`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Args)]
pub struct TranscriptArgs {
    /// What to do with a transcript.
    #[command(subcommand)]
    pub verb: TranscriptVerb,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// The commands under `transcript`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Subcommand)]
pub enum TranscriptVerb {
    /// Decode a file to entries and a state, as JSON
    Decode(DecodeArgs),
    /// Show a session in the terminal, or as a page
    Show(ShowTranscriptArgs),
    /// Follow a session while it is written, one entry a line
    Follow(FollowArgs),
    /// Decode records that come over HTTP, one a request
    Serve(ServeArgs),
}

#[cfg(feature = "transcripts")]
impl TranscriptVerb {
    /// The common flags after the command word.
    pub const fn common(&self) -> &Common {
        match self {
            Self::Decode(args) => &args.common,
            Self::Show(args) => &args.common,
            Self::Follow(args) => &args.common,
            Self::Serve(args) => &args.common,
        }
    }
}

/// The agent that wrote a transcript.
#[cfg(feature = "transcripts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Agent {
    /// Codex: rollout-*.jsonl.
    Codex,
    /// Claude Code: SESSION.jsonl.
    Claude,
}

/// `transcript decode`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Args)]
pub struct DecodeArgs {
    /// The transcript
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The agent that wrote it [default: recognised]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<Agent>,
    /// Start from a state that `decode` printed; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub from_state: Option<PathBuf>,
    /// The longest line, in bytes [default: 33554432]
    #[arg(long, value_name = "N")]
    pub line_bytes: Option<usize>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `transcript show`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Args)]
pub struct ShowTranscriptArgs {
    /// The transcript
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The agent that wrote it [default: recognised]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<Agent>,
    /// Write one self-contained page instead
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Leave nothing of long outputs out
    #[arg(long, conflicts_with = "html")]
    pub full: bool,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `transcript follow`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Args)]
pub struct FollowArgs {
    /// The transcript [default: that of the newest session of your own agents]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The agent that writes it [default: recognised; without FILE either]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<Agent>,
    /// Go on from this file when it is there, and keep it up to date
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

/// `transcript serve`.
#[cfg(feature = "transcripts")]
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Where to listen, such as 127.0.0.1:8420; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub listen: std::net::SocketAddr,
    /// The file that holds the bearer token
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Common flags.
    #[command(flatten)]
    pub common: Common,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("flowcell").chain(words.iter().copied()))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rules_keep_the_order_of_the_command_line() {
        let cli = parse(&[
            "--deny", "a", "--allow", "b", "exec", "--ask=c", "--allow", "d", "-e", "1", "--deny", "e",
            "--allow", "f",
        ])
        .unwrap();
        let common = cli.common.clone().then(&cli.verb.common());
        let rules: Vec<(&str, &str)> =
            common.rules.0.iter().map(|rule| (rule.flag(), rule.pattern.as_str())).collect();
        assert_eq!(
            rules,
            [
                ("--deny", "a"),
                ("--allow", "b"),
                ("--ask", "c"),
                ("--allow", "d"),
                ("--deny", "e"),
                ("--allow", "f")
            ]
        );
    }

    #[test]
    fn flags_stand_before_or_after_the_word() {
        for words in
            [["--json", "-C", "d", "runs"], ["runs", "-C", "d", "--json"], ["-C", "d", "runs", "--json"]]
        {
            let cli = parse(&words).unwrap();
            let common = cli.common.clone().then(&cli.verb.common());
            assert!(common.json);
            assert_eq!(common.workspace, Some("d".into()));
        }
    }

    #[test]
    fn what_is_not_offered_does_not_exist() {
        for words in [
            &["exec"][..],
            &["exec", "a.js", "-e", "1"],
            &["exec", "a.js", "--stop", "end"],
            &["exec", "a.js", "--isolate", "process"],
            &["show", "r", "--html", "f"],
            &["approve", "r"],
            &["approve", "r", "--run", "--once"],
            &["approve", "r", "--once", "--pattern", "p"],
            &["grants", "revoke"],
            &["grants", "revoke", "x"],
            &["grants", "check", "--command", "ls", "--read", "/x"],
            &["grants", "check"],
            &["grants", "check", "fs:read:/x", "--read", "/x"],
            &["run", "task"],
            &["steer", "r", "t"],
            &["resume", "not a run"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
        for words in [
            &["approve", "r", "--run"][..],
            &["approve", "r", "q", "--remember", "--pattern", "fs:read:/ws/**"],
            &["grants", "list"],
            &["grants", "revoke", "7"],
            &["grants", "check", "--argv", "git", "-C", "x"],
        ] {
            assert!(parse(words).is_ok(), "{words:?}");
        }
        assert!(parse(&["exec", "-"]).is_ok());
        assert!(parse(&["exec", "-e", "-1"]).is_ok());
        assert!(parse(&["call", "read", "-"]).is_ok());
        assert!(parse(&["exec", "a", "--reply", "--stop", "length"]).is_ok());
    }
}
