//! The form of error messages: the cause, then a line `hint: remedy` for each thing that the user can do.

/// The separator between a cause and a hint, and between hints.
pub const HINT: &str = "\nhint: ";

/// Returns the message without its hints, for use within another sentence.
pub fn cause(message: &str) -> &str {
    message.split_once(HINT).map_or(message, |(cause, _)| cause)
}

/// Returns the lines to print: the cause, then each hint with the prefix `hint: `.
pub fn message_lines(message: &str) -> impl Iterator<Item = String> {
    message
        .split(HINT)
        .enumerate()
        .map(|(place, part)| if place == 0 { part.to_owned() } else { format!("hint: {part}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_lines_of_their_own() {
        let message = "no space left\nhint: free some\nhint: choose another directory";
        assert_eq!(cause(message), "no space left");
        let lines: Vec<_> = message_lines(message).collect();
        assert_eq!(lines, ["no space left", "hint: free some", "hint: choose another directory"]);
        assert_eq!(cause("no hint"), "no hint");
    }
}
