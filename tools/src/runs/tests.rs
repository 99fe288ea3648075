//! Reading both forms of a run, and what `sluice compare` and `sluice plot` say: `db-bench DB21`.

use std::path::{Path, PathBuf};

use super::RunRecord;

/// Exit code, stdout and stderr of sluice.
fn sluice(args: &[&str]) -> (u8, String, String) {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = crate::sluice::run(&args, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Sixty rows around 1000, not all alike.
fn csv(share: u64) -> String {
    let row = |second: u64| format!("{second},{}\n", (1000 + second * 37 % 101) * share / 100);
    "secs_elapsed,interval_qps\n".to_owned() + &(1..=60).map(row).collect::<String>()
}

/// `db-bench DB21`: a run compared with itself is no worse; against its half it is, and the sentences say so. Both forms of a run
/// of db_bench are read, and agree on mean and deviation.
///
/// Method: a run of db_bench itself writes both files; the halved rows are a copy.
#[test]
fn compare_says_which_is_better() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (json, rows, db) = (path("r.jsonl"), path("r.csv"), path("db"));
    let args = [
        "--benchmarks=fillrandom",
        "--num=100000000",
        "--duration=3",
        "--report_interval_seconds=1",
        &format!("--json={json}"),
        &format!("--report_file={rows}"),
        &format!("--db={db}"),
    ]
    .map(str::to_owned);
    assert_eq!(crate::db_bench::run(&args, std::io::sink(), std::io::sink(), false), 0);

    let (code, out, err) = sluice(&["compare", &json, &json, "--fail-if-worse=0%"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("### fillrandom ("), "{out}");
    // A loaded machine may leave fewer than the two rows that a deviation needs.
    for word in ["| mean", "P99", "peak memtable memory", "| 1.000 |"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    let (from_json, from_csv) =
        (RunRecord::read(json.as_ref()).unwrap(), RunRecord::read(rows.as_ref()).unwrap());
    let ops = |run: &RunRecord| -> Vec<u64> {
        run.series[0].samples.iter().filter(|sample| !sample.part).map(|sample| sample.ops).collect()
    };
    assert_eq!(ops(&from_json), ops(&from_csv));
    assert!(!ops(&from_csv).is_empty());
    assert_eq!(from_json.argv.as_deref().unwrap(), args);
    let (code, out, _) = sluice(&["compare", &json, &rows]);
    assert_eq!(code, 0, "{out}");

    let whole = write(dir.path(), "whole.csv", &csv(100));
    let half = write(dir.path(), "half.csv", &csv(50));
    let (whole, half) = (whole.to_str().unwrap(), half.to_str().unwrap());
    let (code, out, _) = sluice(&["compare", whole, half, "--fail-if-worse=5%"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("**half.csv is slower than whole.csv by 50.0 %**"), "{out}");
    assert!(out.contains("more than noise") && out.contains("by more than the 5 % allowed"), "{out}");
    for row in ["| mean (ops/s) | **", "| std (ops/s) | ", "| cv | ", "| p1 (ops/s) | **"] {
        assert!(out.contains(row), "{row}: {out}");
    }
    let (code, out, _) = sluice(&["compare", half, whole, "--fail-if-worse", "5"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("whole.csv is faster"), "{out}");
}

/// `db-bench DB21`: both forms are drawn, as SVG and as a page; another ending is refused.
#[cfg(feature = "plot")]
#[test]
fn plot_draws_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let rows = write(dir.path(), "r.csv", &csv(100));
    let sample = |s: u32| {
        format!(
            "{{\"t\":\"sample\",\"bench\":\"fillrandom\",\"s\":{s}.001,\"ops\":1000,\"p50\":3,\"p99\":9,\"max\":null,\
             \"wbm\":{{\"usage\":7,\"quota\":10,\"mutable\":3,\"sealed\":4,\"flushing\":0,\"state\":\"delayed\",\
             \"step\":5,\"rate\":100}},\"delay_us\":9,\"stop_us\":0,\"l0\":[1,2],\"pending_bytes\":0,\"rss\":5}}\n"
        )
    };
    let data = write(dir.path(), "r.jsonl", &(1..9).map(sample).collect::<String>());
    for input in [&rows, &data] {
        for (name, begin) in [("o.svg", "<svg"), ("o.html", "<!DOCTYPE html>")] {
            let out = dir.path().join(name);
            let (code, stdout, err) = sluice(&["plot", input.to_str().unwrap(), "-o", out.to_str().unwrap()]);
            assert_eq!((code, stdout.as_str()), (0, ""), "{err}");
            assert!(std::fs::read_to_string(&out).unwrap().starts_with(begin));
        }
    }
    let (code, _, err) = sluice(&["plot", rows.to_str().unwrap(), "-o", "x.png"]);
    assert!(
        code == 1 && err.starts_with("Failed: Invalid argument: cannot write x.png: a picture ends in .svg"),
        "{err}"
    );
    let both = [rows.to_str().unwrap(), data.to_str().unwrap()];
    let out = dir.path().join("both.svg");
    assert_eq!(sluice(&["compare", both[0], both[1], "-o", out.to_str().unwrap()]).0, 0);
    assert!(out.exists());
}

/// What is no run is refused with file and line; nothing panics.
#[test]
fn what_is_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (text, wrong) in [
        ("", "line 1: found '', expected the header"),
        ("a,b\n1,2\n", "line 1: found 'a,b', expected the header"),
        ("secs_elapsed,interval_qps\n1;2\n", "line 2: '1;2' is no row"),
        ("secs_elapsed,interval_qps\n1,-2\n", "line 2: '1,-2' is no row"),
        ("secs_elapsed,interval_qps\n", "holds no sample"),
        ("{\"t\":\"sample\",\"s\":1}\n", "line 1: a sample without"),
        ("{\"t\":\"system\"}\n{\"t\":\n", "line 2: no JSON"),
        ("{}\n", "line 1: an object without 't'"),
        ("{\"t\":\"system\"}\n", "holds no sample"),
    ] {
        let path = write(dir.path(), "bad", text);
        let error = RunRecord::read(&path).unwrap_err();
        assert!(error.contains(wrong) && error.contains(path.to_str().unwrap()), "{text:?}: {error}");
    }
    std::fs::write(dir.path().join("bytes"), [0xFF, 0]).unwrap();
    assert!(RunRecord::read(&dir.path().join("bytes")).unwrap_err().contains("byte 0 is not UTF-8"));
    let (code, _, err) = sluice(&["compare", "no-such-file", "no-such-file"]);
    assert!(code == 1 && err.starts_with("Failed: IO error: cannot read no-such-file"), "{err}");
    assert_eq!(sluice(&["compare", "one"]).0, 2);
    assert_eq!(sluice(&["compare", "a", "b", "--fail-if-worse=x"]).0, 2);
}

/// A benchmark that ran three times is three series, compared as one; benchmarks that only one run has are not compared.
#[test]
fn repeats_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    let sample =
        |bench: &str, s: u32| format!("{{\"t\":\"sample\",\"bench\":\"{bench}\",\"s\":{s},\"ops\":10}}\n");
    let repeat = |bench: &str| sample(bench, 1) + &sample(bench, 2);
    let a = write(dir.path(), "a", &(repeat("fillrandom") + &repeat("fillrandom") + &repeat("overwrite")));
    let b = write(dir.path(), "b", &repeat("fillrandom"));
    assert_eq!(RunRecord::read(&a).unwrap().series.len(), 3);
    let (code, out, _) = sluice(&["compare", a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(out.contains("### fillrandom (4 and 2 intervals)") && !out.contains("overwrite"), "{out}");
    let c = write(dir.path(), "c", &repeat("readrandom"));
    let (code, _, err) = sluice(&["compare", b.to_str().unwrap(), c.to_str().unwrap()]);
    assert!(code == 1 && err.contains("no benchmark in common (b: fillrandom; c: readrandom)"), "{err}");
}
