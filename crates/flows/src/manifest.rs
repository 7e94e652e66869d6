//! The manifest of the standard flows (kernel contract 7).

use std::sync::LazyLock;

use serde_json::Value;

use crate::decl::FlowDecl;
use crate::effects::Effects;
use crate::error::Code;
use crate::flows::{
    apply_patch, bash, edit, explore, fetch, glob, grep, http_post, ls, lsp, read, shell_command, test,
    update_plan, webfetch, websearch, write,
};

/// The names, in the order of the contract's table.
const NAMES: [&str; 17] = [
    read::NAME,
    write::NAME,
    edit::NAME,
    ls::NAME,
    glob::NAME,
    grep::NAME,
    bash::NAME,
    test::NAME,
    shell_command::NAME,
    apply_patch::NAME,
    update_plan::NAME,
    fetch::NAME,
    http_post::NAME,
    explore::NAME,
    webfetch::NAME,
    websearch::NAME,
    lsp::NAME,
];

/// The names with a handler: all but `explore`.
const HANDLER_NAMES: [&str; 16] = [
    read::NAME,
    write::NAME,
    edit::NAME,
    ls::NAME,
    glob::NAME,
    grep::NAME,
    bash::NAME,
    test::NAME,
    shell_command::NAME,
    apply_patch::NAME,
    update_plan::NAME,
    fetch::NAME,
    http_post::NAME,
    webfetch::NAME,
    websearch::NAME,
    lsp::NAME,
];

const READ_ONLY: [&str; 8] =
    [read::NAME, ls::NAME, glob::NAME, grep::NAME, fetch::NAME, explore::NAME, webfetch::NAME, lsp::NAME];

/// The seventeen declarations, immutable.
///
/// ```
/// use flowcell_flows::manifest::Manifest;
/// let manifest = Manifest::standard();
/// let effects = manifest.effects_for("grep", &serde_json::json!({"pattern": "fn", "root": "/ws/src/"}));
/// assert_eq!(effects.map(|effects| effects.reads), Some(vec!["/ws/src/**".to_owned()]));
/// ```
#[derive(Clone, Debug)]
pub struct Manifest {
    flows: Vec<FlowDecl>,
}

static STANDARD: LazyLock<Manifest> = LazyLock::new(|| Manifest {
    flows: vec![
        read::decl(),
        write::decl(),
        edit::decl(),
        ls::decl(),
        glob::decl(),
        grep::decl(),
        bash::decl(),
        test::decl(),
        shell_command::decl(),
        apply_patch::decl(),
        update_plan::decl(),
        fetch::decl(),
        http_post::decl(),
        explore::decl(),
        webfetch::decl(),
        websearch::decl(),
        lsp::decl(),
    ],
});

/// The failure codes of a standard flow, those that its own handler answers with: the flow reference's first, then what
/// the contracts of the handlers add to them. Empty for `explore`, which has no handler, and for a name that is not
/// standard. A peer that a host binds in the place of a service, or a handler of its own, may answer with any of
/// [`Code::ALL`].
///
/// ```
/// use flowcell_flows::error::Code;
/// use flowcell_flows::manifest::codes;
/// assert_eq!(codes("write"), [Code::CommandFailed, Code::PermissionDenied, Code::InvalidInput]);
/// ```
#[must_use]
pub fn codes(name: &str) -> &'static [Code] {
    match name {
        read::NAME => read::CODES,
        write::NAME => write::CODES,
        edit::NAME => edit::CODES,
        ls::NAME => ls::CODES,
        glob::NAME => glob::CODES,
        grep::NAME => grep::CODES,
        bash::NAME => bash::CODES,
        test::NAME => test::CODES,
        shell_command::NAME => shell_command::CODES,
        apply_patch::NAME => apply_patch::CODES,
        update_plan::NAME => update_plan::CODES,
        fetch::NAME => fetch::CODES,
        http_post::NAME => http_post::CODES,
        webfetch::NAME => webfetch::CODES,
        websearch::NAME => websearch::CODES,
        explore::NAME => explore::CODES,
        lsp::NAME => lsp::CODES,
        _ => &[],
    }
}

impl Manifest {
    /// The one manifest there is.
    #[must_use]
    pub fn standard() -> &'static Self {
        &STANDARD
    }

    /// The seventeen declarations, in the order of [`Self::names`].
    #[must_use]
    pub fn flows(&self) -> &[FlowDecl] {
        &self.flows
    }

    /// The declaration of one flow; `None` for a name that is not standard.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FlowDecl> {
        self.flows.iter().find(|flow| flow.name == name)
    }

    /// The seventeen names, in the order of the contract's table.
    #[must_use]
    pub fn names(&self) -> &'static [&'static str] {
        &NAMES
    }

    /// The failure codes of one flow: [`codes`].
    #[must_use]
    pub fn codes(&self, name: &str) -> &'static [Code] {
        codes(name)
    }

    /// What one decoded call of a flow needs; `None` for a name that is not standard.
    #[must_use]
    pub fn effects_for(&self, name: &str, input: &Value) -> Option<Effects> {
        self.get(name).map(|flow| (flow.effects_for)(input))
    }

    /// The sixteen names that have a handler: all but `explore`.
    #[must_use]
    pub fn handler_names(&self) -> &'static [&'static str] {
        &HANDLER_NAMES
    }

    /// The flows that change nothing: none of them declares `fs:write`, `net:post` or `proc:spawn`. `websearch` asks
    /// `net:post` and is left out for that.
    #[must_use]
    pub fn read_only(&self) -> &'static [&'static str] {
        &READ_ONLY
    }
}
