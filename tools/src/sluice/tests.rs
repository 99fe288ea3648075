//! The command line of `sluice`, and what `sluice pressure` prints, to the byte: `db-bench DB22`.

mod databases;

use super::run;

/// Exit code, stdout and stderr of a command line.
fn sluice(line: &str) -> (u8, String, String) {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&args, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// Stdout of a command line that succeeds and says nothing on stderr.
fn printed(line: &str) -> String {
    let (code, out, err) = sluice(line);
    assert_eq!((code, err.as_str()), (0, ""), "{line}");
    out
}

const SMALL: &str = "pressure --quota-bytes 1000 --delay-start-percent 70 --max-delayed-rate";
const GIB: &str = "pressure --quota-bytes 1073741824 --delay-start-percent 70 --max-delayed-rate 536870912";

/// The example of `db-bench.md` 4.4, duplicates and order included.
#[test]
fn usages_print_in_the_order_given() {
    assert_eq!(
        printed(&format!("{SMALL} 16777216 --usage 699,700,706,850,999,1000,0,850")),
        "usage,state,step,rate\n699,normal,,\n700,delayed,1,16609443\n706,delayed,2,16441671\n\
         850,delayed,50,8388608\n999,delayed,99,167772\n1000,stopped,,\n0,normal,,\n850,delayed,50,8388608\n"
    );
    assert_eq!(
        printed(&format!("{GIB} --usage 812646400,1073741823,1073741824")),
        "usage,state,step,rate\n812646400,delayed,18,440234147\n1073741823,delayed,99,5368709\n\
         1073741824,stopped,,\n"
    );
}

/// The table of a quota of 1,000 bytes is the 99 steps; each row is where its step begins.
///
/// Method: the rows against the rows of every usage from 0 to the quota, of which the first of each step is kept.
#[test]
fn the_table_is_the_99_steps() {
    let table = printed(&format!("{SMALL} 16777216 --table"));
    let every: Vec<String> = (0..=1000).map(|usage: u32| usage.to_string()).collect();
    let all = printed(&format!("{SMALL} 16777216 --usage {}", every.join(",")));
    let step = |row: &str| row.split(',').nth(2).unwrap_or_default().to_owned();
    let mut first: Vec<&str> = all.lines().skip(1).filter(|row| row.contains("delayed")).collect();
    first.dedup_by_key(|row| step(row));
    assert_eq!(table.lines().skip(1).collect::<Vec<_>>(), first);

    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 100);
    assert_eq!(lines[0], "usage,state,step,rate");
    assert_eq!(
        [lines[1], lines[2], lines[50], lines[99]],
        [
            "700,delayed,1,16609443",
            "706,delayed,2,16441671",
            "850,delayed,50,8388608",
            "997,delayed,99,167772"
        ]
    );
    assert_eq!(printed(&format!("{SMALL} 16777216")), table, "the table is the default");
}

/// A large quota, one too small for 99 steps, none, and the largest that there is.
#[test]
fn tables_of_other_quotas() {
    let table = printed(&format!("{GIB} --table"));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 100);
    assert_eq!(
        [lines[1], lines[2], lines[50], lines[99]],
        [
            "751619276,delayed,1,531502202",
            "758061727,delayed,2,526133493",
            "912680550,delayed,50,268435456",
            "1070520599,delayed,99,5368709"
        ]
    );
    assert_eq!(printed("pressure --quota-bytes 100 --delay-start-percent 70 --table").lines().count(), 31);
    assert_eq!(printed("pressure --quota-bytes 0 --table"), "usage,state,step,rate\n");
    assert_eq!(printed("pressure --quota-bytes 0 --usage 5"), "usage,state,step,rate\n5,normal,,\n");
    let most = format!("pressure --quota-bytes {} --max-delayed-rate {}", u64::MAX, u64::MAX);
    assert_eq!(printed(&most).lines().count(), 100);
    // T is 0 here, and a usage of 0 is never delayed.
    assert_eq!(
        printed("pressure --quota-bytes 2 --delay-start-percent 1"),
        "usage,state,step,rate\n1,delayed,50,8388608\n"
    );
}

/// The floor of the rate, and a maximum below the floor, which is left alone.
#[test]
fn the_floor_of_the_rate() {
    assert!(printed(&format!("{SMALL} 1000000 --usage 999")).ends_with("\n999,delayed,99,16384\n"));
    assert!(printed(&format!("{SMALL} 10000 --usage 999")).ends_with("\n999,delayed,99,10000\n"));
}

/// What cannot be followed exits with 2, says so on stderr, and prints nothing on stdout.
#[test]
fn bad_lines_exit_with_2() {
    for line in [
        "",
        "presure --quota-bytes 1000",
        "pressure",
        "pressure --quota-bytes 1000 --delay-start-percent 100",
        "pressure --quota-bytes 1000 --delay-start-percent 0",
        "pressure --quota-bytes 1000 --max-delayed-rate 0",
        "pressure --quota-bytes 1K",
        "pressure --quota-bytes 1000 --table --usage 1",
        "pressure --quota-bytes 1000 --usage -1",
        "pressure --quota-bytes 1000 --usage 1,,2",
        "pressure --quota-bytes 1000 --usage 1,18446744073709551616",
        "pressure --quota-bytes 1000 1",
    ] {
        let (code, out, err) = sluice(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(!err.is_empty(), "{line}");
    }
}

/// Options before the command, underscores, and `=`; help is no failure.
#[test]
fn options_stand_anywhere() {
    assert_eq!(
        printed("--quota_bytes=1000 --usage 850 pressure --max_delayed_rate=1000000"),
        "usage,state,step,rate\n850,delayed,50,500000\n"
    );
    assert!(printed("pressure --help").contains("--quota-bytes <BYTES>"));
    assert!(printed("--help").contains("pressure"));
}
