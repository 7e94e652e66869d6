use flowcell_kernel::{
    Answer, Answers, Ask, AskKind, Clock, Entropy, EvaluatorError, Persist, Question, Secret, SeededEntropy,
    SystemClock, SystemEntropy,
};
use serde_json::json;

#[test]
fn a_question_and_its_answers_on_the_wire() {
    let ask = |name: &str, kind| Ask { name: name.to_owned(), text: "?".to_owned(), kind };
    let question = Question {
        id: "probe/attribution".to_owned(),
        state: json!({"log": "x"}),
        ask: vec![
            ask("flaky", AskKind::Boolean),
            ask("cause", AskKind::Choice { options: vec!["code".to_owned(), "host".to_owned()] }),
            ask("grade", AskKind::Score { min: 0.0, max: 10.0 }),
        ],
    };
    let wire = json!({
        "id": "probe/attribution", "state": {"log": "x"},
        "ask": [
            {"name": "flaky", "text": "?", "kind": "boolean"},
            {"name": "cause", "text": "?", "kind": "choice", "options": ["code", "host"]},
            {"name": "grade", "text": "?", "kind": "score", "min": 0.0, "max": 10.0},
        ],
    });
    assert_eq!(serde_json::to_value(&question).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Question>(wire).unwrap(), question);

    let wire = json!({
        "cause": {"value": "host", "confidence": 0.5, "evidence": "line 3"},
        "flaky": {"value": true, "probability": 0.25},
        "grade": {"value": 7.5, "confidence": 1.0},
    });
    let answers: Answers = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(answers["flaky"], Answer::Boolean { value: true, probability: 0.25, evidence: None });
    assert!(matches!(&answers["cause"], Answer::Choice { value, .. } if value == "host"));
    assert!(matches!(answers["grade"], Answer::Score { value, .. } if value == 7.5));
    assert_eq!(serde_json::to_value(&answers).unwrap(), wire);
    assert!(serde_json::from_value::<Answer>(json!({"value": true, "confidence": 1.0})).is_err());
}

#[test]
fn evaluator_errors_are_their_codes() {
    let codes = [
        (EvaluatorError::Unreachable, "unreachable"),
        (EvaluatorError::Refused, "refused"),
        (EvaluatorError::Empty, "empty"),
        (EvaluatorError::Timeout, "timeout"),
        (EvaluatorError::InvalidAnswer, "invalid_answer"),
        (EvaluatorError::InvalidQuestion, "invalid_question"),
    ];
    for (error, code) in codes {
        assert_eq!(error.to_string(), code);
        assert_eq!(serde_json::to_value(error).unwrap(), json!(code));
    }
}

#[test]
fn clocks_advance_and_secrets_hide() {
    let clock = SystemClock::new();
    let before = clock.now();
    assert!(clock.now() >= before && clock.wall_ms() > 0);
    let secret = Secret::new("hunter2");
    assert_eq!(secret.expose(), "hunter2");
    assert!(!format!("{secret:?}").contains("hunter2"));
}

#[test]
fn a_seed_names_its_stream() {
    let bytes = |seed: u64, len: usize| {
        let mut bytes = vec![0; len];
        SeededEntropy::new(seed).fill(&mut bytes);
        bytes
    };
    // The published first outputs of SplitMix64 for the seed 1234567.
    let expected: Vec<u8> = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    assert_eq!(bytes(1_234_567, 16), expected);
    assert_eq!(bytes(1_234_567, 5), expected[..5]);
    assert_ne!(bytes(1, 16), bytes(2, 16));
}

#[tokio::test]
async fn the_journal_in_memory_pages() {
    let persist = flowcell_kernel::MemoryPersist::new();
    for n in 1..=5_u64 {
        assert_eq!(persist.append("run", "t", &json!(n)).await, Ok(n));
    }
    assert_eq!(persist.append("other", "t", &json!(0)).await, Ok(1));
    let seqs = async |after, limit| {
        let page = persist.page("run", after, limit).await.unwrap();
        page.into_iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(0, 2).await, [1, 2]);
    assert_eq!(seqs(2, 9).await, [3, 4, 5]);
    assert!(seqs(5, 9).await.is_empty());
    assert!(persist.page("none", 0, 9).await.unwrap().is_empty());
}

#[test]
fn the_machine_s_randomness_never_repeats_and_is_not_shown() {
    let entropy = SystemEntropy::new().unwrap();
    let (mut one, mut two, mut other) = ([0; 70], [0; 70], [0; 70]);
    entropy.fill(&mut one);
    entropy.fill(&mut two);
    SystemEntropy::new().unwrap().fill(&mut other);
    let blocks: std::collections::BTreeSet<&[u8]> =
        [&one, &two, &other].into_iter().flat_map(|bytes| [&bytes[..32], &bytes[32..64]]).collect();
    assert_eq!(blocks.len(), 6);
    entropy.fill(&mut []);
    assert_eq!(format!("{entropy:?}"), "SystemEntropy { .. }");
}
