//! What `syn` sees in Rust sources: functions with a body, `unsafe` blocks and what is around them.

use std::collections::BTreeMap;

use proc_macro2::Span;
use serde_json::{Value, json};
use syn::visit::{self, Visit};

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Function {
    pub(crate) fn lines(&self) -> usize {
        self.end - self.start + 1
    }
}

/// What is in a set of files.
#[derive(Default)]
pub(crate) struct Outline {
    pub(crate) functions: Vec<Function>,
    /// As the cell `unsafe-report` shows them.
    pub(crate) blocks: Vec<Value>,
}

impl Outline {
    pub(crate) fn of(files: &BTreeMap<String, String>) -> Self {
        let mut outline = Self::default();
        for (path, text) in files {
            let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut visitor = Visitor { outline: &mut outline, file: path, around: Vec::new() };
            visitor.visit_file(&parsed);
        }
        outline
    }

    /// The longest functions as the cell `longest-functions` shows them.
    pub(crate) fn longest(&self, count: usize) -> Vec<Value> {
        let mut functions: Vec<&Function> = self.functions.iter().collect();
        functions.sort_by(|a, b| {
            let by_length = b.lines().cmp(&a.lines());
            by_length.then_with(|| (&a.file, a.start, &a.name).cmp(&(&b.file, b.start, &b.name)))
        });
        let show = |function: &&Function| {
            json!({"name": function.name, "file": function.file, "start": function.start, "end": function.end,
                   "lines": function.lines()})
        };
        functions.iter().take(count).map(show).collect()
    }
}

struct Visitor<'a> {
    outline: &'a mut Outline,
    file: &'a str,
    around: Vec<Value>,
}

fn line(span: Span) -> usize {
    span.start().line
}

impl Visitor<'_> {
    fn within(&mut self, kind: &str, name: &syn::Ident, at: Span, visit: impl FnOnce(&mut Self)) {
        self.around.push(json!({"kind": kind, "name": name.to_string(), "line": line(at)}));
        visit(self);
        self.around.pop();
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block, visit: impl FnOnce(&mut Self)) {
        let at = signature.fn_token.span;
        self.outline.functions.push(Function {
            name: signature.ident.to_string(),
            file: self.file.to_owned(),
            start: line(at),
            end: line(body.brace_token.span.close()),
        });
        self.within("fn", &signature.ident, at, visit);
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.function(&node.sig, &node.block, |visitor| visit::visit_item_fn(visitor, node));
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.function(&node.sig, &node.block, |visitor| visit::visit_impl_item_fn(visitor, node));
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        match &node.default {
            Some(body) => self.function(&node.sig, body, |visitor| visit::visit_trait_item_fn(visitor, node)),
            None => visit::visit_trait_item_fn(self, node),
        }
    }

    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        self.within("const", &node.ident, node.const_token.span, |visitor| {
            visit::visit_item_const(visitor, node);
        });
    }

    fn visit_impl_item_const(&mut self, node: &'ast syn::ImplItemConst) {
        let at = node.const_token.span;
        self.within("const", &node.ident, at, |visitor| visit::visit_impl_item_const(visitor, node));
    }

    fn visit_trait_item_const(&mut self, node: &'ast syn::TraitItemConst) {
        let at = node.const_token.span;
        self.within("const", &node.ident, at, |visitor| visit::visit_trait_item_const(visitor, node));
    }

    fn visit_item_static(&mut self, node: &'ast syn::ItemStatic) {
        self.within("static", &node.ident, node.static_token.span, |visitor| {
            visit::visit_item_static(visitor, node);
        });
    }

    fn visit_expr_unsafe(&mut self, node: &'ast syn::ExprUnsafe) {
        let symbol = self.around.last().cloned().unwrap_or(Value::Null);
        let at = line(node.unsafe_token.span);
        self.outline.blocks.push(json!({"file": self.file, "line": at, "symbol": symbol}));
        visit::visit_expr_unsafe(self, node);
    }
}
