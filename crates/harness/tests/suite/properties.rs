//! P3, P4 and P13.

use flowcell_harness::failure::CallOutcome;
use flowcell_harness::program::{RejectionCode, Source, validate};
use flowcell_harness::realm::{FrameOptions, Limits, Outcome, Realm};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{Answer, Run, block_on, completed};

/// JSON as it is once it crossed: numbers that a double holds, whole ones as integers.
fn json_value() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("__proto__".to_owned()),
        Just("constructor".to_owned()),
        Just(String::new()),
        Just("then".to_owned()),
        Just("toJSON".to_owned()),
        Just("0".to_owned()),
        "(?s:.){0,6}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53) + 1..(1_i64 << 53)).prop_map(Value::from),
        any::<f64>()
            .prop_filter("fractions", |number| number.is_finite() && number.fract() != 0.0)
            .prop_map(Value::from),
        "(?s:.){0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// A program of calls: awaited, unawaited, in groups and races, and calls made from replies.
fn call_tree() -> impl Strategy<Value = String> {
    let leaf = (0..50_u32).prop_map(|n| format!("ctx.call('ident', {n})"));
    let tree = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|list| format!("Promise.all([{}])", list.join(","))),
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|list| format!("Promise.race([{}])", list.join(","))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.then(() => {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("(async () => {{ {a}; return await {b} }})()")),
        ]
    });
    prop::collection::vec((any::<bool>(), tree), 1..5).prop_map(|list| {
        list.into_iter()
            .map(|(awaited, tree)| format!("{}{tree};\n", if awaited { "await " } else { "" }))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn p3_values_cross_unchanged(values in prop::collection::vec(json_value(), 1..6)) {
        block_on(async {
            let mut run = Run::new().await;
            for value in values {
                run.bridge.script.push_back(Answer::Reply(CallOutcome::Success(value.clone())));
                let frame = run.cell("const v = await ctx.call('x'); ctx.done(await ctx.call('ident', v))").await;
                prop_assert_eq!(completed(&frame), &value);
                prop_assert_eq!(&run.bridge.issued()[1].2, &value);
            }
            Ok(())
        })?;
    }

    #[test]
    fn p4_two_executions_issue_the_same_calls(text in call_tree()) {
        block_on(async {
            let mut issued = Vec::new();
            for _ in 0..2 {
                let mut run = Run::new().await;
                let frame = run.cell(&text).await;
                let ended = matches!(frame.outcome, Outcome::Settled { .. } | Outcome::Rejected { code: RejectionCode::LimitExceeded, .. });
                prop_assert!(ended, "{:?}", frame.outcome);
                issued.push((run.bridge.issued(), frame));
            }
            prop_assert_eq!(&issued[0], &issued[1]);
            Ok(())
        })?;
    }
}

/// Runs alone in a process of its own, started by [`p13_realms_leave_no_memory_behind`].
#[test]
#[ignore = "run by p13_realms_leave_no_memory_behind, in a process of its own"]
fn p13_alone() {
    const REALMS: usize = 1000;
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").ok()?;
        status.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
    };
    block_on(async {
        let program = validate(&Source::new("let a = [{x: 1}]; await 1; console.log(a)")).unwrap();
        let mut before = None;
        for round in 0..REALMS {
            if round == REALMS / 4 {
                before = resident();
            }
            let mut realm = Realm::open(&Limits::default()).await.unwrap();
            if round % 50 == 0 {
                let mut bridge = crate::support::Recorder::default();
                realm.evaluate(0, &program, &FrameOptions::default(), &mut bridge).await.unwrap();
            }
            realm.close().await;
        }
        let (Some(before), Some(after)) = (before, resident()) else { return };
        // A leak of one realm in ten would be 12 MB and more.
        assert!(after < before + (6 << 20), "{before} to {after}");
    });
}

#[test]
fn p13_realms_leave_no_memory_behind() {
    let own = std::env::current_exe().unwrap();
    let run = std::process::Command::new(own)
        .args(["--exact", "properties::p13_alone", "--ignored"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}
