//! `sluice get`, `put` and `delete`.

use serde_json::Map;
use sluicedb::{Db, WriteBatch};

use super::common::{Common, Failure, Streams};

/// Keys deleted in one batch by `delete --from --to`.
const DELETE_BATCH: usize = 1000;

/// Prints the value of a key.
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    #[command(flatten)]
    common: Common,
    /// The key
    key: String,
}

/// Sets keys to values; several pairs are one batch.
#[derive(Debug, clap::Args)]
pub struct PutArgs {
    #[command(flatten)]
    common: Common,
    /// Make the database if there is none
    #[arg(long)]
    create_if_missing: bool,
    /// A key and its value, and so on
    #[arg(required = true, num_args = 2.., value_names = ["KEY", "VALUE"])]
    pairs: Vec<String>,
}

/// Deletes a key, or every key of a range.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    common: Common,
    /// The key
    #[arg(required_unless_present_all = ["from", "to"], conflicts_with_all = ["from", "to"])]
    key: Option<String>,
    /// First key of a range
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// The key at which the range ends, which stays
    #[arg(long, requires = "from")]
    to: Option<String>,
}

/// `sluice get`.
pub fn get(args: &GetArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let form = args.common.form;
    let key = form.key(&args.key)?;
    let (db, family) = args.common.open_read_only(streams)?;
    let Some(value) = db.get_cf(&family, &key)? else {
        return Err(Failure::Failed("Get failed: NotFound: ".to_owned()));
    };
    if args.common.json {
        let mut object = Map::new();
        form.put_key(&mut object, &key);
        form.put_value(&mut object, &value);
        streams.print_json(object);
    } else {
        let _ = streams.out.write_all(&form.show_value(&value));
        streams.print("\n");
    }
    Ok(())
}

/// `sluice put`.
pub fn put(args: &PutArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    if !args.pairs.len().is_multiple_of(2) {
        let last = args.pairs.last().map_or("", String::as_str);
        return Err(Failure::Usage(format!("error: the key '{last}' has no value\n")));
    }
    let form = args.common.form;
    let mut pairs = Vec::new();
    for pair in args.pairs.chunks_exact(2) {
        pairs.push((form.key(&pair[0])?, form.value(&pair[1])?));
    }
    let (db, family) = args.common.open(args.create_if_missing)?;
    let mut batch = WriteBatch::new();
    for (key, value) in &pairs {
        batch.put_cf(&family, key, value);
    }
    db.write(batch)?;
    finish(&db, streams)
}

/// `sluice delete`.
pub fn delete(args: &DeleteArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let form = args.common.form;
    if let Some(key) = &args.key {
        let key = form.key(key)?;
        let (db, family) = args.common.open(false)?;
        db.delete_cf(&family, key)?;
        return finish(&db, streams);
    }
    let (from, to) = (
        form.key(args.from.as_deref().unwrap_or_default())?,
        form.key(args.to.as_deref().unwrap_or_default())?,
    );
    let (db, family) = args.common.open(false)?;
    let mut entries = db.iter_cf(&family)?;
    entries.seek(&from)?;
    while entries.valid() && entries.key() < &to[..] {
        let mut batch = WriteBatch::new();
        while entries.valid() && entries.key() < &to[..] && batch.len() < DELETE_BATCH {
            batch.delete_cf(&family, entries.key());
            entries.next()?;
        }
        db.write(batch)?;
    }
    drop(entries);
    finish(&db, streams)
}

/// What was written is on the device when OK is printed.
fn finish(db: &Db, streams: &mut Streams<'_>) -> Result<(), Failure> {
    db.close()?;
    streams.print("OK\n");
    Ok(())
}
