//! [`Slot`]: the hand-off that the ring replaced. One place for one job; who submits holds the door until he has his result.
//!
//! So each job costs a round trip between two threads: a wake-up there and a wake-up back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A worker with one place for a job.
#[derive(Debug)]
pub struct Slot {
    /// Held by the submitter from the hand-over until the result is taken.
    door: Mutex<()>,
    place: Arc<Place>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Place {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
enum Stage {
    #[default]
    Empty,
    Job(Job),
    Stop,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Empty => "Empty",
            Self::Job(_) => "Job",
            Self::Stop => "Stop",
        })
    }
}

#[derive(Debug)]
struct Answer<R> {
    result: Mutex<Option<R>>,
    there: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Starts the worker.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let place = Arc::new(Place::default());
        let of_worker = Arc::clone(&place);
        let worker =
            std::thread::Builder::new().name("bench-slot".to_owned()).spawn(move || of_worker.work())?;
        Ok(Self { door: Mutex::new(()), place, worker: Some(worker) })
    }

    /// Hands over one job and waits for its result.
    pub fn submit<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let _door = lock(&self.door);
        let answer = Arc::new(Answer { result: Mutex::new(None), there: Condvar::new() });
        let to = Arc::clone(&answer);
        self.place.put(Stage::Job(Box::new(move || {
            *lock(&to.result) = Some(job());
            to.there.notify_one();
        })));
        let mut result = lock(&answer.result);
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = answer.there.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Place {
    fn put(&self, stage: Stage) {
        *lock(&self.stage) = stage;
        self.changed.notify_one();
    }

    fn work(&self) {
        let mut stage = lock(&self.stage);
        loop {
            match std::mem::take(&mut *stage) {
                Stage::Empty => stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner),
                Stage::Job(job) => {
                    drop(stage);
                    job();
                    stage = lock(&self.stage);
                }
                Stage::Stop => return,
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.place.put(Stage::Stop);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join(); // a job that panicked has said so
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_gives_its_result() {
        let slot = Slot::start().unwrap();
        let results: Vec<usize> = (0..100).map(|n| slot.submit(move || n)).collect();
        assert_eq!(results, (0..100).collect::<Vec<_>>());
    }
}
