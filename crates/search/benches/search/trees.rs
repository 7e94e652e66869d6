//! Trees to search: real ones made of registry sources, and generated ones.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of the npm registry with many source files.
const NPM: [&str; 5] = ["date-fns", "core-js", "rxjs", "lodash", "typescript"];

/// The trees that were named, or else two made of what the registries' own clients have fetched.
pub(crate) fn real() -> Vec<PathBuf> {
    let named: Vec<PathBuf> = env::args_os()
        .skip(1)
        .filter(|arg| !arg.to_string_lossy().starts_with('-'))
        .map(PathBuf::from)
        .collect();
    if !named.is_empty() {
        return named;
    }
    if let Some(named) = env::var_os("FLOWCELL_BENCH_TREES") {
        return env::split_paths(&named).collect();
    }
    vec![crates(), packages()]
}

pub(crate) fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("search").join(name)
}

/// Makes a tree once: it is put in place when it is whole.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let done = place(name);
    if !done.exists() {
        println!("making {name}");
        let making = place(&format!("{name}.part"));
        let _ = fs::remove_dir_all(&making);
        fs::create_dir_all(&making).unwrap();
        make(&making);
        fs::rename(&making, &done).unwrap();
    }
    done
}

/// Every crate that cargo has in its cache, unpacked.
fn crates() -> PathBuf {
    once("crates", |into| {
        let home = env::var_os("CARGO_HOME").map_or_else(
            || PathBuf::from(env::var_os("HOME").expect("a home directory")).join(".cargo"),
            PathBuf::from,
        );
        for registry in fs::read_dir(home.join("registry/cache")).expect("cargo's cache") {
            for archive in fs::read_dir(registry.unwrap().path()).unwrap() {
                let archive = archive.unwrap().path();
                if archive.extension() == Some(OsStr::new("crate")) {
                    run(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(into));
                }
            }
        }
    })
}

/// Some npm packages, outside a directory of that name, which no search enters.
fn packages() -> PathBuf {
    once("packages", |into| {
        fs::write(into.join("package.json"), "{\"private\": true}\n").unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(npm.args(NPM).current_dir(into));
        fs::rename(into.join("node_modules"), into.join("sources")).unwrap();
    })
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// `files` files of a few lines in directories of a hundred, four matches in each.
pub(crate) fn generated(files: usize) -> PathBuf {
    once(&format!("generated-{files}"), |into| {
        let text = "fn one() {\n    let needle = 1;\n}\n\n// a needle\nfn two() {\n    needle();\n    needle();\n}\n";
        for number in 0..files {
            let dir = into.join(format!("{:02}/{:04}", number / 10_000, number / 100));
            if number % 100 == 0 {
                fs::create_dir_all(&dir).unwrap();
            }
            fs::write(dir.join(format!("f{:02}.rs", number % 100)), text).unwrap();
        }
    })
}

/// One file of so many MiB with ordinary lines, the last of which matches.
pub(crate) fn long_file(mebibytes: usize) -> PathBuf {
    once(&format!("long-{mebibytes}"), |into| {
        let line = "    let value = compute(first, second, third); // an ordinary line of code\n";
        let mut text = line.repeat((mebibytes << 20) / line.len());
        text.push_str("the needle\n");
        fs::write(into.join("long.rs"), text).unwrap();
    })
}

/// One file of so many MiB in one line.
pub(crate) fn one_line(mebibytes: usize) -> PathBuf {
    once(&format!("line-{mebibytes}"), |into| {
        fs::write(into.join("line"), vec![b'a'; mebibytes << 20]).unwrap();
    })
}

/// A directory 500 levels deep with files on the way, beside a directory of 50,000 files.
pub(crate) fn odd() -> PathBuf {
    once("odd", |into| {
        let wide = into.join("wide");
        fs::create_dir(&wide).unwrap();
        for number in 0..50_000 {
            fs::write(wide.join(format!("file-{number}")), "needle\n").unwrap();
        }
        let mut deep = into.join("deep");
        for _ in 0..500 {
            fs::create_dir(&deep).unwrap();
            fs::write(deep.join("a"), "x\n").unwrap();
            fs::write(deep.join("z"), "needle\n").unwrap();
            deep.push("d");
        }
    })
}

/// Regular files of a tree.
pub(crate) fn files(tree: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(tree).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            count += files(&entry.path());
        } else {
            count += usize::from(kind.is_file());
        }
    }
    count
}
