//! The policy of command lines: what a rule about one command says of a line with several (kernel contract 6.2 and 13).

use std::path::PathBuf;
use std::sync::Arc;

use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::process::{By, Command, Plan, candidates_of_line, scan};
use flowcell_kernel::{
    Authority, GrantStore, GrantStoreOptions, MemoryPersist, Meta, PermissionDenied, PermissionError, RunRule,
};

use crate::support::{cap, pattern_of, rule};

async fn authority(rules: &[&str]) -> Authority {
    authority_with(rules, |_| {}).await
}

async fn authority_with(rules: &[&str], change: impl FnOnce(&mut GrantStoreOptions)) -> Authority {
    let mut options = GrantStoreOptions::new("/ws", Arc::new(MemoryPersist::new()));
    options.configured = rules.iter().map(|text| rule(text)).collect();
    options.attended = false;
    change(&mut options);
    Authority::root(GrantStore::open(options).await.unwrap())
}

fn line(text: &str) -> Command {
    Command::Line { line: text.to_owned(), shell: None }
}

fn argv(tokens: &[&str]) -> Command {
    Command::Argv(tokens.iter().map(|token| (*token).to_owned()).collect())
}

/// What a check meets; it has to be what a peek says and what the explanation says.
async fn effect(authority: &Authority, command: &Command) -> Effect {
    let peeked = authority.decide_command(command, None);
    let checked = match authority.check_command(command, None, Meta::new()).await {
        Ok(()) => Allow,
        Err(PermissionError::Denied(denied)) => {
            assert_eq!(denied.reason, PermissionDenied::BY_POLICY);
            assert_eq!(denied.capability, command.capability());
            Deny
        }
        Err(PermissionError::Required(required)) => {
            // Whatever part of it is not allowed, a person is asked for the whole.
            assert_eq!(required.capability, command.capability());
            Ask
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(peeked, checked, "{command:?}");
    assert_eq!(authority.explain_command(command, None).verdict.effect, checked, "{command:?}");
    checked
}

async fn expect(rules: &[&str], cases: &[(&str, Effect)]) {
    let authority = authority(rules).await;
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let effect = effect(&authority, &line(text)).await;
        if effect != *expected {
            wrong.push(format!("{text:?} is {effect}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "under {rules:?}: {wrong:#?}");
}

use Effect::{Allow, Ask, Deny};

#[tokio::test]
async fn the_contract_s_cases() {
    let cargo = ["allow proc:spawn:cargo *"];
    expect(&cargo, &[("cargo", Allow), ("cargo test", Allow), ("cargo test; id", Ask), ("cargox", Ask)])
        .await;
    let both = ["allow proc:spawn:cargo *", "allow proc:spawn:ls *"];
    expect(&both, &[("cargo test && ls -l", Allow)]).await;
    let dd = ["allow proc:spawn:*", "deny proc:spawn:dd *"];
    expect(&dd, &[("true | sudo /bin/dd if=a", Deny)]).await;
}

#[tokio::test]
async fn a_prefix_does_not_carry_the_rest_of_a_line() {
    let rest = [
        "cargo test; rm -rf /",
        "cargo test;rm -rf /",
        "cargo test && rm -rf /",
        "cargo test || rm -rf /",
        "cargo test | rm -rf /",
        "cargo test |& rm -rf /",
        "cargo test & rm -rf /",
        "cargo test\nrm -rf /",
        "cargo test\n\nrm -rf /",
        "cargo test # all\nrm -rf /",
        "cargo test $(rm -rf /)",
        "cargo test `rm -rf /`",
        "cargo test \"$(rm -rf /)\"",
        "cargo test \"`rm -rf /`\"",
        "cargo test <(rm -rf /)",
        "cargo test >(rm -rf /)",
        "cargo test > /etc/passwd",
        "cargo test >> /etc/passwd",
        "cargo test >| /etc/passwd",
        "cargo test &> /etc/passwd",
        "cargo test >& /etc/passwd",
        "cargo test 2>/etc/passwd",
        "cargo test < /etc/passwd",
        "cargo test <> /etc/passwd",
        "cargo test <<< x",
        "cargo test &>/dev/null id",
        "cargo test << x\nx",
        "cargo test 2>&-",
        "cargo test ${IFS}x${y:-z}",
        "cargo test $((1))",
        "cargo test $'x'",
        "cargo test $\"x\"",
        "cargo test $1",
        "cargo test $?",
        "cargo {test,x}",
        "cargo test \\",
        "cargo te\\\nst",
        "cargo 'test",
        "cargo \"test",
        "cargo test\r",
        "cargo test \u{1b}[31m",
        "cargo test &&",
        "cargo test |",
        "cargo test ;;",
        "(cargo test)",
        "{ cargo test; }",
        "! cargo test",
        "if cargo test; then cargo run; fi",
        "while cargo test; do cargo run; done",
        "for x in a; do cargo test; done",
        "PATH=/tmp cargo test",
        "PATH+=:/tmp cargo test",
        "cargo() { rm -rf /; }; cargo test",
        "function cargo { rm -rf /; }; cargo test",
        "alias cargo='rm -rf /'\ncargo test",
        "eval cargo test",
        "source cargo",
        ". cargo",
        "coproc cargo test",
        "$CARGO test",
        "c*o test",
        "carg? test",
        "[c]argo test",
        "env cargo test",
        "sudo cargo test",
        "bash -c 'cargo test'",
        "xargs cargo test",
        "find . -exec cargo test \\;",
        "timeout 5 cargo test",
        "export PATH=/tmp; cargo test",
        "cd /tmp; cargo test",
        "",
        "   ",
        "# cargo test",
        ";cargo test",
        "&& cargo test",
    ];
    let cases: Vec<(&str, Effect)> = rest.iter().map(|text| (*text, Ask)).collect();
    expect(&["allow proc:spawn:cargo *"], &cases).await;
    // Not one of them is a command of which `cargo *` speaks, so a deny of it by name is met wherever it is seen.
    expect(
        &["allow proc:spawn:**", "deny proc:spawn:rm *"],
        &rest.map(|text| {
            (text, if text.contains("rm -rf") && !text.contains("alias") { Deny } else { Allow })
        }),
    )
    .await;
}

#[tokio::test]
async fn what_adds_no_command_is_no_hindrance() {
    expect(
        &["allow proc:spawn:cargo *", "allow proc:spawn:grep *", "allow proc:spawn:echo *"],
        &[
            ("cargo test 2>&1", Allow),
            ("cargo test >/dev/null 2>&1", Allow),
            ("cargo test > /dev/null", Allow),
            ("cargo test &>/dev/null", Allow),
            ("cargo test &> /dev/null | grep x &>/dev/null; echo done", Allow),
            ("cargo test </dev/null", Allow),
            ("cargo test 2>/dev/null | grep -c 'a;b'", Allow),
            ("cargo test 1>&2 | grep x", Allow),
            ("cargo test;", Allow),
            ("cargo test &", Allow),
            ("cargo test\n", Allow),
            ("\ncargo test", Allow),
            ("cargo test &&\ncargo run", Allow),
            ("cargo test |\n\n grep x", Allow),
            ("cargo test # and nothing else; rm", Allow),
            ("cargo test a#b", Allow),
            ("cargo 'te'st", Allow),
            ("car\"go\" test", Allow),
            ("car\\go test", Allow),
            ("'cargo' test", Allow),
            ("  cargo\ttest  ", Allow),
            ("cargo test -- '; rm -rf /'", Allow),
            ("cargo test -- \"&& rm\" '$(rm)' \\; \\`", Allow),
            ("cargo test $HOME ${HOME} \"$HOME/${A_1}x\"", Allow),
            ("cargo test *.rs a[1] b?", Allow),
            ("cargo run {}", Allow),
            ("cargo test ~/x", Allow),
            ("echo 'it'\\''s' && echo \"a \\\" b\"", Allow),
            ("cargo run é '😀' && echo ü", Allow),
        ],
    )
    .await;
}

#[tokio::test]
async fn only_whole_rules_carry_a_line() {
    // A literal of the whole line, and the two that mean everything.
    expect(&["allow proc:spawn:a; b"], &[("a; b", Allow), ("a;b", Ask), ("a; b ", Ask)]).await;
    expect(&["allow proc:spawn:*"], &[("a; b > c", Allow)]).await;
    expect(&["allow *:**"], &[("a; $(b)", Allow)]).await;
    expect(&["allow proc:spawn:a*"], &[("a; b", Ask), ("a b", Allow)]).await;
    // The last rule that counts wins; what does not count neither helps nor hinders.
    expect(
        &["deny proc:spawn:*", "allow proc:spawn:cargo *"],
        &[("cargo test", Allow), ("cargo test; id", Deny)],
    )
    .await;
    expect(
        &["ask proc:spawn:*", "allow proc:spawn:cargo *"],
        &[("cargo a; cargo b", Allow), ("cargo a; id", Ask)],
    )
    .await;
    expect(&["allow proc:spawn:*", "ask proc:spawn:git push *"], &[("git push", Ask), ("git pull", Allow)])
        .await;
    expect(
        &["allow proc:spawn:cargo *", "ask proc:spawn:cargo publish *"],
        &[("cargo test; cargo publish", Ask)],
    )
    .await;
    // A rule may be met by a comment only as by a text, and a comment is no part of a command.
    expect(
        &["allow proc:spawn:cargo * --dry-run"],
        &[
            ("cargo publish --dry-run", Allow),
            ("cargo publish # --dry-run", Ask),
            ("cargo publish --dry-run # really", Allow),
        ],
    )
    .await;
}

#[tokio::test]
async fn denials_reach_into_wrappers() {
    let denied = [
        "rm -rf /",
        "rm",
        "/bin/rm -rf /",
        "../bin/rm x",
        "\\rm -rf /",
        "r''m -rf /",
        "'rm' -rf /",
        "\"r\"m -rf /",
        "$'rm' -rf /",
        "$'\\x72\\155' -rf /",
        "X=1 Y=2 rm -rf /",
        "a[0]=1 rm x",
        "if rm x; then :; fi",
        "while ! rm x; do :; done",
        "for f in *; do rm $f; done",
        "for f do rm $f; done",
        "for f\ndo rm $f; done",
        "for ((i = 0; i < 3; i++)); do rm x; done",
        "echo $((rm x); true)",
        "echo $(( 1 + $(rm x) ))",
        "echo $(( 1 )); rm x",
        "case x in x) rm x;; esac",
        "select x in a; do rm x; done",
        "f() { rm x; }",
        "function f { rm x; }",
        "coproc rm x",
        "! rm x",
        "(rm x)",
        "((rm x); true)",
        "{ rm x; }",
        "{rm,-rf,/}",
        "echo $(rm x)",
        "echo \"a $(rm x) b\"",
        "echo \"$(echo \"$(rm x)\")\"",
        "echo $(case a in a) rm x;; esac)",
        "echo \"$(case a in a) rm x;; esac)\"",
        "echo \"$( (case a in a) true;; b) true;; esac); rm x)\"",
        "echo \"$(case a in (a) true;; (b) case b in b) true;; esac;; esac; rm x)\"",
        "echo `rm x`",
        "echo \"`rm x`\"",
        "echo `echo \\`rm x\\``",
        "echo ${x:-$(rm x)}",
        "echo \"${x:-`rm x`}\"",
        "echo $(( $(rm x) + 1 ))",
        "diff <(rm x) >(cat)",
        "cat < <(rm x)",
        "cat > \"$(rm x)\"",
        "> out rm x",
        "2>err rm x",
        "rm x > out",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<EOF\n`rm x`\nEOF",
        "cat <<-EOF\n\t$(rm x)\n\tEOF",
        "cat <<EOF; rm x\nbody\nEOF",
        "cat <<EOF\nbody\nEOF\nrm x",
        "cat <<'EOF'\nbody\nEOF\nrm x",
        "cat <<A <<'B'\na\nA\nb\nB\nrm x",
        "cat <<EOF\nno end\nrm x",
        "cat <<'EOF'\nno end\nrm x",
        "((x=1<<\"2\"))\nrm x\n2",
        "echo $((1<<\"2\"))\nrm x\n2))",
        "echo $[1<<\"2\"]\nrm x\n2]",
        "a[1<<\"2\"]=3\nrm x\n2]=3",
        "true &\nrm x",
        "true;rm x",
        "true|rm x",
        "true|&rm x",
        "true||rm x",
        "true&&rm x",
        "echo {#; rm x",
        "echo `true`#; rm x",
        "echo ${#x}; rm x",
        "echo $#; rm x",
        "echo \"${x:-'}\"; rm x",
        "echo \"it's\"; rm x",
        "echo \"${x:-it's}\" '; rm x; echo '",
        "echo $'\\'; rm x #'",
        "echo $'\\'' ; rm x",
        "true &>/dev/null rm x",
        "sh -c \"true &> out rm x\"",
        "echo it's; rm x",
        "echo \"; rm x",
        "command rm x",
        "command -p rm x",
        "builtin command rm x",
        "exec rm x",
        "exec -a y rm x",
        "exec -cl rm x",
        "nohup rm x",
        "time rm x",
        "time -p rm x",
        "time -f %e -o f rm x",
        "env rm x",
        "env A=1 B=2 rm x",
        "env A-B=1 1=2 a.b/c=d rm x",
        "env A-B=1 env 2=3 rm x",
        "sudo A.B=1 rm x",
        "env -i rm x",
        "env - rm x",
        "env -u A rm x",
        "env --unset=A --chdir /tmp rm x",
        "env -S 'rm x'",
        "env -S'rm x'",
        "env -iS 'rm x' y",
        "env --split-string='rm x'",
        "env --split-string 'rm x'",
        "env -S rm x",
        "env -S '-i A=1' rm x",
        "env -S '-u A rm x'",
        "env -- rm x",
        "sudo rm x",
        "sudo -u x rm x",
        "sudo -ux rm x",
        "sudo -nu x rm x",
        "sudo --user=x rm x",
        "sudo --user x rm x",
        "sudo -E A=1 rm x",
        "sudo -- rm x",
        "sudo -s rm x",
        "sudo -i rm x",
        "sudo -u x -g y -n /bin/rm x",
        "doas -u x rm x",
        "nice rm x",
        "nice -n 5 rm x",
        "nice -n5 rm x",
        "nice -5 rm x",
        "nice --adjustment=5 rm x",
        "nice --adj 5 rm x",
        "timeout 5 rm x",
        "timeout 5s rm x",
        "timeout -s KILL 5 rm x",
        "timeout -k 1 -s KILL 5 rm x",
        "timeout --signal=KILL 0.5 rm x",
        "timeout --foreground 5 rm x",
        "stdbuf -oL rm x",
        "stdbuf -o L -e L rm x",
        "stdbuf --output=L rm x",
        "setsid rm x",
        "setsid -w rm x",
        "xargs rm",
        "xargs -n 1 rm -f",
        "xargs -0 -I{} rm {}",
        "xargs -I {} rm {}",
        "xargs --max-args=1 rm",
        "xargs --max-args 1 rm",
        "xargs -i rm {}",
        "find . -name x | xargs -P4 -n1 -- rm",
        "sh -c 'rm x'",
        "bash -c 'rm x'",
        "/bin/bash -c 'rm x'",
        "bash -lc 'rm x'",
        "bash -ec 'rm x'",
        "bash -c -e 'rm x'",
        "bash -e -c 'rm x'",
        "bash --norc -c 'rm x'",
        "bash --rcfile f -c 'rm x'",
        "bash -o pipefail -c 'rm x'",
        "bash -co pipefail 'rm x'",
        "bash -c -- 'rm x'",
        "zsh -c \"true; rm x\"",
        "dash -c 'echo $(rm x)'",
        "ksh -c 'rm x'",
        "bash -c \"bash -c 'rm x'\"",
        "eval rm x",
        "eval 'rm x'",
        "eval \"r\"m x",
        "eval 'true; rm x'",
        "find . -exec rm {} \\;",
        "find . -exec rm {} +",
        "find . -name a -execdir /bin/rm {} ';'",
        "find . -ok rm {} \\;",
        "find . -okdir sudo rm {} \\;",
        "find . -exec sh -c 'rm \"$1\"' _ {} \\;",
        "find . -exec true \\; -exec rm {} \\;",
        "sudo env nice -n 5 timeout 5 nohup rm x",
        "sudo env A=1 bash -c 'nice xargs rm'",
    ];
    let cases: Vec<(&str, Effect)> = denied.iter().map(|text| (*text, Deny)).collect();
    expect(&["allow proc:spawn:*", "deny proc:spawn:rm *"], &cases).await;
}

#[tokio::test]
async fn mentioning_is_not_running() {
    let mentions = [
        "echo rm -rf /",
        "echo 'rm -rf /'",
        "echo \"rm -rf /; rm\"",
        "echo '$(rm x)' '`rm x`'",
        "echo \"\\$(rm x) \\`rm x\\`\"",
        "echo \\$\\(rm x\\)",
        "git commit -m 'remove; rm -rf / is bad'",
        "git commit -m \"$(cat <<'EOF'\ndon't; rm -rf / \"quoted\" `rm x` $(rm x)\nEOF\n)\"",
        "cat <<'EOF'\nrm -rf /\n$(rm x)\nEOF",
        "cat <<\"EOF\"\nrm -rf /\nEOF",
        "cat <<\\EOF\nrm -rf /\n`rm x`\nEOF",
        "cat <<-'EOF'\n\trm -rf /\n\tEOF",
        "cat > notes <<'EOF'\nfirst\nrm -rf /\nEOF\necho done",
        "cat <<EOF\nrm -rf /\nEOF",
        "cat <<EOF\n\\$(rm x) it's \"fine\"\nEOF",
        "true # rm -rf /",
        "true # ; rm -rf /\ntrue",
        "command -v rm",
        "command -V rm",
        "type rm",
        "which rm",
        "rmdir x",
        "/opt/rm/tool x",
        "docker rm x",
        "git rm x",
        "npm rm x",
        "grep -r 'rm -rf' .",
        "ls rm",
        "sudo echo rm",
        "env A=rm true",
        "env -S true rm",
        "timeout 5 echo rm",
        "xargs echo rm",
        "nice -n 5 ls rm",
        "sudo -u rm true",
        "timeout -s rm 5 true",
        "exec -a rm true",
        "find . -name rm -print",
        "find rm -exec ls {} \\; -name rm",
        "bash rm",
        "bash script.sh -c 'rm x'",
        "bash -c 'echo rm'",
        "eval 'echo rm'",
        "for rm in a b; do echo $rm; done",
        "select rm in a b; do echo $rm; done",
        "case rm in rm) true;; esac",
        "function rm { true; }",
        "rm=1 true",
        "echo ${rm} $rm",
        "printf '%s' '<(rm x)'",
        "x=$((rm + 1))",
        "echo ${rm:-default}",
        "echo \"${rm:-a 'b' c}\"; ls",
    ];
    let cases: Vec<(&str, Effect)> = mentions.iter().map(|text| (*text, Allow)).collect();
    expect(&["allow proc:spawn:*", "deny proc:spawn:rm *"], &cases).await;
}

/// What text cannot show. These are allowed by a rule for everything although `rm` is denied, and asked for without one:
/// a deny is a seat belt, and a list of what is allowed is the lock.
#[tokio::test]
async fn what_no_text_shows_is_asked_without_a_rule_for_everything() {
    let hidden = [
        "$X x",
        "/bin/r? x",
        "busybox rm x",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "bash <<'EOF'\nrm -rf /\nEOF",
        "bash <<< 'rm -rf /'",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "trap 'rm x' EXIT",
        "alias ls='rm -rf /'; ls",
        "su -c 'rm x'",
        "ssh host rm x",
        "awk 'BEGIN{system(\"rm x\")}'",
    ];
    let cases: Vec<(&str, Effect)> = hidden.iter().map(|text| (*text, Allow)).collect();
    expect(&["allow proc:spawn:*", "deny proc:spawn:rm *"], &cases).await;
    let cases: Vec<(&str, Effect)> = hidden.iter().map(|text| (*text, Ask)).collect();
    expect(&["allow proc:spawn:ls *", "allow proc:spawn:echo *", "allow proc:spawn:base64 *"], &cases).await;
}

#[tokio::test]
async fn argv_is_decided_by_its_rendering_and_its_candidates() {
    let authority =
        authority(&["allow proc:spawn:*", "deny proc:spawn:rm *", "deny proc:spawn:git push*"]).await;
    for (tokens, expected) in [
        (&["sudo", "rm", "x"][..], Deny),
        (&["/bin/rm", "x"], Deny),
        (&["bash", "-lc", "true; rm x"], Deny),
        (&["find", ".", "-exec", "rm", "{}", ";"], Deny),
        (&["git", "push", "--force"], Deny),
        (&["echo", "; rm x"], Allow),
        (&["echo", "$(rm x)"], Allow),
        (&["git commit", "-m", "rm x"], Allow),
    ] {
        assert_eq!(effect(&authority, &argv(tokens)).await, expected, "{tokens:?}");
    }
    let cargo = authority_with(&["allow proc:spawn:cargo *"], |_| {}).await;
    for (tokens, expected) in [
        (&["cargo", "test"][..], Allow),
        (&["cargo", "; id"], Allow),
        (&["cargo", "$(id)", "`id`", "a\nb"], Allow),
        (&["cargo test"], Ask),
        (&["/tmp/cargo", "test"], Ask),
    ] {
        assert_eq!(effect(&cargo, &argv(tokens)).await, expected, "{tokens:?}");
    }
}

#[tokio::test]
async fn scripts_are_bound_to_their_text() {
    let script = |program: &str, text: &str| Command::Script {
        argv: vec![program.to_owned(), "-s".to_owned()],
        text: text.to_owned(),
    };
    let exact = format!("allow proc:spawn:{}", script("sh", "make").render());
    let bound = authority(&[&exact]).await;
    assert_eq!(effect(&bound, &script("sh", "make")).await, Allow);
    assert_eq!(effect(&bound, &script("sh", "make x")).await, Ask);
    let denied = authority(&["allow proc:spawn:*", "deny proc:spawn:rm *"]).await;
    assert_eq!(effect(&denied, &script("bash", "true\nrm x\n")).await, Deny);
    assert_eq!(effect(&denied, &script("bash", "echo 'rm x'")).await, Allow);
    assert_eq!(effect(&denied, &script("python3", "rm x")).await, Allow);
}

#[tokio::test]
async fn a_named_shell_is_part_of_what_is_asked() {
    let named =
        |shell: &str, text: &str| Command::Line { line: text.to_owned(), shell: Some(PathBuf::from(shell)) };
    let authority = authority(&[
        "allow proc:spawn:cargo *",
        "allow proc:spawn:/bin/bash -c *",
        "allow proc:spawn:/usr/bin/fish -c *",
        "deny proc:spawn:rm *",
        "deny proc:spawn:/bin/ksh *",
    ])
    .await;
    for (shell, text, expected) in [
        ("/bin/bash", "make", Allow),
        ("/bin/bash", "make; id", Ask),
        ("/bin/zsh", "cargo test; cargo run", Allow),
        ("./zsh", "cargo test; cargo run", Ask),
        // A program of that name that lies elsewhere reads a line as it likes.
        ("/ws/zsh", "cargo test", Ask),
        ("/bin/../ws/zsh", "cargo test", Ask),
        ("/usr/bin/fish", "cargo test", Ask),
        ("/bin/bash", "sudo rm x", Deny),
        ("/bin/ksh", "cargo test", Deny),
    ] {
        assert_eq!(effect(&authority, &named(shell, text)).await, expected, "{shell} {text}");
    }
}

#[tokio::test]
async fn a_transport_stands_for_its_command() {
    let authority = authority(&["allow proc:spawn:docker *", "deny proc:spawn:rm *"]).await;
    let transport = |text: &str| argv(&["docker", "exec", "--", "box", "bash", "-lc", text]);
    for (text, expected) in [("sudo rm x", Deny), ("echo rm", Allow)] {
        let logical = line(text);
        assert_eq!(authority.decide_command(&transport(text), Some(&logical)), expected);
        let checked = authority.check_command(&transport(text), Some(&logical), Meta::new()).await;
        assert_eq!(checked.is_ok(), expected == Allow);
        // Its allow rules are those of the transport.
        assert_eq!(authority.decide_command(&transport(text), None), Allow);
    }
}

#[tokio::test]
async fn a_ceiling_holds_lines_as_rules_do() {
    let open = authority(&["allow proc:spawn:*"]).await;
    let under =
        |patterns: &[&str]| open.attenuate(&patterns.iter().map(|text| pattern_of(text)).collect::<Vec<_>>());
    let cargo = under(&["proc:spawn:cargo *"]);
    for (text, inside) in [
        ("cargo test", true),
        ("cargo test; cargo run", true),
        ("cargo test # x", true),
        ("cargo test; id", false),
        ("cargo test $(id)", false),
        ("id", false),
    ] {
        assert_eq!(cargo.decide_command(&line(text), None), if inside { Allow } else { Deny }, "{text}");
        match cargo.check_command(&line(text), None, Meta::new()).await {
            Ok(()) => assert!(inside, "{text}"),
            Err(PermissionError::Denied(denied)) => {
                assert!(!inside && denied.reason == PermissionDenied::OUTSIDE_CEILING, "{text}: {denied}");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(cargo.explain_command(&line(text), None).inside_ceiling, inside);
    }
    for patterns in [&["proc:spawn:*"][..], &["*:**"], &["proc:*:cargo test; id"]] {
        assert_eq!(under(patterns).decide_command(&line("cargo test; id"), None), Allow, "{patterns:?}");
    }
    // A closed store says so first.
    cargo.store().close();
    for text in ["cargo test", "cargo test; id"] {
        let error = cargo.check_command(&line(text), None, Meta::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "grant store store_closed");
    }
}

#[tokio::test]
async fn grants_for_a_run_keep_to_their_ceiling_and_their_text() {
    let rules = |options: &mut GrantStoreOptions| {
        options.run_rules = vec![RunRule {
            rule: rule("allow proc:spawn:cargo *"),
            ceiling: CapabilitySet::of([pattern_of("proc:spawn:cargo t*")]),
        }];
        options.remembered = vec![rule("allow proc:spawn:ls *"), rule("allow proc:spawn:a && b")];
    };
    let authority = authority_with(&["deny proc:spawn:cargo tree*"], rules).await;
    for (text, expected) in [
        ("cargo test", Allow),
        ("cargo run", Ask),
        ("cargo test | ls", Allow),
        ("cargo test; cargo run", Ask),
        ("a && b", Allow),
        ("a && b && c", Ask),
        ("ls; cargo tree", Deny),
    ] {
        assert_eq!(effect(&authority, &line(text)).await, expected, "{text}");
    }
    // What a person answered once is the line, word for word.
    let once = authority.admitting(vec![cap("proc:spawn:x; y"), cap("proc:spawn:cargo tree")]);
    for (text, expected) in [("x; y", Allow), ("x;y", Ask), ("x", Ask), ("cargo tree", Deny)] {
        assert_eq!(once.decide_command(&line(text), None), expected, "{text}");
        assert_eq!(
            once.check_command(&line(text), None, Meta::new()).await.is_ok(),
            expected == Allow,
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_is_too_long_or_too_deep() {
    let any = authority(&["allow proc:spawn:*", "deny proc:spawn:rm *"]).await;
    // Over 4,096 units a line is asked for by its digest, and looked into all the same.
    let long = format!("echo {}; rm x", "a".repeat(5_000));
    assert!(line(&long).capability().resource().starts_with("sha256:"));
    assert_eq!(effect(&any, &line(&long)).await, Deny);
    assert_eq!(effect(&any, &line(&long[..5_000])).await, Allow);
    let echo = authority(&["allow proc:spawn:echo *"]).await;
    assert_eq!(effect(&echo, &line(&format!("echo {}", "a".repeat(4_091)))).await, Allow);
    assert_eq!(effect(&echo, &line(&format!("echo {}", "a".repeat(4_092)))).await, Ask);
    // Its digest is met by no prefix of that name.
    let prefixes =
        authority(&["allow proc:spawn:s*", "allow proc:spawn:?ha256:*", "allow proc:spawn:*:*"]).await;
    let junk = "a".repeat(5_000);
    for command in [line(&format!("rm {junk}")), argv(&["rm", &junk])] {
        assert_eq!(effect(&prefixes, &command).await, Ask);
        let exact = authority(&[&format!("allow {}", command.capability())]).await;
        assert_eq!(effect(&exact, &command).await, Allow);
    }
    // A line of many short commands may be as long as it likes.
    assert_eq!(effect(&echo, &line(&"echo a;\n".repeat(1_000))).await, Allow);
    // A deny that cannot be decided is one.
    let wide = authority(&["allow proc:spawn:*", &format!("deny proc:spawn:{}*", "b?".repeat(2_000))]).await;
    assert_eq!(effect(&wide, &line(&format!("echo {}", "a".repeat(4_300)))).await, Deny);
    // Eight wrappers are looked through; behind nine a command is not known, and that is no yes.
    for (depth, expected) in [(8, Allow), (9, Deny), (40, Deny)] {
        let text = format!("{}true", "nice ".repeat(depth));
        assert_eq!(effect(&any, &line(&text)).await, expected, "{depth}");
        let undecidable = candidates_of_line(&text).undecidable;
        assert_eq!(undecidable, expected == Deny);
    }
    assert_eq!(effect(&any, &line(&format!("{}rm x", "nice ".repeat(8)))).await, Deny);
    let nested = format!("{}x{}", "$(".repeat(40), ")".repeat(40));
    assert!(scan(&nested).too_deep && scan(&nested).opaque);
    assert_eq!(effect(&any, &line(&nested)).await, Deny);
    let nested = format!("{}x{}", "${a:-".repeat(20), "}".repeat(20));
    assert_eq!(effect(&any, &line(&nested)).await, Allow);
}

#[test]
fn the_scanner_takes_words_apart() {
    let segments = |text: &str| scan(text).segments;
    assert_eq!(segments("a 'b c'd\\ e \"f \\\" $g\" ''"), [vec!["a", "b cd e", "f \" $g", ""]]);
    assert_eq!(
        segments("a;b&c&&d||e|f|&g\nh"),
        ["a", "b", "c", "d", "e", "f", "g", "h"].map(|word| vec![word])
    );
    assert_eq!(segments("a 2>&1 b >/dev/null c 3>x"), [vec!["a", "b", "c"]]);
    assert_eq!(segments("a 2 >/dev/null"), [vec!["a", "2"]]);
    assert_eq!(segments("a x2>/dev/null"), [vec!["a", "x2"]]);
    assert_eq!(segments("a '2'>/dev/null"), [vec!["a", "2"]]);
    assert_eq!(segments("a 2&>/dev/null"), [vec!["a", "2"]]);
    assert_eq!(segments("a {} b"), [vec!["a", "{}", "b"]]);
    assert_eq!(segments("cat <<'E'\nx y\nE\nb"), [vec!["cat"], vec!["b"]]);
    assert!(scan("a # b").comment && !scan("a#b").comment && !scan("'#'").comment);
}

#[test]
fn explanations_name_the_text() {
    let plan = Plan::of(&line("true; sudo rm x"), None);
    let verdict = plan.judge(&mut |part| match part {
        flowcell_kernel::process::Part::Text("rm x") => Deny,
        _ => Allow,
    });
    assert_eq!((verdict.effect, verdict.by), (Deny, By::Candidate("rm x".to_owned())));
    assert!(plan.is_narrow());
    assert_eq!(plan.segments(), Some(&["true".to_owned(), "sudo rm x".to_owned()][..]));
}
