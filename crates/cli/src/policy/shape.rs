//! The keys of a policy file and what each may hold (CLI contract 3).

/// What a value has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// `true` or `false`.
    Flag,
    /// A string, not empty.
    Text,
    /// One of some strings.
    Choice(&'static [&'static str]),
    /// A whole number in a range.
    Whole(i64, i64),
    /// A list of strings.
    Texts,
    /// A table of strings under names of the writer's choosing.
    TextMap,
    /// Anything.
    Any,
    /// A table of anything under names of the writer's choosing.
    AnyMap,
    /// A table with known keys.
    Table(&'static [Key]),
    /// A table of tables under names of the writer's choosing.
    Named(&'static [Key]),
    /// A list of tables.
    Tables(&'static [Key]),
}

/// A known key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

const fn key(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: false }
}

const fn required(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: true }
}

const MOST: i64 = (1 << 53) - 1;
const TIMER: i64 = 2_147_483_647;

/// The top of the file.
pub(crate) const FILE: &[Key] = &[
    key("attended", Shape::Flag),
    key("rule", Shape::Tables(RULE)),
    key("lsp", Shape::Table(LSP)),
    key("test", Shape::Table(TEST)),
    key("container", Shape::Table(CONTAINER)),
    key("host", Shape::Table(HOST)),
    key("search", Shape::Table(SEARCH)),
    key("mcp", Shape::Table(MCP)),
];

const RULE: &[Key] =
    &[required("effect", Shape::Choice(&["allow", "deny", "ask"])), required("pattern", Shape::Text)];

const LSP: &[Key] = &[key("servers", Shape::Named(SERVER))];

/// LSP contract 5.
const SERVER: &[Key] = &[
    required("command", Shape::Text),
    key("args", Shape::Texts),
    key("env", Shape::TextMap),
    key("inheritEnv", Shape::Texts),
    required("extensionToLanguage", Shape::TextMap),
    key("initializationOptions", Shape::Any),
    key("configuration", Shape::Any),
    key("configurationBySection", Shape::AnyMap),
    key("maxMessageBytes", Shape::Whole(1, 1 << 31)),
    key("maxDocumentBytes", Shape::Whole(1, MOST)),
    key("maxStderrBytes", Shape::Whole(1, MOST)),
    key("shutdownTimeoutMs", Shape::Whole(1, TIMER)),
    key("killGraceMs", Shape::Whole(1, TIMER)),
    key("warmupMs", Shape::Whole(0, TIMER)),
    key("settleMs", Shape::Whole(0, TIMER)),
    key("quietMs", Shape::Whole(0, TIMER)),
    key("idleShutdownMs", Shape::Whole(0, TIMER)),
    key("maxInstances", Shape::Whole(1, MOST)),
];

/// The members of `Runner` (host contract 5.3).
const TEST: &[Key] = &[
    required("command", Shape::Text),
    key("cwd", Shape::Text),
    key("root", Shape::Text),
    key("container", Shape::Text),
    key("env", Shape::TextMap),
    key("base_ref", Shape::Text),
    key("timeout_ms", Shape::Whole(1, MOST)),
    key("report", Shape::Text),
];

const CONTAINER: &[Key] = &[required("program", Shape::Choice(&["docker", "podman"]))];

const HOST: &[Key] = &[
    key("hermetic_enforcement", Shape::Choice(&["best_effort", "required"])),
    key("refuse_hard_linked_reads", Shape::Flag),
    key("allow_pseudo_fs", Shape::Flag),
    key("checkpoints", Shape::Flag),
];

const SEARCH: &[Key] = &[required("provider", Shape::Choice(&["exa"])), required("credential", Shape::Text)];

const MCP: &[Key] = &[key("servers", Shape::Named(MCP_SERVER))];

const MCP_SERVER: &[Key] =
    &[required("command", Shape::Text), key("args", Shape::Texts), key("env", Shape::TextMap)];
