//! `sluice scan`: the entries of a range, how many there are, and how long their values are.

use serde_json::Map;

use super::common::{Common, Failure, Streams};
use crate::report::histogram::Histogram;

/// Prints the entries of a range.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// The key at which it ends, which is not printed
    #[arg(long)]
    to: Option<String>,
    /// Most entries
    #[arg(long, value_name = "N")]
    max_keys: Option<u64>,
    /// Print keys only
    #[arg(long)]
    no_value: bool,
    /// Print how many there were
    #[arg(long)]
    count: bool,
    /// Print how many there were and the sizes of their values, no entries
    #[arg(long)]
    count_only: bool,
    /// Print the sizes of the values, too
    #[arg(long)]
    stats: bool,
    /// Count by what stands in front of this character in the keys, and print no entries
    #[arg(long, value_name = "CHARACTER", num_args = 0..=1, default_missing_value = ".")]
    count_delim: Option<String>,
}

/// Entries and bytes whose keys begin alike.
struct Group {
    prefix: Vec<u8>,
    entries: u64,
    bytes: u64,
}

/// `sluice scan`.
pub fn run(args: &Args, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let form = args.common.form;
    let key = |text: &Option<String>| text.as_deref().map(|text| form.key(text)).transpose();
    let (from, to) = (key(&args.from)?, key(&args.to)?);
    let (db, family) = args.common.open_read_only(streams)?;
    let mut entries = db.iter_cf(&family)?;
    match &from {
        Some(from) => entries.seek(from)?,
        None => entries.seek_to_first()?,
    }
    let shows_entries = !args.count_only && args.count_delim.is_none();
    let (mut count, mut sizes, mut group) = (0, Histogram::default(), None);
    while entries.valid() && to.as_ref().is_none_or(|to| entries.key() < &to[..]) {
        if args.max_keys.is_some_and(|most| count >= most) {
            break;
        }
        count += 1;
        let (key, value) = (entries.key(), entries.value());
        sizes.add(value.len() as u64);
        if let Some(delimiter) = &args.count_delim {
            add_to_group(&mut group, key, value, delimiter.as_bytes(), streams);
        }
        if shows_entries {
            print_entry(args, key, value, streams);
        }
        entries.next()?;
    }
    if let Some(group) = group {
        print_group(&group, streams);
    }
    if args.count || args.count_only || args.count_delim.is_some() {
        if args.common.json {
            streams.print_json(Map::from_iter([("keys_in_range".to_owned(), count.into())]));
        } else {
            streams.print(&format!("Keys in range: {count}\n"));
        }
    }
    if (args.count_only || args.stats) && !args.common.json {
        streams.print(&format!("Value size distribution:\n{}\n", sizes.render()));
    }
    Ok(())
}

fn print_entry(args: &Args, key: &[u8], value: &[u8], streams: &mut Streams<'_>) {
    let form = args.common.form;
    if args.common.json {
        let mut object = Map::new();
        form.put_key(&mut object, key);
        if !args.no_value {
            form.put_value(&mut object, value);
        }
        return streams.print_json(object);
    }
    let mut line = form.show_key(key);
    if !args.no_value {
        line.extend_from_slice(b" ==> ");
        line.extend_from_slice(&form.show_value(value));
    }
    line.push(b'\n');
    let _ = streams.out.write_all(&line);
}

/// Keys come in order, so those that begin alike come together.
fn add_to_group(
    group: &mut Option<Group>,
    key: &[u8],
    value: &[u8],
    delimiter: &[u8],
    streams: &mut Streams<'_>,
) {
    let at = key.windows(delimiter.len().max(1)).position(|window| window == delimiter);
    let prefix = &key[..at.unwrap_or(key.len())];
    if group.as_ref().is_none_or(|group| group.prefix != prefix) {
        let next = Group { prefix: prefix.to_vec(), entries: 0, bytes: 0 };
        if let Some(done) = group.replace(next) {
            print_group(&done, streams);
        }
    }
    if let Some(group) = group {
        group.entries += 1;
        group.bytes += (key.len() + value.len()) as u64;
    }
}

fn print_group(group: &Group, streams: &mut Streams<'_>) {
    let prefix = group.prefix.escape_ascii();
    streams.print(&format!("{prefix} => count:{}\tsize:{}\n", group.entries, group.bytes));
}
