//! RFC 8785 (kernel contract 9).

use flowcell_flows::canonical::{self, CanonicalError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties;

/// The samples of RFC 8785, appendix B: the bits of a double and its text.
const NUMBERS: [(u64, &str); 24] = [
    (0x0000_0000_0000_0000, "0"),
    (0x8000_0000_0000_0000, "0"),
    (0x0000_0000_0000_0001, "5e-324"),
    (0x8000_0000_0000_0001, "-5e-324"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
    (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
    (0x4340_0000_0000_0000, "9007199254740992"),
    (0xc340_0000_0000_0000, "-9007199254740992"),
    (0x4430_0000_0000_0000, "295147905179352830000"),
    (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
    (0x44b5_2d02_c7e1_4af6, "1e+23"),
    (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
    (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
    (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
    (0x444b_1ae4_d6e2_ef50, "1e+21"),
    (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
    (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
    (0x41b3_de43_5555_5553, "333333333.3333332"),
    (0x41b3_de43_5555_5554, "333333333.33333325"),
    (0x41b3_de43_5555_5555, "333333333.3333333"),
    (0x41b3_de43_5555_5556, "333333333.3333334"),
    (0x41b3_de43_5555_5557, "333333333.33333343"),
    (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
];

#[test]
fn the_number_samples_of_the_rfc() {
    for (bits, text) in NUMBERS {
        assert_eq!(canonical::number(f64::from_bits(bits)).as_deref(), Ok(text), "{bits:#018x}");
    }
    for bits in [0x7fff_ffff_ffff_ffff_u64, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000] {
        assert_eq!(canonical::number(f64::from_bits(bits)), Err(CanonicalError::NonFinite));
    }
}

#[test]
fn the_document_sample_of_the_rfc() {
    let text = r#"{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"#;
    let value: Value = serde_json::from_str(text).unwrap();
    let expected = concat!(
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(canonical::to_string(&value).as_deref(), Ok(expected));
}

#[test]
fn the_sorting_sample_of_the_rfc() {
    let value = json!({
        "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh", "1": "One",
        "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control", "\u{f6}": "Latin Small Letter O With Diaeresis",
    });
    let text = canonical::to_string(&value).unwrap();
    let order = ["Carriage Return", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
    let places: Vec<usize> = order.iter().map(|word| text.find(word).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn astral_keys_sort_before_the_last_of_the_basic_plane() {
    let value = json!({"B": 4, "a": 3, "\u{1F600}": 2, "\u{e000}": 1});
    assert_eq!(canonical::to_string(&value).unwrap(), "{\"B\":4,\"a\":3,\"\u{1F600}\":2,\"\u{e000}\":1}");
    assert_eq!(
        canonical::digest(&value).unwrap(),
        "52decf9ff1c550c07fc5ab7efca98e02d40b0f3c569397c5bc91b0a36beb2af9"
    );
}

#[test]
fn numbers_of_the_contract() {
    let text = canonical::to_string(&json!([1e21, 1e-7, -0.0, 1.0, 5.0, 1e20])).unwrap();
    assert_eq!(text, "[1e+21,1e-7,0,1,5,100000000000000000000]");
}

#[test]
fn integers_that_no_double_holds_are_refused() {
    let refused =
        |value: Value| matches!(canonical::to_string(&value), Err(CanonicalError::InexactInteger(_)));
    assert!(refused(json!(9_007_199_254_740_993_u64)));
    assert!(refused(json!([{"a": -9_007_199_254_740_993_i64}])));
    assert!(refused(json!(u64::MAX)) && refused(json!(i64::MAX)));
    let held = |value: Value| canonical::to_string(&value).unwrap();
    assert_eq!(held(json!(9_007_199_254_740_994_u64)), "9007199254740994");
    assert_eq!(held(json!(i64::MIN)), "-9223372036854776000");
    assert_eq!(held(json!(1_u64 << 63)), "9223372036854776000");
    // The digits that ECMAScript prints for a double are held, whichever integer the double is exactly.
    assert_eq!(held(json!(37_885_374_706_450_190_u64)), "37885374706450190");
    assert_eq!(held(json!(37_885_374_706_450_192_u64)), "37885374706450190");
    assert!(refused(json!(37_885_374_706_450_191_u64)));
}

#[test]
fn lone_surrogates_never_become_a_value() {
    assert!(serde_json::from_str::<Value>(r#""\ud800""#).is_err());
    assert!(serde_json::from_str::<Value>(r#""\udc00\ud800""#).is_err());
}

#[test]
fn only_the_named_escapes_are_used() {
    let controls: String =
        (0..0x21_u8).map(char::from).chain(['"', '\\', '/', '\u{7f}', '\u{2028}']).collect();
    let expected = concat!(
        r#""\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013"#,
        r#"\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f \"\\/"#,
        "\u{7f}\u{2028}\""
    );
    assert_eq!(canonical::to_string(&json!(controls)).unwrap(), expected);
}

#[test]
fn a_deep_document_does_not_exhaust_the_stack() {
    // As deep as the process can drop again: dropping a document recurses, writing it does not.
    let mut value = json!([]);
    for _ in 0..2_000 {
        value = Value::Array(vec![value]);
    }
    let text = canonical::to_string(&value).unwrap();
    assert_eq!(text.len(), 4_002);
}

#[test]
fn a_digest_is_the_sha256_of_the_text() {
    assert_eq!(
        canonical::sha256_hex(b""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(
        canonical::digest(&json!({"b": 1, "a": 2})).unwrap(),
        canonical::sha256_hex(br#"{"a":2,"b":1}"#)
    );
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn every_finite_double_reads_back(number in any::<f64>()) {
        if number.is_finite() {
            let text = canonical::number(number).unwrap();
            prop_assert_eq!(text.parse::<f64>().unwrap(), number);
        }
    }

    #[test]
    fn canonical_text_is_stable(value in document()) {
        let text = canonical::to_string(&value).unwrap();
        let again: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical::to_string(&again).unwrap(), text);
    }

    #[test]
    fn the_order_of_units_is_total_and_agrees_with_its_definition(
        head in any::<String>(),
        left in "[a/\u{ff}\u{7ff}\u{d7ff}\u{e000}-\u{e003}\u{fffd}\u{10000}-\u{10003}]{0,3}",
        right in prop_oneof![any::<String>(), "[a/\u{d7ff}\u{e000}-\u{e003}\u{ffff}\u{10000}-\u{10003}]{0,3}"],
    ) {
        let (left, right) = (format!("{head}{left}"), format!("{head}{right}"));
        let expected = left.encode_utf16().collect::<Vec<_>>().cmp(&right.encode_utf16().collect::<Vec<_>>());
        prop_assert_eq!(canonical::utf16_cmp(&left, &right), expected);
        prop_assert_eq!(canonical::utf16_cmp(&right, &left), expected.reverse());
    }
}
