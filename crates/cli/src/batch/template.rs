//! Fills the placeholders of a template. A placeholder is a word of capitals between two `@`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Values of placeholders, by their names.
pub(super) type Values<'a> = [(&'a str, &'a OsStr)];

/// Returns the template with its placeholders filled. Values are not searched for placeholders.
///
/// # Panics
/// If a placeholder has no value: templates are part of this program.
pub(super) fn fill(template: &str, values: &Values<'_>) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('@') {
        filled.extend_from_slice(before.as_bytes());
        match after.split_once('@') {
            Some((name, after)) if is_name(name) => {
                let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
                let value = value.unwrap_or_else(|| panic!("the template's {name} has a value"));
                filled.extend_from_slice(value.as_bytes());
                rest = after;
            }
            _ => {
                filled.push(b'@');
                rest = after;
            }
        }
    }
    filled.extend_from_slice(rest.as_bytes());
    filled
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_searched_for_placeholders() {
        let values = [("A", OsStr::new("@B@")), ("B", OsStr::new("b"))];
        assert_eq!(fill("x @A@ y@@B@ me@here @a@", &values), b"x @B@ y@b me@here @a@");
    }
}
