//! The failure codes (kernel contract 11).

use flowcell_flows::error::{Code, StdError};
use serde_json::json;

/// The list of the contract, in its order.
const CODES: &str = "not_found not_a_file not_a_directory is_directory binary_file offset_out_of_range invalid_pattern \
    invalid_input no_match not_modified permission_denied outside_declared_reads outside_declared_writes \
    command_failed request_failed timeout rate_limited provider_unavailable unsupported unsupported_content_type \
    response_too_large outside_container";

#[test]
fn the_codes_are_the_closed_list() {
    let listed: Vec<&str> = CODES.split_whitespace().collect();
    let own: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(own, listed);
    for code in Code::ALL {
        assert_eq!(Code::parse(code.as_str()), Some(code));
        assert_eq!(code.to_string(), code.as_str());
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
        assert_eq!(serde_json::from_value::<Code>(json!(code.as_str())).unwrap(), code);
    }
    assert_eq!(Code::parse("NotFound"), None);
    assert!(serde_json::from_value::<Code>(json!("cancelled")).is_err());
}

#[test]
fn a_failure_has_a_path_only_where_one_exists() {
    let bare = StdError::new(Code::Timeout, "took too long");
    assert_eq!(serde_json::to_value(&bare).unwrap(), json!({"code": "timeout", "message": "took too long"}));
    assert_eq!(bare.to_string(), "took too long");
    let named = bare.with_path("/a");
    let wire = json!({"code": "timeout", "message": "took too long", "path": "/a"});
    assert_eq!(serde_json::to_value(&named).unwrap(), wire);
    assert_eq!(serde_json::from_value::<StdError>(wire).unwrap(), named);
}
