//! `sluice` as a built program: the pressure law as CSV, data commands, damage.

use std::collections::BTreeMap;
use std::path::Path;

use super::support::Place;

/// `db-bench DB22`: the law at single usages and as a table, its floor, small quotas, none, and what is refused.
#[test]
fn db22_pressure() {
    let place = Place::new();
    let printed = |flags: &str| {
        let ended = place.sluice(&format!("pressure {flags}")).passed();
        assert_eq!(ended.err, "");
        ended.out
    };
    let small = "--quota-bytes 1000 --delay-start-percent 70 --max-delayed-rate";
    assert_eq!(
        printed(&format!("{small} 16777216 --usage 699,700,706,850,999,1000")),
        "usage,state,step,rate\n699,normal,,\n700,delayed,1,16609443\n706,delayed,2,16441671\n\
         850,delayed,50,8388608\n999,delayed,99,167772\n1000,stopped,,\n"
    );
    let reference = "--quota-bytes 1073741824 --delay-start-percent 70 --max-delayed-rate 536870912";
    let table = printed(&format!("{reference} --table"));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[0]), (100, "usage,state,step,rate"));
    assert_eq!(
        [lines[1], lines[2], lines[50], lines[99]],
        [
            "751619276,delayed,1,531502202",
            "758061727,delayed,2,526133493",
            "912680550,delayed,50,268435456",
            "1070520599,delayed,99,5368709"
        ]
    );
    assert_eq!(
        printed(&format!("{reference} --usage 812646400,1073741823,1073741824")),
        "usage,state,step,rate\n812646400,delayed,18,440234147\n1073741823,delayed,99,5368709\n1073741824,stopped,,\n"
    );
    assert!(printed(&format!("{small} 1000000 --usage 999")).ends_with("\n999,delayed,99,16384\n"));
    assert!(printed(&format!("{small} 10000 --usage 999")).ends_with("\n999,delayed,99,10000\n"));
    let hundred = "--quota-bytes 100 --delay-start-percent 70 --max-delayed-rate 16777216 --table";
    assert_eq!(printed(hundred).lines().count(), 31);
    assert_eq!(printed("--quota-bytes 0 --usage 5"), "usage,state,step,rate\n5,normal,,\n");
    let refused = place.sluice("pressure --quota-bytes 1000 --delay-start-percent 100").exits(2);
    assert!(refused.out.is_empty() && !refused.err.is_empty());
}

/// `db-bench DB23`: put, get, scan, count, families, delete, and a key that is missing.
#[test]
fn db23_data_commands() {
    let place = Place::new();
    let printed = |line: &str| place.sluice(line).passed().out;
    assert_eq!(printed("put --create-if-missing --db=D/db23 a1 b1"), "OK\n");
    assert_eq!(printed("get --db=D/db23 a1"), "b1\n");
    assert_eq!(printed("scan --db=D/db23"), "a1 ==> b1\n");
    assert_eq!(printed("scan --db=D/db23 --hex"), "0x6131 ==> 0x6231\n");
    assert!(printed("scan --db=D/db23 --count").ends_with("Keys in range: 1\n"));
    assert_eq!(printed("list-cf --db=D/db23"), place.named("Column families in D/db23: \n{default}\n"));
    assert_eq!(printed("delete --db=D/db23 a1"), "OK\n");
    let missing = place.sluice("get --db=D/db23 a1").exits(1);
    assert_eq!((missing.out.as_str(), missing.err.as_str()), ("", "Failed: Get failed: NotFound: \n"));
    let keys = printed("properties --db=D/db23 rocksdb.estimate-num-keys");
    let digits = keys.strip_prefix("rocksdb.estimate-num-keys: ").expect("the name");
    assert!(digits.trim_end().parse::<u64>().is_ok(), "{keys}");
}

/// Every file of a directory with its bytes.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(directory)
        .expect("the directory")
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// `db-bench DB24`: one flipped bit and one lost byte are found and named, and looking changes nothing.
#[test]
fn db24_damage_is_found() {
    let place = Place::new();
    place
        .bench(
            "--benchmarks=fillrandom,flush --num=20000 --value_size=1000 --db=D/db16 --compression_type=none",
        )
        .passed();
    let db = place.path("db16");
    let sound = files(&db);
    assert_eq!(place.sluice("checkconsistency --db=D/db16").passed().out, "OK\n");
    let verified = place.sluice("verify --db=D/db16").passed().out;
    let tables =
        verified.strip_prefix("OK: ").and_then(|rest| rest.split_once(" SSTs, ")).expect("the count");
    assert!(tables.0.parse::<u64>().is_ok_and(|count| count >= 1), "{verified}");
    assert_eq!(files(&db), sound, "looking changes nothing");

    let (name, bytes) = sound.iter().find(|(name, _)| name.ends_with(".sst")).expect("a table");
    let path = db.join(name);
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&path, &flipped).expect("the table");
    let mut damaged = sound.clone();
    damaged.insert(name.clone(), flipped);
    let found = place.sluice("verify --db=D/db16").exits(1);
    assert!(found.err.contains(name.as_str()) && found.err.contains("is corrupted"), "{}", found.err);
    place.sluice(&format!("sst D/db16/{name} --command=verify")).exits(1);
    assert_eq!(files(&db), damaged, "looking changes nothing");

    let cut = bytes[..bytes.len() - 1].to_vec();
    std::fs::write(&path, &cut).expect("the table");
    damaged.insert(name.clone(), cut);
    let found = place.sluice("checkconsistency --db=D/db16").exits(1);
    let line = found.err.lines().find(|line| line.starts_with("Failed: Corruption: "));
    assert!(line.is_some_and(|line| line.contains(name.as_str())), "{}", found.err);
    assert_eq!(files(&db), damaged, "looking changes nothing");
}
