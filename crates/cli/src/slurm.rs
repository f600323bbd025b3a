//! The nodes that `--nodes` names, among them those of a Slurm allocation, as `--nodes slurm` asks for them. Slurm names them
//! in a compressed form, such as `rack[1-2]n[08-11],login`. This module only parses it, and asks Slurm nothing.

use anyhow::anyhow;

/// Nodes, and the command that reaches one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedNodes {
    pub(crate) names: Vec<String>,
    pub(crate) agent: String,
}

/// Environment variable in which Slurm names the nodes of an allocation.
const VARIABLE: &str = "SLURM_JOB_NODELIST";

/// Agent that carries out a command on a node of the allocation, beside the processes that run there.
const AGENT: &str = "srun --overlap --nodes=1 --ntasks=1 --nodelist";

/// Limit that no machine reaches, but a mistyped range could.
const NODES_MAX: usize = 1 << 20;

/// Returns the named nodes, or those of the Slurm allocation, with the command that reaches them unless another one is named.
pub(crate) fn named_nodes(names: Vec<String>, agent: Option<String>) -> anyhow::Result<NamedNodes> {
    let (names, usual) = if names == ["slurm"] {
        let list = std::env::var(VARIABLE).unwrap_or_default();
        let names = self::names(&list).map_err(|reason| {
            anyhow!("--nodes slurm works within an allocation (salloc, sbatch); ${VARIABLE}: {reason}")
        })?;
        (names, AGENT)
    } else {
        (names, "ssh")
    };
    Ok(NamedNodes { names, agent: agent.unwrap_or_else(|| usual.to_owned()) })
}

/// Returns the names in a list.
///
/// # Errors
/// Returns what is wrong with the list.
fn names(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.extend(expanded(part)?);
        if names.len() > NODES_MAX {
            return Err(format!("{list} names more than {NODES_MAX} nodes"));
        }
    }
    if names.is_empty() || names.iter().any(String::is_empty) {
        return Err(format!("{list:?} has an empty name"));
    }
    Ok(names)
}

/// Splits the list at commas outside of brackets.
fn parts(list: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_within) = (Vec::new(), 0, false);
    for (at, character) in list.char_indices() {
        match character {
            '[' if !is_within => is_within = true,
            ']' if is_within => is_within = false,
            '[' | ']' => return Err(format!("the brackets of {list} do not match")),
            ',' if !is_within => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_within {
        return Err(format!("the brackets of {list} do not match"));
    }
    parts.push(&list[start..]);
    Ok(parts)
}

/// Expands one part, whose brackets match.
fn expanded(part: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = part.split_once('[') else { return Ok(vec![part.to_owned()]) };
    let (within, after) = rest.split_once(']').expect("brackets match");
    let after = expanded(after)?;
    let mut names = Vec::new();
    for range in within.split(',') {
        for number in numbers(range)? {
            names.extend(after.iter().map(|after| format!("{before}{number}{after}")));
            if names.len() > NODES_MAX {
                return Err(format!("{part} names more than {NODES_MAX} nodes"));
            }
        }
    }
    Ok(names)
}

/// Expands a number or a range of numbers. All have as many digits as the first.
fn numbers(range: &str) -> Result<impl Iterator<Item = String>, String> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{range:?} is not a range of numbers"));
    let (digits, first, last) = (first.len(), number(first)?, number(last)?);
    if first > last {
        return Err(format!("{range:?} runs backwards"));
    }
    Ok((first..=last).map(move |number| format!("{number:0digits$}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_node_lists_are_expanded() {
        let of = |list: &str| names(list).map(|names| names.join(" "));
        assert_eq!(of("login"), Ok("login".into()));
        assert_eq!(of("n[1-3,07-08,12],login"), Ok("n1 n2 n3 n07 n08 n12 login".into()));
        assert_eq!(of("n[098-101]"), Ok("n098 n099 n100 n101".into()));
        assert_eq!(of("r[1-2]n[3,5]-ib,x"), Ok("r1n3-ib r1n5-ib r2n3-ib r2n5-ib x".into()));
    }

    #[test]
    fn malformed_node_lists_are_refused() {
        for list in ["", "a,,b", "n[1-", "n1]", "n[[1]]", "n[3-1]", "n[x]", "n[1-4000000000]", "n[0-9999][0-9999]"] {
            assert!(names(list).is_err(), "{list}");
        }
    }
}
