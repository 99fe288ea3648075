//! One compaction, from the pick to the doomed inputs.
//!
//! Files are chosen and marked under the state lock, merged with no lock held, and replaced in one version edit.
//! A compaction that only moves files is an edit and nothing else. Which files are worth it is
//! [`crate::compaction`]'s affair.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::cancel::CancelToken;
use crate::column_family::{ColumnFamily, FamilyData, FlushStage};
use crate::compaction::Compaction;
use crate::compaction::job::{self, JobContext};
use crate::compaction::leveled::Picker;
use crate::compaction::manual::{BottomLevel, ManualCompaction, ManualStep};
use crate::compaction::output::SstOutputs;
use crate::compaction::score::{LevelTargets, Score};
use crate::env::{thread_cpu_micros, total_memory};
use crate::error::{Error, Result};
use crate::event::{CompactionCompleted, Event};
use crate::iter::level::open_through;
use crate::manifest::{FamilyEdit, VersionEdit};
use crate::options::{BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, TableWrites};
use crate::sst::{BlockRead, SstOptions};
use crate::stats::LevelWork;
use crate::version::Version;
use crate::version::super_version::SuperVersion;

/// Longest time that a compaction gives way to flushes between two pieces of its work, in nanoseconds.
const FLUSH_SLICE: u64 = 5_000_000;

impl Shared {
    /// Chooses and marks the most urgent compaction that may run now.
    ///
    /// One runs at a time until writers are slowed, or a family's shape says that they soon will be: then as many as
    /// `max_background_compactions` allows.
    pub(super) fn pick_compaction(&self) -> Option<(ColumnFamily, Compaction)> {
        let mut hurry = self.pressure.slows_writers();
        let families = self.families.all();
        let moment = self.moment();
        // Declared before the lock, so dropped after it: a super version may be the last to hold memtables, and files. It
        // is not the bare version, because whoever lets the last super version go rings for the files.
        let mut due: Vec<(f64, Score, Arc<SuperVersion>, ColumnFamily)> = Vec::with_capacity(families.len());
        let mut state = self.state.lock();
        for family in families {
            let pinned = family.data.pin();
            let options = family.data.options();
            let score = Score::new(&pinned.version, &options);
            let may_run = !options.disable_auto_compactions && !family.data.is_dropped();
            let urgency = if may_run { score.most_useful() } else { -1.0 };
            hurry |= may_run && score.compaction_pressure(&options);
            due.push((urgency, score, pinned, family));
        }
        let allowed = if hurry { self.options.max_background_compactions } else { 1 };
        if state.manual_compactions > 0 || state.running_compactions >= allowed {
            return None;
        }
        due.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        // What levels ask for first, in all families; then what tombstones and age ask for.
        let urgent = due.iter().take_while(|(urgency, ..)| *urgency > 0.0).map(|due| (due, true));
        let marked = due.iter().take_while(|(urgency, ..)| *urgency >= 0.0).map(|due| (due, false));
        for ((_, score, pinned, family), urgent) in urgent.chain(marked) {
            let (options, version) = (&*family.data.options(), &pinned.version);
            let jobs = state.jobs.entry(family.id()).or_default();
            let picker = Picker { version, options, cursors: &jobs.cursors, running: &jobs.running };
            let picked = if urgent { picker.pick(score) } else { picker.marked(moment) };
            let Some(compaction) = picked else { continue };
            jobs.cursors.advance(&compaction);
            jobs.running.push(compaction.running());
            compaction.mark(true);
            state.running_compactions += 1;
            return Some((family.clone(), compaction));
        }
        None
    }

    /// Runs a marked compaction and lets go of its files, however it ends.
    pub(super) fn run_compaction(
        &self,
        family: &Arc<FamilyData>,
        compaction: &Compaction,
        cancel: Option<&CancelToken>,
    ) -> Result<()> {
        // More than one may be allowed to run: another thread looks for the next.
        self.compaction_bell.ring();
        let outcome = self.compact_and_install(family, compaction, cancel);
        // Before it counts as ended: whoever waits for running jobs to end sees what they did.
        if let Err(error) = &outcome {
            self.job_failed("compaction", &family.name, error);
        }
        {
            let mut state = self.state.lock();
            compaction.mark(false);
            state.running_compactions -= 1;
            let done = compaction.running();
            if let Some(jobs) = state.jobs.get_mut(&family.id) {
                let at = jobs.running.iter().position(|running| {
                    running.output_level == done.output_level && running.smallest == done.smallest
                });
                at.map(|at| jobs.running.swap_remove(at));
            }
        }
        self.update_sources(family);
        outcome
    }

    fn compact_and_install(
        &self,
        family: &Arc<FamilyData>,
        compaction: &Compaction,
        cancel: Option<&CancelToken>,
    ) -> Result<()> {
        let removed = compaction.input_files().map(|(level, file)| (level as u32, file.number)).collect();
        let level = compaction.output_level();
        let mut change = FamilyEdit { removed, ..FamilyEdit::new(family.id) };
        let sinks = |file_level: usize| file_level == 0 && level > 0;
        let of_l0 =
            compaction.input_files().filter(|(from, _)| sinks(*from)).map(|(_, file)| file.size).sum();
        if compaction.is_drop() {
            return self.drop_files(family, compaction, change);
        }
        if compaction.is_trivial_move() {
            change.added =
                compaction.input_files().map(|(_, file)| (level as u32, Arc::clone(file))).collect();
            self.install_compaction(family, change)?;
            self.stats.trivial_moves.add(1);
            self.stats.l0_bytes_compacted.add(of_l0);
            family.book(level, &LevelWork { moved: compaction.input_bytes(), ..LevelWork::default() });
            self.events.push(|| {
                Event::Compaction(CompactionCompleted {
                    family: Arc::clone(&family.name),
                    output_level: level,
                    moved: true,
                    input_files: compaction.input_files().count(),
                    output_files: compaction.input_files().count(),
                    bytes_read: 0,
                    bytes_written: 0,
                    entries_read: 0,
                    entries_dropped: 0,
                    took: Duration::ZERO,
                })
            });
            self.info_log.info(&format!("[{}] moved {compaction}", family.name));
            return Ok(());
        }

        let (began, cpu_began) = (self.clock.now_nanos(), thread_cpu_micros());
        let open = open_through(Arc::clone(&self.tables), BlockRead::BACKGROUND);
        let outputs = SstOutputs {
            family: (family.id, Arc::clone(&family.name)),
            fs: &*self.compaction_fs,
            clock: &*self.clock,
            dir: self.dir.clone(),
            options: SstOptions {
                direct: self.writes_direct(family, level),
                ..SstOptions::from_family(&family.options(), level)
            },
            next_number: &|| self.versions.new_file_number(),
        };
        let go_on = || {
            if self.is_closing() {
                return Err(Error::ShutdownInProgress);
            }
            self.failure.check()?; // what it makes would not be installed
            if family.is_dropped() {
                return Err(Error::NoSuchColumnFamily { name: family.name.to_string() });
            }
            if let Some(cancel) = cancel {
                cancel.check("compact_range")?;
            }
            self.let_flushes_pass();
            Ok(())
        };
        let family_options = family.options();
        let filter = family_options.compaction_filter.as_deref();
        let snapshots = self.snapshots.sequences();
        let pool =
            self.compaction_threads.as_ref().map(|pool| (pool, self.options.max_subcompactions as usize));
        let context =
            JobContext { open: &open, outputs: &outputs, snapshots: &snapshots, filter, go_on: &go_on, pool };
        let result = job::run(compaction, &context)?;

        let new_files: Vec<_> =
            result.outputs.into_iter().map(|file| (level as u32, Arc::new(file))).collect();
        let numbers: Vec<_> = new_files.iter().map(|(_, file)| file.number).collect();
        let output_files = numbers.len();
        change.added = new_files;
        let installed = self.install_compaction(family, change);
        if let Err(Error::NoSuchColumnFamily { .. }) = &installed {
            for number in numbers {
                let _ = self.fs.remove(&crate::filename::sst_path(&self.dir, number));
            }
        }
        installed?;
        self.obsolete.doom(compaction.input_files().map(|(_, file)| Arc::clone(file)));

        let micros = self.clock.now_nanos().saturating_sub(began) / 1000;
        self.stats.compactions.add(1);
        self.stats.l0_bytes_compacted.add(of_l0);
        self.stats.compaction_bytes_read.add(result.bytes_read);
        self.stats.compaction_bytes_written.add(result.bytes_written);
        self.stats.compaction_entries_read.add(result.entries_in);
        self.stats.compaction_entries_dropped.add(result.entries_dropped);
        self.stats.compaction_entries_filtered.add(result.entries_filtered);
        self.stats.compaction_micros.add(micros);
        self.stats.compaction_times.record(micros);
        let read = |lower: bool| {
            let files = compaction.input_files().filter(|(from, _)| (*from == level) == lower);
            files.map(|(_, file)| file.size).sum()
        };
        family.book(
            level,
            &LevelWork {
                read_upper: read(false),
                read_lower: read(true),
                written: result.bytes_written,
                micros,
                cpu_micros: thread_cpu_micros().saturating_sub(cpu_began),
                count: 1,
                entries_in: result.entries_in,
                entries_dropped: result.entries_dropped,
                ..LevelWork::default()
            },
        );
        self.events.push(|| {
            Event::Compaction(CompactionCompleted {
                family: Arc::clone(&family.name),
                output_level: level,
                moved: false,
                input_files: compaction.input_files().count(),
                output_files,
                bytes_read: result.bytes_read,
                bytes_written: result.bytes_written,
                entries_read: result.entries_in,
                entries_dropped: result.entries_dropped,
                took: Duration::from_micros(micros),
            })
        });
        self.info_log.info(&format!(
            "[{}] compacted {compaction} in {} parts: {} bytes into {} bytes, {} of {} entries dropped, in {micros} us",
            family.name, result.parts, result.bytes_read, result.bytes_written, result.entries_dropped, result.entries_in
        ));
        Ok(())
    }

    /// Lets files go with all that they hold.
    fn drop_files(
        &self,
        family: &Arc<FamilyData>,
        compaction: &Compaction,
        change: FamilyEdit,
    ) -> Result<()> {
        self.install_compaction(family, change)?;
        self.obsolete.doom(compaction.input_files().map(|(_, file)| Arc::clone(file)));
        self.stats.fifo_files_dropped.add(compaction.input_files().count() as u64);
        self.info_log.info(&format!(
            "[{}] dropped {compaction}, {} bytes",
            family.name,
            compaction.input_bytes()
        ));
        Ok(())
    }

    /// Whether a compaction into `level` that begins now writes past the page cache: the law of [`TableWrites`].
    fn writes_direct(&self, family: &FamilyData, level: usize) -> bool {
        match self.options.table_writes {
            TableWrites::Buffered => false,
            TableWrites::Direct => true,
            TableWrites::Auto => {
                let (version, options) = (&family.pin().version, family.options());
                let score = Score::new(version, &options);
                let pressed = || self.pressure.slows_writers() || score.compaction_pressure(&options);
                level > 0
                    && self.table_bytes() > total_memory() / 64
                    && pressed()
                    && !self.is_read_again_soon(version, &options, score.targets(), level)
            }
        }
    }

    /// Whether `level` is the base level, each compaction of L0 rewrites more than twice what it brings, and such levels of
    /// all families fit into a quarter of the machine's memory.
    fn is_read_again_soon(
        &self,
        version: &Version,
        options: &ColumnFamilyOptions,
        targets: &LevelTargets,
        level: usize,
    ) -> bool {
        let batch =
            options.write_buffer_size.saturating_mul(options.level0_file_num_compaction_trigger.into());
        let base = version.level_bytes(level);
        let families = self.families.all().len() as u64;
        level == targets.base_level()
            && base > batch.saturating_mul(2)
            && base.saturating_mul(families) < total_memory() / 4
    }

    /// Bytes of all tables of all families.
    fn table_bytes(&self) -> u64 {
        let of_family = |family: &ColumnFamily| {
            let version = &family.data.pin().version;
            (0..version.num_levels()).map(|level| version.level_bytes(level)).sum::<u64>()
        };
        self.families.all().iter().map(of_family).sum()
    }

    /// With `strict_flush_priority`: waits while writers are slowed and a flush is queued or runs. In slices, so that a close
    /// or a failure is seen; a flush never waits for a compaction, so this ends.
    fn let_flushes_pass(&self) {
        if !self.options.strict_flush_priority || !self.pressure.slows_writers() {
            return;
        }
        let seen = self.done_bell.rings();
        let wanted =
            |family: &ColumnFamily| family.data.is_flushing() || family.data.stage() != FlushStage::Idle;
        if self.families.all().iter().any(wanted) {
            let slice = self.clock.now_nanos().saturating_add(FLUSH_SLICE);
            self.done_bell.wait_past_until(seen, slice);
        }
    }

    fn install_compaction(&self, family: &Arc<FamilyData>, change: FamilyEdit) -> Result<()> {
        let edit = VersionEdit { families: vec![change], ..VersionEdit::default() };
        let mut replaced = None;
        self.install(edit, |versions| {
            let Some(version) = versions.of(family.id) else { return };
            let _state = self.state.lock();
            let pinned = family.pin();
            let (mutable, sealed) = (Arc::clone(&pinned.mutable), pinned.sealed.clone());
            replaced = Some(family.install(pinned.with(mutable, sealed, version)));
        })?;
        drop(replaced);
        Ok(())
    }

    /// Compacts a range level by level, in this thread; waits for running compactions that are in the way.
    pub(super) fn compact_level_by_level(
        &self,
        family: &Arc<FamilyData>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        asked: &CompactRangeOptions,
    ) -> Result<()> {
        let next_file = self.versions.new_file_number();
        let version = Arc::clone(&family.pin().version);
        let options = family.options();
        let rewrites = match asked.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => options.compaction_filter.is_some(),
            BottommostLevelCompaction::Force => true,
        };
        let bottom = if rewrites { BottomLevel::Rewrite } else { BottomLevel::Keep };
        let mut manual = ManualCompaction::new(&version, &options, from, to, bottom, next_file);
        drop(version);
        loop {
            self.check_writable()?;
            self.check_family(family)?;
            let seen = self.done_bell.rings();
            if let Some(cancel) = &asked.cancel {
                cancel.check("compact_range")?;
            }
            let step = {
                let mut state = self.state.lock();
                let version = Arc::clone(&family.pin().version);
                let jobs = state.jobs.entry(family.id).or_default();
                let step = manual.next(&version, &family.options(), &jobs.running);
                if let ManualStep::Run(compaction) = &step {
                    jobs.running.push(compaction.running());
                    compaction.mark(true);
                    state.running_compactions += 1;
                }
                step
            };
            match step {
                ManualStep::Done => return Ok(()),
                ManualStep::Busy => self.done_bell.wait_past(seen),
                ManualStep::Run(compaction) => {
                    self.run_compaction(family, &compaction, asked.cancel.as_ref())?;
                    manual.completed(&compaction);
                    drop(compaction); // it holds the version that it was picked from, and so its inputs
                    self.purge_bell.ring();
                    self.done_bell.ring();
                }
            }
        }
    }
}
