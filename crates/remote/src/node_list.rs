//! The nodes of a job, in a file that all of its processes can read: a line for each, with its name and the address of its
//! server.

use crate::RemoteError;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The nodes of a job, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeList(BTreeMap<String, SocketAddr>);

impl NodeList {
    /// Reads them from a file.
    ///
    /// # Errors
    /// When it cannot be read, or has a line of another form.
    pub fn load(path: &Path) -> Result<Self, RemoteError> {
        let text = fs::read_to_string(path).map_err(|source| RemoteError::File { path: path.to_owned(), source })?;
        let node = |line: &str| {
            let parts = line.split_once(' ').and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
            parts.ok_or_else(|| RemoteError::Line { path: path.to_owned(), line: line.to_owned() })
        };
        text.lines().map(node).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the address of a node's server.
    ///
    /// # Errors
    /// When the job has no such node.
    pub(crate) fn address(&self, node: &str) -> Result<SocketAddr, RemoteError> {
        let unknown = || {
            let nodes = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            RemoteError::Unknown { node: node.to_owned(), nodes }
        };
        self.0.get(node).copied().ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "a 10.0.0.1:4711\nb [::1]:80\n").unwrap();
        let nodes = NodeList::load(file.path()).unwrap();
        assert_eq!(nodes.address("b").unwrap(), "[::1]:80".parse().unwrap());
        assert_eq!(nodes.address("c").unwrap_err().to_string(), "c is not a node of the job; its nodes: a, b");
        fs::write(file.path(), "a 10.0.0.1\n").unwrap();
        assert!(matches!(NodeList::load(file.path()), Err(RemoteError::Line { .. })));
    }
}
