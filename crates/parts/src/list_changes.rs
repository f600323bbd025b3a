//! Lists that are said again and again: only what has changed is said.

use serde::{Deserialize, Serialize};

/// What has changed in a list: values that follow each other, after the position of the first. The first time that is all of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListChanges<T>(Vec<(usize, Vec<T>)>);

impl<T: Clone + PartialEq> ListChanges<T> {
    /// Returns what has changed since the list was `before`. A list never becomes shorter.
    pub fn between(before: &[T], now: &[T]) -> Self {
        let mut runs: Vec<(usize, Vec<T>)> = Vec::new();
        for (at, value) in now.iter().enumerate().filter(|(at, value)| before.get(*at) != Some(*value)) {
            match runs.last_mut() {
                Some((first, values)) if *first + values.len() == at => values.push(value.clone()),
                _ => runs.push((at, vec![value.clone()])),
            }
        }
        Self(runs)
    }

    /// Changes the list in the same way. Returns whether the positions fit.
    pub fn apply(self, list: &mut Vec<T>) -> bool {
        for (first, values) in self.0 {
            if first > list.len() {
                return false;
            }
            for (value, at) in values.into_iter().zip(first..) {
                if at < list.len() {
                    list[at] = value;
                } else {
                    list.push(value);
                }
            }
        }
        true
    }

    /// Returns the changed values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flat_map(|(_, values)| values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_follows_what_has_changed_in_another() {
        let lists = [vec![1, 2], vec![1, 3], vec![1, 3], vec![4, 3, 5]];
        let changes = ["[[0,[1,2]]]", "[[1,[3]]]", "[]", "[[0,[4]],[2,[5]]]"];
        let (mut before, mut followed) = (Vec::new(), Vec::new());
        for (list, expected) in lists.into_iter().zip(changes) {
            let said = serde_json::to_string(&ListChanges::between(&before, &list)).unwrap();
            assert_eq!(said, expected);
            assert!(serde_json::from_str::<ListChanges<u8>>(&said).unwrap().apply(&mut followed));
            assert_eq!(followed, list);
            before = list;
        }
        assert!(!ListChanges(vec![(7, vec![1])]).apply(&mut followed), "there is no such position");
        assert!(!ListChanges(vec![(usize::MAX, vec![1])]).apply(&mut followed));
    }
}
