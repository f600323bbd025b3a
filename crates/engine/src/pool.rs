//! Does the same for each of many things, on several threads, since the processors of a frozen job are idle. Use it only
//! for work that any thread may do; a tracer's work belongs to its own thread.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum number of threads; more would wait for the locks under which the kernel fills `/proc`.
const THREADS_MAX: usize = 4;
/// Number of things for which a further thread is started: starting it takes as long as inspecting one process.
const THINGS_PER_THREAD: usize = 4;

/// Returns the results of `work` for each of `things`, in their order.
pub(crate) fn each<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let others = (things.len() / THINGS_PER_THREAD).min(processors).clamp(1, THREADS_MAX) - 1;
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        while let Some((place, thing)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            things.get(place).map(|thing| (place, thing))
        } {
            done.push((place, work(thing)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        // If no thread can be started, this one does all the work.
        let start = |_| thread::Builder::new().name("pool".into()).spawn_scoped(scope, some).ok();
        let others: Vec<_> = (0..others).filter_map(start).collect();
        let mut done = some();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_inputs() {
        for length in [0, 1, 7, 1000] {
            let things: Vec<usize> = (0..length).collect();
            let expected: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(each(&things, |thing| thing * 2), expected);
        }
    }
}
