//! Pressure as it is reported: several databases on one quota, causes of stalls, stalls switched off.

use serde_json::Value;

use super::support::{Place, after, clock_micros, count, found, last};

fn several_databases(num: u64) {
    let place = Place::new();
    let ended = place
        .bench(&format!(
            "--benchmarks=fillrandom,readrandom,stats --num_multi_db=3 --num={num} --value_size=1000 --db=D/db14 \
             --db_write_buffer_size=16777216 --write_buffer_size=4194304 --max_write_buffer_number=4 \
             --allow_wbm_stalls=true --delayed_write_rate=268435456 --disable_wal=true --compression_type=none \
             --seed=1 --json=D/db14.jsonl"
        ))
        .passed();
    for number in ["0", "1", "2"] {
        assert!(place.path("db14").join(number).join("CURRENT").exists());
    }
    assert_eq!(ended.operations("fillrandom"), 3 * num);
    let (hits, of) = found(&ended.out, "readrandom");
    let slack = (100_000.0 / num as f64).sqrt() * 0.0125;
    let share = hits as f64 / of as f64;
    assert!(of == num && (share - 0.6325).abs() <= slack, "{hits} of {of}");
    assert_eq!(count(&ended.out, "==== DB: "), 3);
    let usages: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("WBM: usage ")).collect();
    assert_eq!(usages.len(), 3, "one line a database");
    assert!(usages.iter().all(|line| line.contains(" of 16777216 (")), "{usages:?}");

    const QUOTA: u64 = 16_777_216;
    let objects = place.text("db14.jsonl");
    let objects = objects.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let mut looks = 0;
    for object in objects {
        let wbm = &object["wbm"];
        if object["t"] == "summary" {
            let peak = wbm["peak_usage"].as_u64().expect("a peak");
            assert!(peak <= QUOTA + QUOTA / 20, "{peak}");
        } else if object["t"] == "sample" {
            let by_db: Vec<u64> =
                wbm["by_db"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
            assert_eq!(by_db.len(), 3);
            let usage = wbm["usage"].as_u64().expect("a usage");
            assert!(by_db.iter().sum::<u64>().abs_diff(usage) <= QUOTA / 20, "{by_db:?} and {usage}");
            looks += 1;
        }
    }
    assert!(looks >= 2, "a sample a benchmark at least");
}

/// `db-bench DB14`: three databases keep to one quota together, and say so.
#[test]
fn db14_several_databases_on_one_quota() {
    several_databases(20_000);
}

/// `db-bench DB14` with its full counts.
#[test]
#[ignore = "writes 300 MB; run with --release"]
fn db14_several_databases_on_one_quota_in_full() {
    several_databases(100_000);
}

fn stalled(num: u64, stalls: bool) -> String {
    let place = Place::new();
    let line = format!(
        "--benchmarks=fillrandom,stats --num={num} --threads=2 --value_size=1000 --batch_size=200 --db=D/db17 \
         --write_buffer_size=67108864 --db_write_buffer_size=1048576 --allow_wbm_stalls={stalls} \
         --initiate_wbm_flushes=false --delayed_write_rate=4194304 --disable_wal=true --compression_type=none"
    );
    place.bench(&line).passed().out
}

fn causes(num: u64) {
    let out = stalled(num, true);
    let (_, db_part) = out.split_once("** DB Stats **").expect("the database's part");
    let counts = last(db_part, "Write Stall (count): write-buffer-manager-limit-delays: ");
    assert!(after(counts, "-limit-delays: ") >= 1.0 && after(counts, "-limit-stops: ") >= 1.0, "{counts}");
    let clock = last(db_part, "WBM stall: ");
    let stopped = clock_micros(clock, "stopped ");
    assert!(clock_micros(clock, "delayed ") > 0.0 && stopped > 0.0, "{clock}");
    assert!(clock.ends_with(" stops") && clock.contains(" delay episodes, "), "{clock}");
    let episodes: Vec<&str> = clock.rsplit_once("H:M:S, ").expect("counts").1.split(", ").collect();
    assert!(episodes.iter().all(|count| after(count, "") >= 1.0), "{clock}");

    let micros = last(db_part, "Write Stall (micros): ");
    let of = |name: &str| after(micros, &format!(" {name}: "));
    let manager = "write-buffer-manager-limit";
    let (delays, stops) = (of(&format!("{manager}-delays")), of(&format!("{manager}-stops")));
    assert!(delays > 0.0 && stops > 0.0, "{micros}");
    assert!(stops <= 2.0 * stopped + 2000.0, "{micros} and {clock}");
    let causes = ["l0-file-count-limit", "memtable-limit", "pending-compaction-bytes", manager];
    let sum = |kind: &str| causes.iter().map(|cause| of(&format!("{cause}-{kind}"))).sum::<f64>();
    assert_eq!((of("total-delays"), of("total-stops")), (sum("delays"), sum("stops")), "{micros}");
    let cumulative = clock_micros(last(db_part, "Cumulative stall: "), "Cumulative stall: ");
    let total = of("total-delays") + of("total-stops");
    assert!((total - cumulative).abs() <= 2000.0, "{micros} and {cumulative}");
}

/// `db-bench DB17`: time spent slowed and stopped, by cause, adds up.
#[test]
fn db17_stall_causes() {
    causes(2000);
}

/// `db-bench DB17` with its full counts.
#[test]
#[ignore = "the full counts; run with --release"]
fn db17_stall_causes_in_full() {
    let begin = std::time::Instant::now();
    causes(10_000);
    assert!(begin.elapsed().as_secs() < 120, "{:?}", begin.elapsed());
}

/// `db-bench DB18`: with stalls off the manager neither delays nor stops.
#[test]
fn db18_stalls_off() {
    let out = stalled(10_000, false);
    let (_, db_part) = out.split_once("** DB Stats **").expect("the database's part");
    let counts =
        "Write Stall (count): write-buffer-manager-limit-delays: 0, write-buffer-manager-limit-stops: 0";
    assert_eq!(last(db_part, "Write Stall (count): "), counts);
    assert!(last(db_part, "WBM: usage ").ends_with(", state normal"), "{db_part}");
    assert_eq!(
        last(db_part, "WBM stall: "),
        "WBM stall: delayed 00:00:0.000 H:M:S, stopped 00:00:0.000 H:M:S, 0 delay episodes, 0 stops"
    );
}
