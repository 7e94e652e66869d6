//! What has to hold of every line (kernel contract 12, number 9). The fuzz target `line` asks the same.
#![allow(clippy::unwrap_used, reason = "it is a test, wherever it is compiled")]

use flowcell_kernel::flows::capability::{Action, CapabilityPattern, is_literal};
use flowcell_kernel::flows::rules::{Effect, Rule, evaluate_text};
use flowcell_kernel::process::{Command, Part, Plan, render_argv, scan};

/// Rules about single commands, in sets; none of an allow is literal, `*` or `**`.
const SETS: [&[(Effect, &str)]; 4] = [
    &[(Effect::Allow, "a *"), (Effect::Allow, "b x*"), (Effect::Deny, "c *")],
    &[(Effect::Allow, "?*"), (Effect::Deny, "rm *"), (Effect::Deny, "*secret*")],
    &[
        (Effect::Ask, "*"),
        (Effect::Allow, "cargo *"),
        (Effect::Allow, "ls *"),
        (Effect::Deny, "cargo publish*"),
    ],
    &[(Effect::Deny, "*"), (Effect::Allow, "a *"), (Effect::Allow, "* --dry-run")],
];

fn rules(set: &[(Effect, &str)]) -> Vec<Rule> {
    let pattern = |text: &str| CapabilityPattern::new(Action::ProcSpawn, text).unwrap();
    set.iter().map(|(effect, text)| Rule::new(*effect, pattern(text))).collect()
}

fn effect(rules: &[Rule], line: &str) -> Effect {
    let plan = Plan::of(&Command::Line { line: line.to_owned(), shell: None }, None);
    let counts = |rule: &Rule| {
        let resource = rule.pattern.resource();
        rule.effect != Effect::Allow || is_literal(resource) || resource == "*" || resource == "**"
    };
    let narrow: Vec<Rule> = rules.iter().filter(|rule| counts(rule)).cloned().collect();
    let verdict = plan.judge(&mut |part| match part {
        Part::Whole { text, narrow: true } => evaluate_text(&[&narrow], Action::ProcSpawn, text),
        Part::Whole { text, narrow: false } | Part::Text(text) => {
            evaluate_text(&[rules], Action::ProcSpawn, text)
        }
    });
    verdict.effect
}

/// Panics where a line breaks one of the rules about lines.
pub(crate) fn check(line: &str) {
    let scanned = scan(line);
    for set in SETS {
        let rules = rules(set);
        let whole = effect(&rules, line);
        let alone: Vec<Effect> =
            scanned.segments.iter().map(|words| effect(&rules, &render_argv(words))).collect();
        if whole == Effect::Allow {
            assert!(!scanned.opaque, "an opaque line is allowed: {line:?}");
            if scanned.segments.len() != 1 {
                assert!(
                    alone.iter().all(|effect| *effect == Effect::Allow),
                    "{line:?} is allowed, {alone:?}"
                );
            }
            // In a comment an addition is none. What is added is allowed by no set but the second.
            let longer = format!("{line}; unknown x");
            if !scanned.comment && effect(&rules, "unknown x") != Effect::Allow {
                assert_ne!(effect(&rules, &longer), Effect::Allow, "{longer:?}");
            }
        }
        for words in &scanned.segments {
            let segment = render_argv(words);
            if evaluate_text(&[&rules], Action::ProcSpawn, &segment) == Effect::Deny {
                assert_eq!(whole, Effect::Deny, "{line:?} holds {segment:?}");
            }
        }
    }
}
