//! Harness contract 2, P2.

use flowcell_harness::program::{MAX_PROGRAM_BYTES, RejectionCode, Source, validate};
use proptest::prelude::*;

fn normal(text: &str) -> String {
    validate(&Source::new(text)).unwrap_or_else(|error| panic!("{text}: {error}")).text().to_owned()
}

fn refused(text: &str) -> (RejectionCode, String) {
    match validate(&Source::new(text)) {
        Ok(program) => panic!("accepted: {text}: {}", program.text()),
        Err(error) => (error.code, error.message),
    }
}

#[test]
fn imports_are_found_by_the_parser() {
    for text in [
        "import x from 'y'",
        "import 'y'",
        "export const a = 1",
        "export default 1",
        "export * from 'y'",
        "export {a} from 'y'",
        "const f = async () => await import('y')",
        "import.meta.url",
        "const fs = require('fs')",
        "function f() { return (require)('x') }",
        "require?.('x')",
        "import x from 'y'; return 1",
        "const ctx = await import('y')",
    ] {
        let (code, message) = refused(text);
        assert_eq!(code, RejectionCode::ImportsForbidden, "{text}: {message}");
    }
    for text in [
        "console.log('import x from y', `require('x')`)",
        "// import x from 'y'\n/* require('x') */ 1",
        "const o = {require: 1, import: 2}; o.require; o.import",
        "o.require('x')",
        "const require = 1; require",
        "const r = /import x/",
    ] {
        normal(text);
    }
}

#[test]
fn syntax_errors_say_where() {
    let (code, message) = refused("const a = 1\nconst b = ]\nb");
    assert_eq!(code, RejectionCode::CompileFailed);
    assert!(message.starts_with("Line 2, column 11: "), "{message}");
    assert!(message.ends_with("\n    const b = ]"), "{message}");
    for text in [
        "let x: number = 1",
        "<a/>",
        "const a",
        "let {a}",
        "a b",
        "'",
        "`${",
        "<!-- x",
        "let await = 1",
        "x = 08n",
    ] {
        assert_eq!(refused(text).0, RejectionCode::CompileFailed, "{text}");
    }
    assert_eq!(refused("'a\0b'").0, RejectionCode::CompileFailed);
    assert_eq!(refused("using x = y").0, RejectionCode::CompileFailed);
    // A comment to the realm, which would then run another program than the one that was parsed.
    for text in ["a <!--b /*\nconst c = 1 //*/", "f(() => { x = y<!--z })", "x = 1\n--> y", "/* */ --> y"] {
        assert_eq!(refused(text).0, RejectionCode::CompileFailed, "{text}");
    }
    for text in ["a < !--b", "a <! --b", "'<!--'", "`<!--`", "// <!--", "a <<!--b", "/<!--/", "x-->y"] {
        normal(text);
    }
}

#[test]
fn sloppy_code_and_redeclarations_are_accepted() {
    for text in [
        "x = 010",
        "with (a) { b }",
        "delete x",
        "let a = 1; let a = 2; const a = 3; var a; function a() {} class a {}",
        "await 1; for await (const x of y) {}",
        "#!/usr/bin/env node\n1",
        "",
        "\u{feff}1",
        "(() => { return 1 })(); class A { m() { return 1 } }",
    ] {
        normal(text);
    }
}

#[test]
fn return_outside_functions_is_refused() {
    for text in [
        "a()\nreturn 1",
        "a()\nif (x) { return }",
        "a()\nfor (;;) return 1",
        "a()\nclass A { static { return } }",
    ] {
        let (code, message) = refused(text);
        assert_eq!(code, RejectionCode::CompileFailed, "{text}");
        assert!(message.starts_with("Line 2, column "), "{message}");
    }
    let (_, message) = refused("return 1");
    for way in ["ctx.done(output)", "ctx.park(reason, message)", "goes on to the next frame"] {
        assert!(message.contains(way), "{message}");
    }
}

#[test]
fn ctx_and_console_cannot_be_declared_where_cells_share_names() {
    for text in [
        "const ctx = 1",
        "let a = 1, ctx = 2",
        "var console",
        "const {a, b: [ctx]} = x",
        "let [...console] = x",
        "class ctx {}",
        "function console() {}",
        "async function ctx() {}",
        "{ var ctx = 1 }",
        "for (var ctx of x) {}",
        "try {} catch { var {console} = x }",
        "if (x) { function ctx() {} }",
        "switch (x) { case 1: function ctx() {} }",
        "l: { { var ctx } }",
    ] {
        let (code, message) = refused(text);
        assert_eq!(code, RejectionCode::CompileFailed, "{text}");
        assert!(message.contains("cannot be declared"), "{text}: {message}");
    }
    for text in [
        "{ let ctx = 1; const console = 2 }",
        "function f(ctx) { var console = ctx; function ctx2() {} }",
        "const f = (ctx) => { var ctx = 1 }",
        "for (let ctx of x) {}",
        "try {} catch (ctx) {}",
        "const o = { ctx: 1, console }; o.ctx = 2",
        "(function ctx() {})()",
        "class A { static { var ctx = 1 } }",
        "const A = class ctx {}",
    ] {
        normal(text);
    }
}

#[test]
fn declarations_become_var_and_no_line_moves() {
    assert_eq!(normal("const n = 1"), "var   n = 1");
    assert_eq!(
        normal("let a, b = 1,\n  c /* x */\nlet d"),
        "var a = undefined, b = 1,\n  c = undefined /* x */\nvar d = undefined"
    );
    assert_eq!(normal("var a, b = 1"), "var a, b = 1");
    assert_eq!(normal("const {a} = x, [b] = y"), "var   {a} = x, [b] = y");
    assert_eq!(normal("class K {\n  m() {}\n}\n[1].x"), "var K = class K {\n  m() {}\n};\n[1].x");
    assert_eq!(normal("class K extends (class {}) {}"), "var K = class K extends (class {}) {};");
    assert_eq!(normal("function f() { let x; class Y {} }"), "function f() { let x; class Y {} }");
    assert_eq!(normal("for (let i = 0;;) { const x = 1 }"), "for (let i = 0;;) { const x = 1 }");
    assert_eq!(normal("{ let x; class Y {} }"), "{ let x; class Y {} }");
    assert_eq!(normal("x = 'let y'; let y = 'const z'"), "x = 'let y'; var y = 'const z'");
    assert_eq!(normal("let\na\n=\n1"), "var\na\n=\n1");
    assert_eq!(normal("let a = class {}, b = () => { let q }"), "var a = class {}, b = () => { let q }");
}

#[test]
fn depth_and_size_are_no_danger() {
    const DEPTH: usize = 15_000;
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{", "", "}"),
        ("({a:", "1", "})"),
        ("!", "1", ""),
        ("- ", "1", ""),
        ("x=>", "1", ""),
        ("`${", "1", "}`"),
        ("a?b:", "1", ""),
        ("if(1)", ";", ""),
        ("f(", "1", ")"),
        ("new ", "a", ""),
        ("a**", "1", ""),
        ("a+", "1", ""),
        ("a=", "1", ""),
        ("a:", ";", ""),
        ("(function(){", "", "})"),
        ("class A{m(){", "", "}}"),
        ("a.b", "", ""),
        ("a,", "1", ""),
        ("async()=>", "1", ""),
        ("await ", "1", ""),
        ("{let{a=", "1", "}=1}"),
        ("try{", "", "}finally{}"),
        ("((", "1", "))"),
        ("([", "", "])=>1"),
    ] {
        let text = format!("{}{middle}{}", open.repeat(DEPTH), close.repeat(DEPTH));
        let _ = validate(&Source::new(text));
        let _ = validate(&Source::new(open.repeat(DEPTH)));
    }
    let (code, message) = refused(&" ".repeat(MAX_PROGRAM_BYTES + 1));
    assert_eq!(code, RejectionCode::CompileFailed);
    assert!(message.contains("262144"), "{message}");
}

const PIECES: &[&str] = &[
    "let a",
    "const b = 1",
    "var c",
    "class K {\n}",
    "function f() {\n let x\n}",
    "let a = () => {\n const q = 1\n}",
    "const {x, y} = {x: 1,\n y: 2}",
    "if (a) { let z\n }",
    "// let c\n",
    "`let\n${1}`",
    "for (const i of []) {}",
    "",
    "let \u{e9} = '\u{1F600}', z\n",
    "class A extends Array { static x = 1 }",
    "await 1",
    "/* class B {} */",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn p2_lines_stay_and_normalising_twice_is_once(picks in prop::collection::vec((0..PIECES.len(), prop::bool::ANY), 0..12)) {
        let text: String = picks.iter().map(|(at, line)| format!("{}{}", PIECES[*at], if *line { "\n" } else { ";" })).collect();
        let Ok(program) = validate(&Source::new(text.as_str())) else {
            return Err(TestCaseError::fail(format!("refused: {text}")));
        };
        prop_assert_eq!(program.text().matches('\n').count(), text.matches('\n').count());
        let again = normal(program.text());
        prop_assert_eq!(again.as_str(), program.text());
    }

    #[test]
    fn p2_no_text_panics(text in "(?s:.){0,80}", code in "[a-z(){}\\[\\];=,:'`$ \n0-9.!?+]{0,80}") {
        let _ = validate(&Source::new(text));
        if let Ok(program) = validate(&Source::new(code.as_str())) {
            prop_assert_eq!(program.text().matches('\n').count(), code.matches('\n').count());
        }
    }
}
