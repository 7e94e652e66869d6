//! What a hermetic command cannot do, whatever it is: host contract 5.2.

use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::Duration;

use flowcell_host::HermeticEnforcement;
use flowcell_host::confine::{Enforcement, FileLayer, NetLayer, ReapLayer, probe};
use flowcell_host::process::ProcessError;

use crate::process_world::{Way, World, passes, processes};
use crate::support::{full_volume, skip};

/// The two ways a hermetic command is confined: by a supervisor with namespaces, and by this process alone.
const BOTH: [Way; 2] = [Way::Supervised, Way::Direct];

/// Whether this machine enforces files; every test here needs that.
fn enforced(name: &str) -> bool {
    let works = probe().landlock.works() && probe().seccomp.works();
    if !works {
        skip(name, &format!("{:?}", probe()));
    }
    works
}

/// A workspace with one declared directory of each kind, and a secret beside them.
async fn world(way: Way) -> World {
    let world = World::new(way).await;
    world.place.put("in/given", "given\n");
    world.place.put("in/tool", "#!/bin/sh\necho ran\n");
    world.place.chmod("in/tool", 0o755);
    world.place.put("out/old", "old\n");
    world.place.put("secret", "SECRET\n");
    world.place.chmod("secret", 0o644);
    world.place.put("lib/hidden", "SECRET\n");
    world
}

async fn attempt(world: &World, line: &str) -> crate::process_world::Out {
    let mut request = world.hermetic(line, &["in"], &["out"]);
    request.options.hermetic = HermeticEnforcement::Required;
    world.run(request).await.unwrap()
}

#[tokio::test]
async fn declared_paths_work() {
    if !enforced("declared_paths_work") {
        return;
    }
    for way in BOTH {
        let world = world(way).await;
        for (line, stdout) in [
            ("cat in/given", "given\n"),
            ("ls in", "given\ntool\n"),
            ("in/tool", "ran\n"),
            ("cat out/old; echo new > out/old; cat out/old", "old\nnew\n"),
            ("echo x > out/made && cat out/made && rm out/made && ls out", "x\nold\n"),
            (
                "mkdir out/a out/b && echo y > out/a/f && mv out/a/f out/b/g && ln out/b/g out/h && cat out/b/g out/h",
                "y\ny\n",
            ),
            ("cp in/given out/copy && cat out/copy", "given\n"),
            ("truncate -s 0 out/old; wc -c < out/old", "0\n"),
            (
                "echo z > $TMPDIR/t && cat $TMPDIR/t && mkdir $TMPDIR/d && test -w $TMPDIR && echo yes",
                "z\nyes\n",
            ),
            ("echo gone > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c", "3\n3\n"),
            ("python3 -c 'print(open(\"in/given\").read(), end=\"\")'", "given\n"),
            ("perl -e 'open(F, \">out/p\"); print F \"p\\n\"; close F'; cat out/p", "p\n"),
            ("test -r /etc/hostname -o -r /etc/passwd && echo etc", "etc\n"),
            ("cat <(echo fed)", "fed\n"),
            ("echo a | cat /dev/stdin", "a\n"),
        ] {
            let out = attempt(&world, line).await;
            assert_eq!((out.code, out.stdout.as_str()), (Some(0), stdout), "{way:?}: {line}: {}", out.stderr);
        }
        if way == Way::Supervised {
            // Each process its own.
            let out = attempt(&world, "sh -c 'grep -c ^Name: /proc/self/status'; cat /proc/self/comm").await;
            assert_eq!(out.stdout, "1\ncat\n", "{}", out.stderr);
        }
    }
}

#[tokio::test]
async fn modes_of_declared_writes_change_where_a_namespace_keeps_the_others() {
    if !enforced("modes_of_declared_writes") {
        return;
    }
    let world = world(Way::Supervised).await;
    let out = attempt(&world, "chmod 700 out/old && touch -d 2001-01-01 out/old && stat -c %a out/old").await;
    match out.enforcement {
        Some(Enforcement { net: NetLayer::Namespace, reap: ReapLayer::PidNamespace, .. }) => {
            assert_eq!(out.stdout, "700\n", "{out:?}");
        }
        other => skip("modes_of_declared_writes", &format!("{other:?}")),
    }
}

#[tokio::test]
async fn the_private_directory_is_removed() {
    for way in BOTH {
        let world = world(way).await;
        let out =
            attempt(&world, "echo $TMPDIR; mkdir -p $TMPDIR/a/b; echo x > $TMPDIR/a/b/c; test -O $TMPDIR")
                .await;
        assert_eq!(out.code, Some(0), "{out:?}");
        let path = out.stdout.trim();
        assert!(path.starts_with("/tmp/flowcell-") && !Path::new(path).exists(), "{path}");
        // Where the host says, and also when the command runs out of time.
        world.place.dir("temp");
        let mut request = world.hermetic("echo $TMPDIR; sleep 60", &[], &[]);
        request.timeout = Duration::from_millis(300);
        request.options.temp = Some(world.place.path("temp"));
        let out = world.run(request).await.unwrap();
        assert!(out.code.is_none() && out.stdout.starts_with(&world.root()), "{out:?}");
        assert!(world.place.names("temp").is_empty());
    }
}

/// Both ways at full volume, else one after the other; a part of the lines for another user, who runs them besides.
#[allow(clippy::disallowed_methods)] // tests read the environment
fn ways(at: usize) -> Vec<Way> {
    match (full_volume(), std::env::var_os("FLOWCELL_SUPERVISOR")) {
        (true, _) => BOTH.to_vec(),
        (false, None) => vec![BOTH[at % 2]],
        (false, Some(_)) if at.is_multiple_of(5) => vec![BOTH[at / 5 % 2]],
        (false, Some(_)) => Vec::new(),
    }
}

/// Lines that are not for a machine that nothing confines.
fn harmless(line: &&&str) -> bool {
    !["mount", "unshare", "-outside", "chattr", "-1", "mknod"].iter().any(|word| line.contains(word))
}

/// The lines do what they try where nothing confines them: else they would show nothing.
#[tokio::test]
async fn the_attempts_are_real() {
    let (mut reads, mut changes) = (Vec::new(), Vec::new());
    // A part of them at a time, as the others are spared.
    let every = if full_volume() { 1 } else { 4 };
    for line in READS.iter().filter(harmless).step_by(every) {
        let world = world(Way::Direct).await;
        if !world.line(line).await.stdout.contains("SECRET") {
            reads.push(*line);
        }
    }
    for line in WRITES.iter().chain(METADATA).filter(harmless).step_by(every) {
        let world = world(Way::Direct).await;
        let before = state(&world);
        world.line(line).await;
        if before == state(&world) {
            changes.push(*line);
        }
    }
    // What needs a tool or a right that a machine may lack, or is stopped by something else.
    let spared = ["busybox", "setfattr", "setxattr", "chown", "chgrp", "/proc/1/"];
    let idle = |lines: Vec<&'static str>| -> Vec<&'static str> {
        lines.into_iter().filter(|line| !spared.iter().any(|word| line.contains(word))).collect()
    };
    assert_eq!((idle(reads), idle(changes)), (Vec::new(), Vec::new()));
}

/// Each line tries to get at the secret; none may.
const READS: &[&str] = &[
    "cat secret",
    "d=secret; cat $d",
    "cat ./in/../secret",
    "cat $PWD/secret",
    "cat sec*",
    "eval 'cat se''cret'",
    "read -r x < secret; echo $x",
    "python3 -c 'print(open(\"sec\" + \"ret\").read())'",
    "perl -e 'open(F, \"<\", \"sec\".\"ret\"); print <F>'",
    "cp /bin/cat out/harmless && out/harmless secret",
    "cp /usr/bin/python3 out/py && out/py -c 'print(open(\"secret\").read())'",
    "ln -s ../secret out/link && cat out/link",
    "ln secret out/hard && cat out/hard",
    "ln -L secret out/hard && cat out/hard",
    "mv secret out/moved && cat out/moved",
    "cp secret out/copy && cat out/copy",
    "exec 5< secret; cat <&5",
    "dd if=secret 2>&1",
    "tar cf - secret 2>&1 | tr -d '\\0'",
    "find . -name hidden -exec cat {} +",
    "grep -r SECR . 2>&1",
    "python3 -c 'import mmap,os; f=os.open(\"secret\",os.O_RDONLY); print(mmap.mmap(f,0,prot=mmap.PROT_READ)[:])'",
    "python3 -c 'import os; d=os.open(\".\",os.O_PATH); print(os.read(os.open(\"secret\",os.O_RDONLY,dir_fd=d),99))'",
    "python3 -c 'import os; f=os.open(\"secret\",os.O_PATH); print(open(\"/proc/self/fd/%d\"%f).read())'",
    "setsid cat secret",
    "nohup cat secret",
    "env -i /bin/cat secret",
    "sh -c 'sh -c \"cat secret\"'",
    "cat /proc/self/cwd/secret",
    "cat /proc/1/cwd/secret /proc/$PPID/cwd/secret /proc/1/root$PWD/secret",
    "unshare -Ur cat secret",
    "unshare -Urm sh -c 'mount --bind . /mnt && cat /mnt/secret'",
    "busybox cat secret",
];

#[tokio::test]
async fn nothing_undeclared_is_read() {
    if !enforced("nothing_undeclared_is_read") {
        return;
    }
    for (at, line) in READS.iter().enumerate() {
        for way in ways(at) {
            let world = world(way).await;
            let out = attempt(&world, line).await;
            // `SECRET` as an argument of the line is not printed by a shell that fails.
            assert!(!out.stdout.contains("SECRET"), "{way:?}: {line}: {out:?}");
            assert_eq!(world.place.text("secret"), "SECRET\n", "{way:?}: {line}");
        }
    }
    // The contract's own case.
    let world = world(Way::Supervised).await;
    let out = world.run(world.hermetic("d=secret; cat $d", &["a"], &[])).await.unwrap();
    assert_eq!(out.code, Some(1));
    assert!(out.stderr.contains("Permission denied"), "{out:?}");
    // Without declared reads there is no listing either.
    let out = world.run(world.hermetic("ls .", &[], &[])).await.unwrap();
    assert_eq!((out.code, out.stdout.as_str()), (Some(2), ""), "{out:?}");
}

/// Each line tries to change something outside `out`; none may.
const WRITES: &[&str] = &[
    "echo x > secret",
    "d=secret; echo x >> $d",
    "echo x > made",
    "echo x > in/given",
    "echo x > in/made",
    "mkdir made",
    "rm -f secret",
    "rm -rf lib in",
    "mv secret gone",
    "mv out/old .",
    "mv out/old in/",
    "mv in/given out/",
    "ln out/old hard",
    "ln in/given out/given && echo x > out/given",
    "ln -s x made",
    "truncate -s 0 secret",
    "mkfifo made",
    "mknod made p",
    "rmdir lib; rm -r lib",
    "cp out/old secret",
    "sed -i s/SECRET/x/ secret",
    "python3 -c 'open(\"secret\", \"w\").write(\"x\")'",
    "python3 -c 'import os; os.rename(\"out/old\", \"secret\")'",
    "python3 -c 'import os; os.truncate(\"secret\", 0)'",
    "python3 -c 'import os; os.link(\"secret\", \"out/l\"); open(\"out/l\", \"w\").write(\"x\")'",
    "python3 -c 'import os,ctypes; c=ctypes.CDLL(None); c.renameat2(-100, b\"out/old\", -100, b\"secret\", 2)'",
    "perl -e 'unlink \"secret\"; open(F, \">made\"); print F 1'",
    "cp /bin/rm out/harmless && out/harmless -f secret",
    "cp /usr/bin/tee out/t && echo x | out/t secret",
    "cp /bin/mv out/m && out/m secret gone",
    "ln -s ../secret out/link && echo x > out/link",
    "cd out && echo x > ../secret",
    "echo x > $PWD/secret",
    "unshare -Ur sh -c 'echo x > secret'",
    "unshare -Urm sh -c 'mount -t tmpfs none lib; mount --bind out lib; mount -o remount,rw / ; echo x > secret'",
    "mount -o remount,rw /; mount --bind out lib; umount -l /; echo x > secret",
    "echo x > /tmp/flowcell-outside; echo x > /dev/shm/flowcell-outside; echo x > /etc/flowcell-outside",
    "dd if=/dev/zero of=secret bs=1 count=1",
    "setsid sh -c 'echo x > secret'",
];

/// Each line tries to change the metadata of something outside `out`.
const METADATA: &[&str] = &[
    "chmod 777 secret in in/given .",
    "chmod -R 777 .",
    "touch -d 2001-01-01 secret in/given .",
    "touch -d 2001-01-01 lib",
    "chown 12:12 secret in/given",
    "chgrp 12 secret in/given",
    "chown -h 12 secret",
    "setfattr -n user.x -v y secret in/given",
    "python3 -c 'import os; os.chmod(\"secret\", 0o777)'",
    "python3 -c 'import os; os.fchmod(os.open(\"in/given\", os.O_RDONLY), 0o777)'",
    "python3 -c 'import os; os.utime(\"secret\", (1, 1))'",
    "python3 -c 'import os; os.setxattr(\"in/given\", \"user.x\", b\"y\")'",
    "python3 -c 'import os; os.chown(\"secret\", 12, 12)'",
    "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(452, -100, b\"secret\", 0o777, 0)'",
    "perl -e 'chmod 0777, \"secret\"; utime 1, 1, \"secret\"'",
    "chattr +i in/given",
    "cp /bin/chmod out/harmless && out/harmless 777 secret",
    "unshare -Ur chmod 777 secret",
    "unshare -Urm sh -c 'mount -o remount,bind,rw .; mount -o remount,rw /; chmod 777 secret'",
];

/// Everything of the workspace but `out`: kinds, contents, modes, owners, times, attributes, links.
fn state(world: &World) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = Vec::new();
    let mut open = vec![world.place.root()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let times = (!path.ends_with("out")).then_some((meta.mtime(), meta.mtime_nsec()));
        let links = meta.is_file().then(|| meta.nlink());
        let bytes = meta.is_file().then(|| fs::read(&path).unwrap());
        let attributes = attributes(&path);
        found.push(format!(
            "{} {:o} {} {} {times:?} {links:?} {attributes:?} {bytes:?}",
            path.display(),
            meta.mode(),
            meta.uid(),
            meta.gid(),
        ));
        if meta.is_dir() && !path.ends_with("out") {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn attributes(path: &Path) -> usize {
    let mut names = [0_u8; 1_024];
    rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0)
}

#[tokio::test]
async fn nothing_undeclared_is_changed() {
    if !enforced("nothing_undeclared_is_changed") {
        return;
    }
    for (at, line) in WRITES.iter().chain(METADATA).enumerate() {
        for way in ways(at) {
            let world = world(way).await;
            let before = state(&world);
            let out = attempt(&world, line).await;
            let enforcement = out.enforcement.unwrap();
            assert!(enforcement.metadata, "{enforcement}");
            assert_eq!(before, state(&world), "{way:?}: {line}: {out:?}");
            // The declared writes changed at most: what could be moved away or broken was not the neighbours'.
            for outside in ["/tmp/flowcell-outside", "/dev/shm/flowcell-outside", "/etc/flowcell-outside"] {
                assert!(!Path::new(outside).exists(), "{way:?}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_outside_is_reached() {
    if !enforced("nobody_outside_is_reached") {
        return;
    }
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let mut sleeper = Sleeper::new();
    let victim = sleeper.0.id();
    for way in BOTH {
        let world = world(way).await;
        let file = UnixListener::bind(world.place.path("in/socket")).unwrap();
        let datagrams = UnixDatagram::bind(world.place.path("lib/datagrams")).unwrap();
        let name = format!("flowcell-test-{}-{way:?}", std::process::id());
        let address =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name)
                .unwrap();
        let hidden = UnixListener::bind_addr(&address).unwrap();
        for listener in [&file, &hidden] {
            listener.set_nonblocking(true).unwrap();
        }
        datagrams.set_nonblocking(true).unwrap();
        let python = |body: &str| format!("python3 -c 'import socket as s, os\n{body}'");
        let lines = [
            format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}"),
            format!("echo x > /dev/udp/127.0.0.1/{udp_port}"),
            python(&format!("s.create_connection((\"127.0.0.1\", {tcp_port})).send(b\"x\")")),
            python(&format!("s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp_port}))")),
            python(&format!("s.socket(s.AF_INET6, s.SOCK_DGRAM).sendto(b\"x\", (\"::ffff:127.0.0.1\", {udp_port}))")),
            python("s.socket(s.AF_UNIX).connect(\"in/socket\")"),
            python("s.socket(s.AF_UNIX, s.SOCK_DGRAM).sendto(b\"x\", \"lib/datagrams\")"),
            python(&format!("s.socket(s.AF_UNIX).connect(\"\\0{name}\")")),
            python("s.socket(s.AF_NETLINK, s.SOCK_RAW, 0)\nprint(\"got\")"),
            python("s.socket(s.AF_PACKET, s.SOCK_RAW, 0)\nprint(\"got\")"),
            python("s.socket(s.AF_VSOCK, s.SOCK_STREAM)\nprint(\"got\")"),
            python("s.socket(s.AF_INET, s.SOCK_STREAM, 262)\nprint(\"got\")"),
            python("s.socket(43, s.SOCK_STREAM)\nprint(\"got\")"),
            python("s.socket(s.AF_ALG, s.SOCK_SEQPACKET)\nprint(\"got\")"),
            format!("perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 6) or die; connect(S, sockaddr_in({tcp_port}, INADDR_LOOPBACK)) or die; print \"got\"'"),
            format!("cp /usr/bin/python3 out/p && out/p -c 'import socket; socket.create_connection((\"127.0.0.1\", {tcp_port})); print(\"got\")'"),
            format!("kill -9 {victim} && echo got"),
            format!("kill -TERM {victim} && echo got"),
            format!("python3 -c 'import os; os.kill({victim}, 9); print(\"got\")'"),
            format!("perl -e 'print \"got\" if kill 9, {victim}'"),
            format!("cp /bin/kill out/k; out/k -9 {victim} && echo got"),
            format!("python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open({victim}), 9); print(\"got\")'"),
            format!("cat /proc/{victim}/environ /proc/{victim}/cmdline && echo got"),
            format!("python3 -c 'import ctypes; c=ctypes.CDLL(None); print(\"got\" if c.ptrace(16, {victim}, 0, 0) == 0 else \"\")'"),
            "kill -9 -1; true".to_owned(),
            "python3 -c 'import ctypes; c=ctypes.CDLL(None); print(\"got\" if c.syscall(425, 8, bytes(120)) >= 0 else \"\")'".to_owned(),
            "python3 -c 'import ctypes; c=ctypes.CDLL(None); print(\"got\" if c.syscall(321, 0, bytes(120), 72) >= 0 else \"\")'".to_owned(),
            "python3 -c 'import ctypes; c=ctypes.CDLL(None); print(\"got\" if c.syscall(250, 0, -3, 1) >= 0 else \"\")'".to_owned(),
        ];
        for line in &lines {
            let out = attempt(&world, line).await;
            assert!(!out.stdout.contains("got"), "{way:?}: {line}: {out:?}");
            let enforcement = out.enforcement.unwrap();
            assert_ne!(enforcement.net, NetLayer::None);
            assert!(
                tcp.accept().is_err() && file.accept().is_err() && hidden.accept().is_err(),
                "{way:?}: {line}: connected"
            );
            let mut bytes = [0; 8];
            assert!(
                udp.recv(&mut bytes).is_err() && datagrams.recv(&mut bytes).is_err(),
                "{way:?}: {line}: received"
            );
            assert!(sleeper.0.try_wait().unwrap().is_none(), "{way:?}: {line}: killed");
            if let Some(line) = line.strip_suffix("; true") {
                assert!(line.contains("-1"), "{line}");
            }
        }
        // What reaches nobody is there.
        let out = attempt(&world, &python("a, b = s.socketpair()\na.send(b\"x\")\nprint(b.recv(1))")).await;
        assert_eq!(out.stdout, "b'x'\n", "{out:?}");
    }
}

/// A process outside of every call.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Self {
        let null = std::process::Stdio::null;
        let mut sleep = std::process::Command::new("sleep");
        Sleeper(sleep.arg("300").stdin(null()).stdout(null()).stderr(null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn what_was_applied_is_what_is_reported() {
    let probed = processes().supervisor.unwrap().probe();
    for (layer, standing) in probed.layers() {
        println!("measured: layer {layer}: {standing:?}");
        if !standing.works() {
            skip(layer, &format!("{standing:?}"));
        }
    }
    if !enforced("what_was_applied_is_what_is_reported") {
        return;
    }
    let with = world(Way::Supervised).await;
    let out = attempt(&with, "true").await;
    let enforcement = out.enforcement.unwrap();
    println!("measured: with a supervisor: {enforcement}");
    assert!(matches!(enforcement.fs, FileLayer::Landlock { abi } if abi >= 3) && enforcement.metadata);
    assert_eq!(enforcement.net == NetLayer::Namespace, probed.network.works());
    assert_eq!(enforcement.reap == ReapLayer::PidNamespace, probed.pid.works());
    let without = world(Way::Direct).await;
    let out = attempt(&without, "true").await;
    let alone = out.enforcement.unwrap();
    println!("measured: without a supervisor: {alone}");
    assert_eq!((alone.fs, alone.net, alone.reap), (enforcement.fs, NetLayer::Seccomp, ReapLayer::Group));
    // The layers are the kernel's to see, too.
    let out = attempt(
        &with,
        "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status; ls /proc | grep -c '^[0-9]'",
    )
    .await;
    assert!(out.stdout.contains("NoNewPrivs:\t1\nSeccomp:\t2\n"), "{out:?}");
    // A command that is not confined says nothing.
    let out = with.run(with.request("true")).await.unwrap();
    assert_eq!(out.enforcement, None);
}

#[tokio::test]
async fn a_write_that_no_rule_can_name_starts_nothing() {
    let world = world(Way::Supervised).await;
    let outcome = world.run(world.hermetic("echo > made", &[], &["new/file"])).await;
    let Err(ProcessError::OutsideWrites { path }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(path, format!("{}/new/file", world.root()));
    assert!(!world.place.path("made").exists());
    // In a declared directory it is fine, and a declared file alone is that file.
    let out =
        world.run(world.hermetic("echo x > out/new && cat out/new", &[], &["out", "out/new"])).await.unwrap();
    assert_eq!(out.stdout, "x\n", "{out:?}");
    let out =
        world.run(world.hermetic("echo y > out/old; echo z > out/other", &[], &["out/old"])).await.unwrap();
    assert_eq!(out.code, Some(1), "{out:?}");
    assert_eq!(world.place.text("out/old"), "y\n");
    assert!(!world.place.path("out/other").exists());
}

#[tokio::test]
async fn what_leaves_a_hermetic_command_ends_with_it() {
    let world = world(Way::Supervised).await;
    for line in [
        "setsid sleep 60 & echo hi",
        "(setsid setsid sleep 60 &) & sleep 0.1; echo hi",
        "trap '' TERM; nohup sleep 60 & echo hi",
    ] {
        let out = attempt(&world, line).await;
        assert!(out.stdout.ends_with("hi\n") && out.took < Duration::from_secs(2), "{line}: {out:?}");
        world.nothing_left(line);
    }
}

#[test]
fn all_of_it_holds_for_an_unprivileged_user() {
    if !rustix::process::geteuid().is_root() {
        return; // Then every other test has shown it.
    }
    // The program, where that user can reach it.
    let dir = tempfile::Builder::new().prefix("flowcell-unprivileged").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let suite = dir.path().join("suite");
    fs::copy(std::env::current_exe().unwrap(), &suite).unwrap();
    let supervisor = dir.path().join("flowcell-supervisor");
    fs::copy(env!("CARGO_BIN_EXE_flowcell-supervisor"), &supervisor).unwrap();
    let mut run = std::process::Command::new("setpriv");
    run.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&suite);
    run.args(["confine::", "process::codes", "--skip", "all_of_it", "--test-threads=3"]);
    run.env("FLOWCELL_SUPERVISOR", &supervisor).env("TMPDIR", "/tmp").current_dir("/");
    let output = run.arg("--nocapture").output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("test result: ok."), "{text}");
    for line in text.lines().filter(|line| line.contains("supervisor: ") && line.contains("measured: ")) {
        println!("measured: as user 65534: {}", line.rsplit("measured: ").next().unwrap());
    }
}

#[test]
fn required_refuses_rather_than_degrades() {
    // Under a filter that refuses Landlock, as an older kernel would.
    passes("confine::without_landlock", &[]);
}

#[tokio::test]
#[ignore = "run by required_refuses_rather_than_degrades, alone in its process"]
async fn without_landlock() {
    if !enforced_without_landlock() {
        return;
    }
    for way in BOTH {
        let world = world(way).await;
        let mut request = world.hermetic("echo > out/made", &["in"], &["out"]);
        request.options.hermetic = HermeticEnforcement::Required;
        let outcome = world.run(request).await;
        assert!(
            matches!(&outcome, Err(ProcessError::Unavailable(why)) if why.contains("its files")),
            "{outcome:?}"
        );
        assert!(!world.place.path("out/made").exists());
        world.nothing_left("a refused command");
        // By default it runs, and the record says what was missing.
        let out =
            world.run(world.hermetic("cat secret; echo x > out/made", &["in"], &["out"])).await.unwrap();
        assert_eq!(out.code, Some(0), "{out:?}");
        assert_eq!(out.enforcement.unwrap().fs, FileLayer::None);
        assert_ne!(out.enforcement.unwrap().net, NetLayer::None);
    }
}

#[test]
fn without_namespaces_the_other_layers_take_their_place() {
    passes("confine::without_namespaces", &[]);
}

#[tokio::test]
#[ignore = "run by without_namespaces_the_other_layers_take_their_place, alone in its process"]
async fn without_namespaces() {
    // unshare
    refuse_calls(&[if cfg!(target_arch = "x86_64") { 272 } else { 97 }]);
    if !enforced("without_namespaces") {
        return;
    }
    let world = world(Way::Supervised).await;
    let out = attempt(&world, "chmod 777 secret out/old; cat secret; cat in/given; setsid sleep 60 &").await;
    assert_eq!(out.stdout, "given\n", "{out:?}");
    let enforcement = out.enforcement.unwrap();
    println!("measured: supervisor without namespaces: {enforcement}");
    assert!(matches!(enforcement.fs, FileLayer::Landlock { .. }) && enforcement.metadata);
    assert_eq!((enforcement.net, enforcement.reap), (NetLayer::Seccomp, ReapLayer::Subreaper));
    assert_eq!((world.place.mode("secret"), world.place.mode("out/old")), (0o644, 0o644));
    world.nothing_left("a command without namespaces");
    // It cannot end what is to end it.
    let out = attempt(&world, "kill -9 $PPID; echo alive; setsid sleep 60 &").await;
    assert_eq!(out.stdout, "alive\n", "{out:?}");
    world.nothing_left("a command that attacks its supervisor");
}

/// Makes Landlock fail for this process and all it starts.
fn enforced_without_landlock() -> bool {
    refuse_calls(&[444, 445, 446]);
    !probe().landlock.works()
}

/// Makes system calls fail for this process and all it starts, as on a kernel that lacks them.
fn refuse_calls(numbers: &[i64]) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let calls = numbers.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(38), arch).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}
