//! Step 2: what each table file is worth.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Repair;
use crate::batch::DEFAULT_FAMILY;
use crate::error::{Error, Result};
use crate::filename::{FileKind, parse, sst_path};
use crate::manifest::SurveyedManifest;
use crate::sst::{SstOptions, SstReader, SstWriter, check, salvage};
use crate::version::{FileMeta, FileNumber};

/// The tables, by family.
#[derive(Default)]
pub(super) struct Found {
    /// With the level that a sound manifest gives them.
    pub(super) placed: BTreeMap<u32, Vec<(u32, Arc<FileMeta>)>>,
    /// Without one.
    pub(super) loose: BTreeMap<u32, Vec<Arc<FileMeta>>>,
    /// Families of which some table is damaged or missing.
    pub(super) incomplete: BTreeSet<u32>,
}

/// What all edits, also those behind damage, say of one table.
struct Listed {
    family: u32,
    level: u32,
    file: Arc<FileMeta>,
    /// A later edit removed it.
    gone: bool,
}

/// Looks at every table in the directory, and at those that should be there.
pub(super) fn look_at_tables(
    repair: &mut Repair<'_>,
    surveyed: Option<&SurveyedManifest>,
    names: &[String],
) -> Result<Found> {
    let mut listed = list(surveyed);
    let mut found = Found::default();
    let mut there = BTreeSet::new();
    for name in names {
        let Some(FileKind::Sst(number)) = parse(name) else { continue };
        there.insert(number);
        match listed.remove(&number) {
            Some(entry) if entry.gone => {} // its contents are in what replaced it
            Some(entry) if repair.is_dropped(entry.family) => {}
            Some(entry) => look_at_listed(repair, &entry, &mut found)?,
            None if repair.manifest_is_sound => {} // of a job that was not finished
            None => look_at_unlisted(repair, number, &mut found)?,
        }
    }
    for (number, entry) in listed.into_iter().filter(|(_, entry)| !entry.gone) {
        if !repair.is_dropped(entry.family) {
            let path = sst_path(repair.dir, number);
            repair.report.dropped.push(format!("{}: the file is missing", path.display()));
            found.incomplete.insert(entry.family);
        }
    }
    Ok(found)
}

fn list(surveyed: Option<&SurveyedManifest>) -> BTreeMap<FileNumber, Listed> {
    let mut listed = BTreeMap::<FileNumber, Listed>::new();
    for record in surveyed.into_iter().flat_map(|manifest| &manifest.records) {
        for change in &record.edit.families {
            for (_, number) in &change.removed {
                if let Some(entry) = listed.get_mut(number) {
                    entry.gone = true;
                }
            }
            for (level, file) in &change.added {
                let (family, level, file) = (change.id, *level, Arc::clone(file));
                listed.insert(file.number, Listed { family, level, file, gone: false });
            }
            if change.dropped {
                listed
                    .values_mut()
                    .filter(|entry| entry.family == change.id)
                    .for_each(|entry| entry.gone = true);
            }
        }
    }
    listed
}

fn look_at_listed(repair: &mut Repair<'_>, entry: &Listed, found: &mut Found) -> Result<()> {
    let Listed { family, level, file, .. } = entry;
    let said = family_of(repair, file.number).filter(|(id, _)| id == family);
    repair.know_family(*family, said.as_ref().map(|(_, name)| &**name));
    let mut findings = Vec::new();
    check(&*repair.fs, &sst_path(repair.dir, file.number), Some(file), &mut findings);
    let file = if findings.is_empty() {
        repair.report.tables_kept += 1;
        Arc::clone(file)
    } else {
        found.incomplete.insert(*family);
        let is_another =
            SstReader::open_unlisted(&*repair.fs, sst_path(repair.dir, file.number), file.number)
                .is_ok_and(|table| table.footer().unique_id != file.unique_id);
        if is_another {
            report(repair, &findings, "it is another table than the manifest means; nothing of it is kept");
            return Ok(());
        }
        match rescue(repair, *family, file.number, &findings)? {
            Some(rescued) => rescued,
            None => return Ok(()),
        }
    };
    if repair.manifest_is_sound {
        found.placed.entry(*family).or_default().push((*level, file));
    } else {
        found.loose.entry(*family).or_default().push(file);
    }
    Ok(())
}

/// The column family that a table says it is of.
fn family_of(repair: &Repair<'_>, number: FileNumber) -> Option<(u32, Box<str>)> {
    let table = SstReader::open_unlisted(&*repair.fs, sst_path(repair.dir, number), number);
    table.ok()?.properties().family.clone()
}

fn look_at_unlisted(repair: &mut Repair<'_>, number: FileNumber, found: &mut Found) -> Result<()> {
    let path = sst_path(repair.dir, number);
    let mut findings = Vec::new();
    check(&*repair.fs, &path, None, &mut findings);
    let table = SstReader::open_unlisted(&*repair.fs, path.clone(), number);
    let family = match table.as_ref().ok().and_then(|table| table.properties().family.clone()) {
        Some((id, name)) => {
            repair.know_family(id, Some(&name));
            id
        }
        None => {
            if table.is_ok() {
                let line = format!(
                    "{}: it does not say of which column family it is; taken for 'default'",
                    path.display()
                );
                repair.report.dropped.push(line);
            }
            DEFAULT_FAMILY
        }
    };
    let file = match table {
        Ok(table) if findings.is_empty() => {
            repair.report.tables_kept += 1;
            let said = table.properties();
            Some(Arc::new(FileMeta {
                number,
                unique_id: table.footer().unique_id,
                size: table.footer().file_size,
                smallest: said.smallest.clone(),
                largest: said.largest.clone(),
                smallest_seq: said.smallest_seq,
                largest_seq: said.largest_seq,
                entries: said.entries,
                tombstones: said.tombstones,
                created_micros: repair.clock.unix_micros(),
                being_compacted: AtomicBool::new(false),
            }))
        }
        _ => {
            found.incomplete.insert(family);
            rescue(repair, family, number, &findings)?
        }
    };
    if let Some(file) = file {
        found.loose.entry(family).or_default().push(file);
    }
    Ok(())
}

/// Writes the entries of the whole blocks of a damaged table into a new one.
fn rescue(
    repair: &mut Repair<'_>,
    family: u32,
    number: FileNumber,
    findings: &[Error],
) -> Result<Option<Arc<FileMeta>>> {
    let path = sst_path(repair.dir, number);
    let name = repair.names.get(&family).cloned().unwrap_or_default();
    let mut out = None;
    let new_number = repair.numbers.take();
    let salvaged = salvage(&*repair.fs, path, &mut |key, value| {
        if out.is_none() {
            out = Some(new_table(repair, family, &name, new_number)?);
        }
        out.as_mut().map_or(Ok(()), |table: &mut SstWriter| table.add(key, value))
    });
    match (salvaged, out) {
        (Ok(salvaged), Some(table)) => {
            let kept = format!(
                "kept {} entries; {} of {} blocks are lost",
                salvaged.entries, salvaged.lost_blocks, salvaged.blocks
            );
            report(repair, findings, &kept);
            finish_table(repair, new_number, table).map(Some)
        }
        (Err(Error::NoSpace { doing, path }), _) => Err(Error::NoSpace { doing, path }),
        _ => {
            report(repair, findings, "nothing of it could be kept");
            Ok(None)
        }
    }
}

fn report(repair: &mut Repair<'_>, findings: &[Error], outcome: &str) {
    for finding in findings {
        repair.report.dropped.push(format!("{finding}; {outcome}"));
    }
}

/// A table in the making, under this number.
pub(super) fn new_table(
    repair: &Repair<'_>,
    family: u32,
    name: &str,
    number: FileNumber,
) -> Result<SstWriter> {
    let options = SstOptions::from_family(&repair.options.column_family, 1);
    let path = sst_path(repair.dir, number);
    Ok(SstWriter::create(&*repair.fs, path, repair.fs.unique_id(), options)?.of_family(family, name))
}

/// Completes it.
pub(super) fn finish_table(
    repair: &mut Repair<'_>,
    number: FileNumber,
    table: SstWriter,
) -> Result<Arc<FileMeta>> {
    repair.report.tables_rewritten += 1;
    Ok(Arc::new(FileMeta::from_summary(number, table.finish()?, repair.clock.unix_micros())))
}
