//! Makes a script that fails as small as possible: removes steps, many at first, as long as the rest still fails.

use super::script::Script;
use anyhow::Result;

/// Returns the smallest script that was found for which `fails` holds. It holds for `script`.
///
/// # Errors
/// When `fails` cannot tell.
pub(super) fn shrink(script: &Script, mut fails: impl FnMut(&Script) -> Result<bool>) -> Result<Script> {
    let mut smallest = script.clone();
    if !smallest.options.is_empty() {
        let plain = Script { options: Vec::new(), ..smallest.clone() };
        if fails(&plain)? {
            smallest = plain;
        }
    }
    let mut size = smallest.steps.len().div_ceil(2);
    while size > 0 {
        let mut removed = false;
        let mut end = smallest.steps.len();
        // From the end on, since later steps depend on earlier ones.
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut smaller = smallest.clone();
            smaller.steps.drain(start..end);
            if fails(&smaller)? {
                smallest = smaller;
                removed = true;
            }
            end = start;
        }
        size = if size == 1 && removed { 1 } else { size / 2 };
    }
    Ok(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let steps = (0..60).map(|number| number.to_string()).collect();
        let script = Script { options: vec!["--delta".to_owned()], steps };
        let has = |script: &Script, step: &str| script.steps.iter().any(|it| it == step);
        let smallest = shrink(&script, |it| Ok(has(it, "7") && has(it, "41"))).unwrap();
        assert_eq!(smallest.steps, ["7", "41"]);
        assert!(smallest.options.is_empty());
    }

    #[test]
    fn options_that_matter_stay() {
        let script = Script { options: vec!["--delta".to_owned()], steps: vec!["1".to_owned()] };
        assert_eq!(shrink(&script, |it| Ok(it.options.len() == 1)).unwrap().options.len(), 1);
    }
}
