//! The NUMA nodes from which a thread takes memory (set_mempolicy(2)), or a mapping (mbind(2)). Those of mappings are
//! collected with their other attributes.

use crate::EngineError;
use crate::construction::{Construction, building};
use crate::remote_caller::{Answers, RemoteCallBatch, Words};
use standfast_format::records::{Mapping, NumaPolicy, ThreadState};
use standfast_linux::abi;

/// More NUMA nodes than any kernel has. With fewer, the kernel would say that its answer does not fit.
const NODES_MAX: u64 = 1024;
/// A mode, and a bit for each node.
const WORDS: usize = 1 + (NODES_MAX / 64) as usize;
/// What the policy is to people.
const WHAT: &str = "choice of NUMA nodes";

/// The question from which nodes a thread takes memory.
pub(super) struct AskedNumaPolicy(Words<WORDS>);

impl AskedNumaPolicy {
    pub(super) fn of(batch: &mut RemoteCallBatch) -> Self {
        Self(batch.ask(abi::SYS_get_mempolicy, |output| [output, output + 8, NODES_MAX, 0]))
    }

    /// Returns the policy, if the thread has set one.
    pub(super) fn policy(&self, answers: &Answers) -> Option<NumaPolicy> {
        // A kernel without nodes does not know this call.
        let [mode, nodes @ ..] = answers.words(self.0).ok()?;
        // An int: the upper half of the word holds old contents.
        let mode = mode as u32;
        let used = nodes.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        (mode != 0).then(|| NumaPolicy { mode, nodes: nodes[..used].to_vec() })
    }
}

impl Construction {
    /// Chooses the nodes from which the thread at `place` takes memory.
    pub(crate) fn choose_nodes(&mut self, place: usize, thread: &ThreadState) -> Result<(), EngineError> {
        let Some(policy) = &thread.numa else { return Ok(()) };
        let task = &self.tasks[place];
        let base = task.registers().map_err(building)?;
        let (nodes, bits) = self.nodes(policy)?;
        let arguments = [policy.mode.into(), nodes, bits, 0, 0, 0];
        if let Err(error) = self.call_in(task, &base, "choosing NUMA nodes", abi::SYS_set_mempolicy, arguments) {
            self.go_without("processes.threads.numa", WHAT, &error);
        }
        Ok(())
    }

    /// Chooses the nodes from which a mapping takes memory.
    pub(crate) fn choose_nodes_of_mapping(&mut self, mapping: &Mapping) -> Result<(), EngineError> {
        let Some(policy) = &mapping.attributes.numa else { return Ok(()) };
        let (nodes, bits) = self.nodes(policy)?;
        let arguments = [mapping.start, mapping.end - mapping.start, policy.mode.into(), nodes, bits, 0];
        if let Err(error) = self.call("choosing NUMA nodes", abi::SYS_mbind, arguments) {
            self.go_without("processes.mappings.attributes.numa", WHAT, &error);
        }
        Ok(())
    }

    /// Returns the nodes of a policy as arguments of a call: their address, and how many bits count.
    fn nodes(&self, policy: &NumaPolicy) -> Result<(u64, u64), EngineError> {
        if policy.nodes.is_empty() {
            return Ok((0, 0));
        }
        let words: Vec<u8> = policy.nodes.iter().flat_map(|word| word.to_le_bytes()).collect();
        // The kernel takes one bit less than the given number.
        Ok((self.argument(&words)?, policy.nodes.len() as u64 * 64 + 1))
    }
}
