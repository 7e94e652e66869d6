//! Rewrites the top-level declarations of a program by editing its text, so that no line moves (harness contract 2).

use oxc_ast::ast::{BindingPattern, Program, Statement, VariableDeclarationKind};
use oxc_span::GetSpan;

use super::Rejected;
use super::parse::failed;

/// One edit: the bytes `from..to` become `text`.
struct Edit {
    from: usize,
    to: usize,
    text: String,
}

/// The program's text with `const` and `let` as `var`, bare declarators initialised, and classes bound by `var`.
///
/// Nested scopes and loop heads keep what they have. `const` and `let` are padded to their own width, so columns stay
/// where they were up to the first inserted initialiser.
pub(super) fn normalise(text: &str, program: &Program<'_>) -> Result<String, Rejected> {
    let mut edits = Vec::new();
    for statement in &program.body {
        match statement {
            Statement::VariableDeclaration(declaration) => {
                let from = declaration.span.start as usize;
                let keyword = match declaration.kind {
                    VariableDeclarationKind::Var => continue,
                    VariableDeclarationKind::Let => "let",
                    VariableDeclarationKind::Const => "const",
                    VariableDeclarationKind::Using | VariableDeclarationKind::AwaitUsing => {
                        return Err(failed(
                            text,
                            from,
                            "`using` cannot stand at the top of a cell; put it in a block",
                        ));
                    }
                };
                if !text[from..].starts_with(keyword) {
                    return Err(failed(text, from, "a declaration's keyword is written with an escape"));
                }
                let padded = format!("{:<1$}", "var", keyword.len());
                edits.push(Edit { from, to: from + keyword.len(), text: padded });
                for declarator in &declaration.declarations {
                    if declarator.init.is_some() {
                        continue;
                    }
                    let end = declarator.id.span().end as usize;
                    if declaration.kind == VariableDeclarationKind::Const
                        || !matches!(declarator.id, BindingPattern::BindingIdentifier(_))
                    {
                        return Err(failed(text, end, "an initialiser is missing in the declaration"));
                    }
                    edits.push(Edit { from: end, to: end, text: " = undefined".into() });
                }
            }
            Statement::ClassDeclaration(class) => {
                let Some(id) = &class.id else { continue };
                let from = class.span.start as usize;
                let end = class.span.end as usize;
                let name = &text[id.span.start as usize..id.span.end as usize];
                edits.push(Edit { from, to: from, text: format!("var {name} = ") });
                edits.push(Edit { from: end, to: end, text: ";".into() });
            }
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len() + edits.len() * 16);
    let mut done = 0;
    for edit in edits {
        out.push_str(&text[done..edit.from]);
        out.push_str(&edit.text);
        done = edit.to;
    }
    out.push_str(&text[done..]);
    Ok(out)
}
