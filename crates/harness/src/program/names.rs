//! Which names a program binds in the scope that all cells of a run share.

use oxc_ast::AstKind;
use oxc_ast::ast::{
    BinaryOperator, BindingIdentifier, BindingPattern, Expression, FunctionType, Program, Statement,
    VariableDeclaration, VariableDeclarationKind,
};
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, Span};

/// The two names that a cell cannot bind (harness contract 2).
const RESERVED: [&str; 2] = ["ctx", "console"];

/// What a walk over the whole tree found, each the first of its kind in source order.
#[derive(Default)]
pub(super) struct Findings<'t> {
    text: &'t str,
    /// A `<` directly before `!--`: to a script that is a comment, and no longer what was parsed.
    pub(super) comment: Option<Span>,
    /// An import, an export, `import.meta`, `import(...)` or a call of `require`.
    pub(super) import: Option<(Span, &'static str)>,
    /// A `return` that no function holds.
    pub(super) stray_return: Option<Span>,
    /// Whether the program holds anything that could throw or reject with null: a `throw` of something that is not plainly
    /// made there, a `reject`, a promise of its own, or code from text.
    pub(super) throws_null: bool,
    /// A declaration of a reserved name that reaches the shared scope.
    pub(super) reserved: Option<(Span, &'static str)>,
    functions: u32,
    static_blocks: u32,
}

impl<'t> Findings<'t> {
    /// Walks a program, which is that of `text`.
    pub(super) fn of(text: &'t str, program: &Program<'_>) -> Self {
        let mut findings = Self { text, ..Self::default() };
        findings.visit_program(program);
        for statement in &program.body {
            match statement {
                Statement::VariableDeclaration(declaration)
                    if declaration.kind != VariableDeclarationKind::Var =>
                {
                    findings.declared(declaration);
                }
                Statement::ClassDeclaration(class) => {
                    if let Some(id) = &class.id {
                        findings.bound(id);
                    }
                }
                _ => {}
            }
        }
        findings
    }

    /// Whether a `var` at this place reaches the shared scope.
    fn shared(&self) -> bool {
        self.functions == 0 && self.static_blocks == 0
    }

    fn import(&mut self, span: Span, what: &'static str) {
        if self.import.is_none_or(|(first, _)| span.start < first.start) {
            self.import = Some((span, what));
        }
    }

    fn bound(&mut self, id: &BindingIdentifier<'_>) {
        let Some(name) = RESERVED.into_iter().find(|name| *name == id.name.as_str()) else { return };
        if self.reserved.is_none_or(|(first, _)| id.span.start < first.start) {
            self.reserved = Some((id.span, name));
        }
    }

    fn declared(&mut self, declaration: &VariableDeclaration<'_>) {
        for declarator in &declaration.declarations {
            self.pattern(&declarator.id);
        }
    }

    fn pattern(&mut self, pattern: &BindingPattern<'_>) {
        for id in pattern.get_binding_identifiers() {
            self.bound(id);
        }
    }
}

impl<'a> Visit<'a> for Findings<'_> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::ImportDeclaration(node) => self.import(node.span, "an `import` declaration"),
            AstKind::ExportNamedDeclaration(node) => self.import(node.span, "an `export` declaration"),
            AstKind::ExportFromDeclaration(node) => self.import(node.span, "an `export` declaration"),
            AstKind::ExportDefaultDeclaration(node) => {
                self.import(node.span, "an `export` declaration");
            }
            AstKind::ExportAllDeclaration(node) => self.import(node.span, "an `export` declaration"),
            AstKind::ExportDeclaration(node) => self.import(node.span, "an `export` declaration"),
            AstKind::ImportExpression(node) => self.import(node.span, "`import(...)`"),
            AstKind::ImportMeta(node) => self.import(node.span, "`import.meta`"),
            AstKind::CallExpression(node) => {
                if let Expression::Identifier(callee) = node.callee.without_parentheses()
                    && callee.name == "require"
                {
                    self.import(node.span, "a call of `require`");
                }
            }
            AstKind::ReturnStatement(node) if self.functions == 0 && self.stray_return.is_none() => {
                self.stray_return = Some(node.span);
            }
            AstKind::VariableDeclaration(node)
                if self.shared() && node.kind == VariableDeclarationKind::Var =>
            {
                self.declared(node);
            }
            AstKind::Function(node) => {
                if self.shared()
                    && node.r#type == FunctionType::FunctionDeclaration
                    && let Some(id) = &node.id
                {
                    self.bound(id);
                }
                self.functions += 1;
            }
            AstKind::ArrowFunctionExpression(_) => self.functions += 1,
            AstKind::BinaryExpression(node) if node.operator == BinaryOperator::LessThan => {
                let right = node.right.span().start;
                let comment = (right as usize)
                    .checked_sub(1)
                    .and_then(|at| self.text.get(at..))
                    .is_some_and(|rest| rest.starts_with("<!--"));
                if comment && self.comment.is_none() {
                    self.comment = Some(Span::new(right - 1, right + 3));
                }
            }
            AstKind::ThrowStatement(node) => {
                self.throws_null |= !matches!(
                    node.argument.without_parentheses(),
                    Expression::NewExpression(_)
                        | Expression::StringLiteral(_)
                        | Expression::TemplateLiteral(_)
                );
            }
            AstKind::IdentifierReference(node) => {
                self.throws_null |= matches!(node.name.as_str(), "reject" | "eval" | "Function");
            }
            AstKind::IdentifierName(node) => {
                self.throws_null |=
                    matches!(node.name.as_str(), "reject" | "throw" | "constructor" | "withResolvers");
            }
            AstKind::NewExpression(node) => {
                self.throws_null |= matches!(
                    node.callee.without_parentheses(),
                    Expression::Identifier(callee) if callee.name == "Promise"
                );
            }
            // A scope of its own for `var`, though `return` may not stand in it.
            AstKind::StaticBlock(_) => self.static_blocks += 1,
            _ => {}
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => self.functions -= 1,
            AstKind::StaticBlock(_) => self.static_blocks -= 1,
            _ => {}
        }
    }
}
